//! The time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The clock of the machine. Tests advance it in place of waiting; clones share that.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Seconds since 1970.
    pub fn now(&self) -> i64 {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        i64::try_from(seconds).unwrap_or(i64::MAX).saturating_add(self.0.load(Ordering::Relaxed))
    }

    /// For intervals: it never goes back.
    pub fn instant(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.0.load(Ordering::Relaxed).unsigned_abs())
    }

    pub fn advance(&self, seconds: u16) {
        self.0.fetch_add(i64::from(seconds), Ordering::Relaxed);
    }
}

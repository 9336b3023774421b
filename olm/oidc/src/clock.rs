//! The time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The system clock. Tests advance it instead of waiting; clones share the offset.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Seconds since 1970.
    pub fn now(&self) -> i64 {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        i64::try_from(seconds).unwrap_or(i64::MAX).saturating_add(self.0.load(Ordering::Relaxed))
    }

    /// For intervals: monotonic.
    pub fn instant(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.0.load(Ordering::Relaxed).unsigned_abs())
    }

    pub fn advance(&self, seconds: u16) {
        self.0.fetch_add(i64::from(seconds), Ordering::Relaxed);
    }
}

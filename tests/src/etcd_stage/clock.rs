//! The clock of a stage's operators, to skip waits of minutes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use etcd_operator::controller::Clock;
use jiff::{SignedDuration, Timestamp};

/// How far their clocks are ahead of those of the API server and the kubelet. Cheap to clone; all clones are
/// one.
#[derive(Debug, Clone, Default)]
pub struct ClockOffset {
    seconds: Arc<AtomicI64>,
}

impl ClockOffset {
    /// Sets how far they are ahead.
    pub fn set(&self, by: Duration) {
        self.seconds.store(i64::try_from(by.as_secs()).unwrap_or_default(), Ordering::Relaxed);
    }

    pub(super) fn clock(&self) -> Clock {
        let seconds = Arc::clone(&self.seconds);
        Arc::new(move || Timestamp::now() + SignedDuration::from_secs(seconds.load(Ordering::Relaxed)))
    }
}

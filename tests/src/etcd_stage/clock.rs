//! The clock of the operators of a stage: what they wait for minutes for need not take minutes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use etcd_operator::controller::Clock;
use jiff::{SignedDuration, Timestamp};

/// How far their clocks are ahead of those of the API server and the kubelet. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Ahead {
    seconds: Arc<AtomicI64>,
}

impl Ahead {
    /// From now on they are ahead by so much.
    pub fn set(&self, by: Duration) {
        self.seconds.store(i64::try_from(by.as_secs()).unwrap_or_default(), Ordering::Relaxed);
    }

    pub(super) fn clock(&self) -> Clock {
        let seconds = Arc::clone(&self.seconds);
        Arc::new(move || Timestamp::now() + SignedDuration::from_secs(seconds.load(Ordering::Relaxed)))
    }
}

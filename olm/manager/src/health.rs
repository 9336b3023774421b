//! Liveness: detects reconcile loops that are stuck.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A reconciliation makes a few dozen requests of at most a minute each, nearly always of milliseconds; one
/// that takes this long is stuck, and only a restart helps. An unreachable API server makes reconciliations
/// fail, not hang.
const STUCK: Duration = Duration::from_secs(15 * 60);

/// Running reconciliations.
#[derive(Debug, Default)]
pub(crate) struct Health {
    running: Mutex<HashMap<u64, (String, Instant)>>,
    next: AtomicU64,
}

/// A running reconciliation, until it is dropped.
pub(crate) struct Running {
    health: Arc<Health>,
    id: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.health.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Health {
    pub(crate) fn begin(self: &Arc<Self>, what: String) -> Running {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(id, (what, Instant::now()));
        Running { health: Arc::clone(self), id }
    }

    /// A stuck reconciliation, and for how long it has been running.
    pub(crate) fn stuck(&self, now: Instant) -> Option<(String, Duration)> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let (what, since) = running.values().min_by_key(|(_, since)| *since)?;
        let elapsed = now.saturating_duration_since(*since);
        (elapsed >= STUCK).then(|| (what.clone(), elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reconciliation_that_does_not_end_is_stuck() {
        let health = Arc::<Health>::default();
        let first = health.begin("csv/a".into());
        let now = Instant::now();
        assert_eq!(health.stuck(now + STUCK / 2), None);
        let (what, since) = health.stuck(now + STUCK).expect("it does not end");
        assert_eq!(what, "csv/a");
        assert!(since >= STUCK);

        drop(first);
        assert_eq!(health.stuck(now + STUCK), None);
    }
}

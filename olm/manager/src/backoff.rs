//! The back-off after the n-th failure of one object: 1 s, doubled up to 5 min, reset on success.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// Consecutive failures by object. Retries never end: no error is terminal, only its reporting changes.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: Mutex<HashMap<String, u32>>,
}

impl Backoff {
    /// Counts a failure of `key` and returns the delay before the next attempt.
    pub(crate) fn failed(&self, key: &str) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key.to_owned()).or_insert(0);
        let wait = FIRST.saturating_mul(1 << (*count).min(16)).min(LONGEST);
        *count = count.saturating_add(1);
        wait
    }

    /// Number of objects whose last attempt failed.
    pub(crate) fn failing(&self) -> usize {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Resets the failures of `key`.
    pub(crate) fn succeeded(&self, key: &str) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_five_minutes_and_starts_over_after_a_success() {
        let backoff = Backoff::default();
        let waits: Vec<u64> = (0..11).map(|_| backoff.failed("a").as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.failed("b").as_secs(), 1, "objects do not share a back-off");
        assert_eq!(backoff.failing(), 2);
        backoff.succeeded("a");
        assert_eq!(backoff.failing(), 1);
        assert_eq!(backoff.failed("a").as_secs(), 1);
    }
}

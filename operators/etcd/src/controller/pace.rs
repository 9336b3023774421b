//! Delay until the next reconciliation without an event: Kubernetes has watches for pods, etcd has none for
//! its members.

use std::time::Duration;

/// Interval for a healthy cluster.
pub(super) const STEADY: Duration = Duration::from_secs(8);
/// Interval for a cluster without changes over several reconciliations.
const IDLE: Duration = Duration::from_secs(32);
/// Reconciliations without action and change until a cluster counts as calm.
const IDLE_AFTER: u32 = 4;
/// First delay after a change, as pending work often completes quickly; it doubles up to the delay that the
/// plan requests.
const EAGER: Duration = Duration::from_millis(50);
/// After this many reconciliations without change, pending work takes long: an image that cannot be pulled, a
/// learner with much to fetch. Each observation calls Kubernetes and all members.
const PATIENT_AFTER: u32 = 60;
const PATIENT: Duration = Duration::from_secs(2);
/// Delay before a change that etcd did not accept yet is retried.
pub(super) const TRY: Duration = Duration::from_millis(100);

/// Delay after `unchanged` consecutive reconciliations without change; `again` is the delay that the plan
/// requests while it waits.
pub(super) fn next(unchanged: u32, again: Option<Duration>) -> Duration {
    match again {
        None if unchanged > IDLE_AFTER => IDLE,
        None => STEADY,
        Some(again) if unchanged > PATIENT_AFTER => again.max(PATIENT),
        Some(again) => again.min(EAGER.saturating_mul(1 << unchanged.min(10))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_awaited_state_is_polled_soon_then_as_requested_then_seldom() {
        let asked = Duration::from_millis(250);
        let waits: Vec<u128> = (0..5).map(|unchanged| next(unchanged, Some(asked)).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 250, 250]);
        assert_eq!(next(60, Some(asked)), asked);
        assert_eq!(next(61, Some(asked)), PATIENT);
        // Wake close to a known deadline, without polling for it.
        let known = Duration::from_secs(5);
        assert_eq!(next(9, Some(known)), known);
        assert_eq!(next(61, Some(known)), known);
    }

    #[test]
    fn a_cluster_that_stays_as_it_is_becomes_calm() {
        assert_eq!([next(0, None), next(4, None), next(5, None)], [STEADY, STEADY, IDLE]);
    }
}

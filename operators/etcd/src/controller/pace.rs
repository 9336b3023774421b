//! How soon a cluster is looked at again, when nothing is heard of it: what happens to pods is told by Kubernetes, what happens in etcd
//! by nobody.

use std::time::Duration;

/// A healthy cluster is looked at this often.
pub(super) const STEADY: Duration = Duration::from_secs(8);
/// One that stays as it is, look after look, is looked at as seldom as this.
const CALM: Duration = Duration::from_secs(32);
/// So many looks that find nothing to do and nothing new make a cluster calm.
const CALM_AFTER: u32 = 4;
/// What is waited for is often there in a moment: the first look after something new comes after this, and each further one after twice
/// as long, until it is as long as the plan asks for.
const EAGER: Duration = Duration::from_millis(50);
/// After so many looks that found nothing new it takes longer than a moment: an image that cannot be pulled, a learner with much to
/// fetch. Each look asks Kubernetes and all members.
const PATIENT_AFTER: u32 = 60;
const PATIENT: Duration = Duration::from_secs(2);
/// What etcd did not do yet is tried again this soon.
pub(super) const TRY: Duration = Duration::from_millis(100);

/// After how long, when so many looks in a row found nothing new; `again` is what the plan asks for while it waits for something.
pub(super) fn next(looks: u32, again: Option<Duration>) -> Duration {
    match again {
        None if looks > CALM_AFTER => CALM,
        None => STEADY,
        Some(again) if looks > PATIENT_AFTER => again.max(PATIENT),
        Some(again) => again.min(EAGER.saturating_mul(1 << looks.min(10))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_looked_at_soon_then_as_asked_for_then_seldom() {
        let asked = Duration::from_millis(250);
        let waits: Vec<u128> = (0..5).map(|looks| next(looks, Some(asked)).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 250, 250]);
        assert_eq!(next(60, Some(asked)), asked);
        assert_eq!(next(61, Some(asked)), PATIENT);
        // A moment that the plan knows is not missed by much, and not asked for again and again.
        let known = Duration::from_secs(5);
        assert_eq!(next(9, Some(known)), known);
        assert_eq!(next(61, Some(known)), known);
    }

    #[test]
    fn a_cluster_that_stays_as_it_is_becomes_calm() {
        assert_eq!([next(0, None), next(4, None), next(5, None)], [STEADY, STEADY, CALM]);
    }
}

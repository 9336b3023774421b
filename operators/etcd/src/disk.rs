//! Detects members whose disks fill up. The operator cannot read the usage of a disk; it has a lower bound
//! of etcd's usage.

use crate::observed::Observed;

/// Lower bound of the size of etcd's log: the active file and the preallocated one, 64 MiB each.
const LOG_AT_LEAST: u64 = 128 << 20;
/// Space that etcd needs besides its database: five log files, one preallocated, and as much again for
/// snapshots in transfer.
const BESIDE_DATABASE: u64 = 640 << 20;
/// Usage from which a disk is reported.
const NEARLY_FULL_PERCENT: u64 = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NearlyFull<'a> {
    pub(crate) name: &'a str,
    /// Lower bound of the bytes that etcd uses.
    used: u64,
    /// Bytes of its volume.
    capacity: u64,
}

impl std::fmt::Display for NearlyFull<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} uses at least {} of {} MiB", self.name, self.used >> 20, self.capacity >> 20)
    }
}

/// Members with nearly full volumes, of those that answer and whose volumes have a known size.
pub(crate) fn nearly_full(observed: &Observed) -> Vec<NearlyFull<'_>> {
    let member = |(name, endpoint): (&'_ String, &crate::observed::Endpoint)| {
        let claim = observed.claim(name)?;
        let (capacity, used) = (claim.capacity?, endpoint.db_size.saturating_add(LOG_AT_LEAST));
        let full = used.saturating_mul(100) >= capacity.saturating_mul(NEARLY_FULL_PERCENT);
        full.then_some(NearlyFull { name: &claim.name, used, capacity })
    };
    observed.endpoints.iter().filter_map(member).collect()
}

/// A hint where the volume is full before the database reaches its quota, so that etcd's alarm NOSPACE would
/// come too late.
pub(crate) fn note(field: &str, size: u64, quota: u64) -> Option<String> {
    let needed = quota.saturating_add(BESIDE_DATABASE);
    if size >= needed {
        return None;
    }
    let smaller = size.saturating_sub(BESIDE_DATABASE) >> 20;
    let quota_hint = if smaller == 0 {
        String::new()
    } else {
        format!(", or spec.maintenance.quota to {smaller}Mi or less")
    };
    Some(format!(
        "{field}: the disk is full before the database reaches its quota of {}Mi; set it to {}Mi or more{quota_hint}",
        quota >> 20,
        needed >> 20
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::observed::{ClaimView, Endpoint};

    #[test]
    fn a_disk_is_nearly_full_at_four_fifths_of_its_size() {
        let found = |db_size: u64, capacity: Option<u64>| {
            let observed = Observed {
                claims: vec![ClaimView { name: "a".into(), capacity, ..ClaimView::default() }],
                endpoints: BTreeMap::from([("a".into(), Endpoint { db_size, ..Endpoint::default() })]),
                ..Observed::default()
            };
            nearly_full(&observed).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found(671 << 20, Some(1000 << 20)).is_empty());
        assert_eq!(found(672 << 20, Some(1000 << 20)), ["a uses at least 800 of 1000 MiB"]);
        assert_eq!(found(u64::MAX, Some(0)).len(), 1);
        assert!(found(u64::MAX, None).is_empty());
    }

    #[test]
    fn a_volume_that_is_full_before_the_quota_is_reached_gets_a_note() {
        let quota = 2 << 30;
        assert_eq!(note("f", quota + BESIDE_DATABASE, quota), None);
        let text = note("f", 1 << 30, quota).unwrap();
        assert_eq!(
            text,
            "f: the disk is full before the database reaches its quota of 2048Mi; set it to 2688Mi or more, or spec.maintenance.quota to 384Mi or less"
        );
        assert!(!note("f", 64 << 20, quota).unwrap().contains("maintenance.quota"));
    }
}

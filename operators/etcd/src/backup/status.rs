//! The status of a backup, a pure function of what was before and what happened.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::run::Good;
use super::schedule::Next;
use crate::crd::backup::EtcdBackupStatus;

/// Before a try begins.
pub(crate) fn running(
    old: &EtcdBackupStatus,
    generation: Option<i64>,
    slot: Timestamp,
    now: Timestamp,
) -> EtcdBackupStatus {
    let changed = old.observed_generation != generation;
    EtcdBackupStatus {
        phase: "Running".into(),
        observed_generation: generation,
        last_attempt: Some(Time(now)),
        // Tries again are part of the turn that failed.
        last_schedule_time: if old.failures > 0 && old.last_schedule_time.is_some() {
            old.last_schedule_time.clone()
        } else {
            Some(Time(slot))
        },
        failures: if changed { 0 } else { old.failures },
        // What was waited for is there. Why the last try failed is told until this one is over.
        reason: if old.failures == 0 { String::new() } else { old.reason.clone() },
        reason_upstream: if old.failures == 0 { String::new() } else { old.reason_upstream.clone() },
        progress_bytes: 0,
        next_backup: None,
        ..old.clone()
    }
}

/// After a good one.
pub(crate) fn succeeded(old: &EtcdBackupStatus, good: &Good, now: Timestamp) -> EtcdBackupStatus {
    EtcdBackupStatus {
        phase: "Succeeded".into(),
        succeeded: true,
        reason: String::new(),
        reason_upstream: String::new(),
        etcd_version: good.version.clone(),
        etcd_revision: good.revision,
        last_success_date: Some(Time(now)),
        object: good.uri.clone(),
        size_bytes: i64::try_from(good.whole.size).unwrap_or(i64::MAX),
        sha256: good.whole.sha256.clone(),
        cluster_id: good.cluster_id.clone(),
        endpoint: good.endpoint.clone(),
        skipped_endpoints: good.skipped.clone(),
        encryption_key: good.key.clone(),
        progress_bytes: 0,
        failures: 0,
        upload: None,
        retention_reason: good.retention.clone(),
        ..old.clone()
    }
}

/// After one that failed and is tried again. What is known of the last good one stays, and so does an upload that is still to be
/// taken back.
pub(crate) fn failed(old: &EtcdBackupStatus, reason: &str) -> EtcdBackupStatus {
    EtcdBackupStatus {
        phase: "Retrying".into(),
        succeeded: false,
        reason: reason.to_owned(),
        reason_upstream: reason.to_owned(),
        progress_bytes: 0,
        failures: old.failures.saturating_add(1),
        ..old.clone()
    }
}

/// A spec that cannot be served: nothing is tried until it changes.
pub(crate) fn refused(old: &EtcdBackupStatus, reason: &str, generation: Option<i64>) -> EtcdBackupStatus {
    EtcdBackupStatus {
        phase: "Failed".into(),
        observed_generation: generation,
        next_backup: None,
        failures: 0,
        ..failed(old, reason)
    }
}

/// There is nothing to back up yet. What makes it due (that one was interrupted, or that the spec is a new one) stays as it was.
pub(crate) fn put_off(old: &EtcdBackupStatus, reason: &str) -> EtcdBackupStatus {
    EtcdBackupStatus {
        phase: if old.phase == "Running" { old.phase.clone() } else { "Pending".into() },
        reason: reason.to_owned(),
        reason_upstream: reason.to_owned(),
        next_backup: None,
        ..old.clone()
    }
}

/// What is told while nothing is to be done.
pub(crate) fn waiting(old: &EtcdBackupStatus, next: Next, generation: Option<i64>) -> EtcdBackupStatus {
    EtcdBackupStatus {
        phase: if old.phase.is_empty() { "Pending".into() } else { old.phase.clone() },
        observed_generation: generation,
        next_backup: match next {
            Next::At(time) => Some(Time(time)),
            Next::Now | Next::Never => None,
        },
        ..old.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Whole;

    fn good() -> Good {
        Good {
            uri: "s3://b/k".into(),
            whole: Whole { size: 8224, sha256: "ab".into() },
            revision: 9,
            version: "3.4.23".into(),
            cluster_id: "7".into(),
            endpoint: "a:2379".into(),
            skipped: vec!["b:2379: refused".into()],
            key: String::new(),
            retention: String::new(),
        }
    }

    #[test]
    fn a_failure_keeps_what_is_known_of_the_last_good_one_and_says_why_under_both_names() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let begun = running(&EtcdBackupStatus::default(), Some(3), now, now);
        assert_eq!((begun.phase.as_str(), begun.observed_generation), ("Running", Some(3)));
        let done = succeeded(&begun, &good(), now);
        assert!(done.succeeded && done.failures == 0 && done.skipped_endpoints.len() == 1);
        let bad = failed(&running(&done, Some(3), now, now), "AccessDenied");
        assert_eq!((bad.reason.as_str(), bad.reason_upstream.as_str()), ("AccessDenied", "AccessDenied"));
        assert_eq!((bad.succeeded, bad.failures, bad.etcd_revision), (false, 1, 9));
        assert_eq!((bad.phase.as_str(), refused(&bad, "no", Some(4)).phase.as_str()), ("Retrying", "Failed"));
        assert_eq!(bad.last_success_date, done.last_success_date);
        let again = succeeded(&bad, &good(), now);
        assert!(again.reason.is_empty() && again.reason_upstream.is_empty());
    }

    #[test]
    fn what_is_put_off_stays_due() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let begun = running(&EtcdBackupStatus::default(), Some(1), now, now);
        let put_off_status = put_off(&begun, "waiting");
        assert_eq!((put_off_status.phase.as_str(), put_off_status.reason.as_str()), ("Running", "waiting"));
        let again = running(&put_off_status, Some(1), now, now);
        assert!(again.reason.is_empty() && again.reason_upstream.is_empty(), "{again:?}");
        let done = put_off(&succeeded(&begun, &good(), now), "waiting");
        assert_eq!((done.phase.as_str(), done.observed_generation), ("Pending", Some(1)));
    }

    #[test]
    fn tries_again_belong_to_the_turn_that_failed() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later = now + jiff::SignedDuration::from_secs(30);
        let bad = failed(&running(&EtcdBackupStatus::default(), Some(1), now, now), "x");
        assert_eq!(running(&bad, Some(1), later, later).last_schedule_time, Some(Time(now)));
    }
}

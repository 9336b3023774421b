//! Status of a backup: a pure function of the previous status and the event.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::run::CompletedBackup;
use super::schedule::Next;
use crate::crd::backup::EtcdBackupStatus;

/// Status at the start of an attempt.
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
        // Retries belong to the scheduled time that failed.
        last_schedule_time: if old.failures > 0 && old.last_schedule_time.is_some() {
            old.last_schedule_time.clone()
        } else {
            Some(Time(slot))
        },
        failures: if changed { 0 } else { old.failures },
        // The prerequisite is met. The cause of a failure stays until this attempt ends.
        reason: if old.failures == 0 { String::new() } else { old.reason.clone() },
        reason_upstream: if old.failures == 0 { String::new() } else { old.reason_upstream.clone() },
        progress_bytes: 0,
        next_backup: None,
        ..old.clone()
    }
}

pub(crate) fn succeeded(old: &EtcdBackupStatus, good: &CompletedBackup, now: Timestamp) -> EtcdBackupStatus {
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

/// Status after a failed attempt that is retried. The last successful backup and an upload still to be
/// aborted stay recorded.
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

/// An invalid spec: no attempt until it changes.
pub(crate) fn refused(old: &EtcdBackupStatus, reason: &str, generation: Option<i64>) -> EtcdBackupStatus {
    EtcdBackupStatus {
        phase: "Failed".into(),
        observed_generation: generation,
        next_backup: None,
        failures: 0,
        ..failed(old, reason)
    }
}

/// Nothing to back up yet. What makes it due (an interrupted backup, or a new spec) stays unchanged.
pub(crate) fn postpone(old: &EtcdBackupStatus, reason: &str) -> EtcdBackupStatus {
    EtcdBackupStatus {
        phase: if old.phase == "Running" { old.phase.clone() } else { "Pending".into() },
        reason: reason.to_owned(),
        reason_upstream: reason.to_owned(),
        next_backup: None,
        ..old.clone()
    }
}

/// Status while no backup is due.
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
    use crate::storage::VerifiedSnapshot;

    fn good() -> CompletedBackup {
        CompletedBackup {
            uri: "s3://b/k".into(),
            whole: VerifiedSnapshot { size: 8224, sha256: "ab".into() },
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
    fn a_failure_keeps_the_last_success_and_reports_the_reason_under_both_names() {
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
    fn a_postponed_backup_stays_due() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let begun = running(&EtcdBackupStatus::default(), Some(1), now, now);
        let postponed = postpone(&begun, "waiting");
        assert_eq!((postponed.phase.as_str(), postponed.reason.as_str()), ("Running", "waiting"));
        let again = running(&postponed, Some(1), now, now);
        assert!(again.reason.is_empty() && again.reason_upstream.is_empty(), "{again:?}");
        let done = postpone(&succeeded(&begun, &good(), now), "waiting");
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

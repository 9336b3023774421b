//! Start of the next backup: a pure function of spec, status and time. The status holds all required state of
//! earlier runs, so a new operator continues where the last one stopped.

use std::str::FromStr;
use std::time::Duration;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::crd::backup::{EtcdBackupSpec, EtcdBackupStatus};

/// First retry delay of a failed backup; it doubles with each failure.
const BACKOFF: SignedDuration = SignedDuration::from_secs(5);
const BACKOFF_MAX: SignedDuration = SignedDuration::from_secs(600);
/// The longest interval, a hundred years: a longer one is a mistake and exceeds the calendar.
const LONGEST: i64 = 100 * 365 * 24 * 3600;

/// Schedule, deadline and retention.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) trigger: Trigger,
    /// Deadline set by the user for one backup.
    pub(crate) timeout: Option<Duration>,
    /// Retained backups; 0 for all.
    pub(crate) keep: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Trigger {
    Once,
    Every(SignedDuration),
    Cron(Box<Cron>),
}

impl Trigger {
    pub(crate) const fn is_periodic(&self) -> bool {
        !matches!(self, Self::Once)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    /// Not before this time.
    At(Timestamp),
    /// The single backup is complete.
    Never,
}

/// Parses and validates the policy.
pub(crate) fn policy(spec: &EtcdBackupSpec) -> Result<Policy, String> {
    let given = spec.backup_policy.clone().unwrap_or_default();
    let field = "spec.backupPolicy";
    let interval = given.backup_interval_in_second;
    if !(0..=LONGEST).contains(&interval) {
        return Err(format!(
            "{field}.backupIntervalInSecond: invalid value {interval}, expected 0 to {LONGEST}"
        ));
    }
    if given.max_backups < 0 {
        return Err(format!(
            "{field}.maxBackups: invalid value {}, expected 0 (retain all) or more",
            given.max_backups
        ));
    }
    let trigger = match given.schedule.as_deref().filter(|text| !text.trim().is_empty()) {
        Some(_) if interval > 0 => {
            return Err(format!("{field}: schedule and backupIntervalInSecond are mutually exclusive"));
        }
        Some(text) => {
            let cron =
                Cron::from_str(text).map_err(|error| format!("{field}.schedule: {text:?}: {error}"))?;
            Trigger::Cron(Box::new(cron))
        }
        None if interval > 0 => Trigger::Every(SignedDuration::from_secs(interval)),
        None => Trigger::Once,
    };
    let timeout = u64::try_from(given.timeout_in_second).ok().filter(|seconds| *seconds > 0);
    Ok(Policy {
        trigger,
        timeout: timeout.map(Duration::from_secs),
        keep: usize::try_from(given.max_backups).unwrap_or_default(),
    })
}

pub(crate) fn next(
    policy: &Policy,
    status: &EtcdBackupStatus,
    generation: Option<i64>,
    created: Timestamp,
    now: Timestamp,
) -> Next {
    let changed = status.observed_generation.is_some() && status.observed_generation != generation;
    // Reconciles of one object are sequential: a backup in status Running was interrupted.
    if status.phase == "Running" {
        return Next::Now;
    }
    if status.failures > 0 && !changed {
        let started = status.last_attempt.as_ref().map_or(now, |time| time.0.min(now));
        return due(started + backoff(status.failures), now);
    }
    // A clock that was set back must not stop backups for that long.
    let last = status.last_schedule_time.as_ref().map(|time| time.0.min(now));
    match (&policy.trigger, last) {
        (Trigger::Once, _) if status.succeeded && !changed => Next::Never,
        (Trigger::Once, _) | (Trigger::Every(_), None) => Next::Now,
        (Trigger::Every(interval), Some(last)) => {
            last.checked_add(*interval).map_or(Next::Never, |time| due(time, now))
        }
        (Trigger::Cron(cron), last) => {
            let after = last.unwrap_or(created).min(now).to_zoned(TimeZone::UTC);
            // None: no such time exists, as with a thirtieth of February.
            cron.find_next_occurrence(&after, false).map_or(Next::Never, |time| due(time.timestamp(), now))
        }
    }
}

/// The scheduled time that a starting backup serves. It is the due time of the schedule, to keep the pace,
/// unless whole intervals were missed.
pub(crate) fn slot(policy: &Policy, status: &EtcdBackupStatus, now: Timestamp) -> Timestamp {
    let last = status.last_schedule_time.as_ref().map(|time| time.0.min(now));
    if let (Trigger::Every(interval), Some(last)) = (&policy.trigger, last)
        && let Ok(time) = last.checked_add(*interval)
        && time <= now
        && now.duration_since(time) < *interval
    {
        return time;
    }
    now
}

fn due(time: Timestamp, now: Timestamp) -> Next {
    if time <= now { Next::Now } else { Next::At(time) }
}

fn backoff(failures: i64) -> SignedDuration {
    let doublings = u32::try_from(failures - 1).unwrap_or_default().min(20);
    BACKOFF.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;
    use serde_json::json;

    fn spec(policy: serde_json::Value) -> EtcdBackupSpec {
        serde_json::from_value(json!({ "storageType": "S3", "backupPolicy": policy })).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn ask(policy_: serde_json::Value, status: &EtcdBackupStatus, now: &str) -> Next {
        next(&policy(&spec(policy_)).unwrap(), status, Some(1), at("2026-01-01T00:00:30Z"), at(now))
    }

    fn ran(last: &str) -> EtcdBackupStatus {
        EtcdBackupStatus {
            phase: "Succeeded".into(),
            succeeded: true,
            observed_generation: Some(1),
            last_schedule_time: Some(Time(at(last))),
            last_attempt: Some(Time(at(last))),
            ..EtcdBackupStatus::default()
        }
    }

    #[test]
    fn one_backup_is_taken_once_and_again_when_the_spec_changes() {
        let fresh = EtcdBackupStatus::default();
        assert_eq!(ask(json!({}), &fresh, "2026-01-01T00:01:00Z"), Next::Now);
        let done = ran("2026-01-01T00:01:00Z");
        assert_eq!(ask(json!({}), &done, "2027-01-01T00:01:00Z"), Next::Never);
        let changed = EtcdBackupStatus { observed_generation: Some(0), ..done };
        assert_eq!(ask(json!({}), &changed, "2027-01-01T00:01:00Z"), Next::Now);
    }

    #[test]
    fn an_interval_begins_at_once_and_a_late_operator_makes_up_for_one_turn_only() {
        let every = json!({ "backupIntervalInSecond": 60 });
        assert_eq!(ask(every.clone(), &EtcdBackupStatus::default(), "2026-01-01T00:00:30Z"), Next::Now);
        let status = ran("2026-01-01T00:01:00Z");
        assert_eq!(ask(every.clone(), &status, "2026-01-01T00:01:10Z"), Next::At(at("2026-01-01T00:02:00Z")));
        assert_eq!(ask(every.clone(), &status, "2026-01-01T00:02:00Z"), Next::Now);
        let policy = policy(&spec(every.clone())).unwrap();
        assert_eq!(slot(&policy, &status, at("2026-01-01T00:02:07Z")), at("2026-01-01T00:02:00Z"));
        let late = at("2026-01-01T00:33:07Z");
        assert_eq!(slot(&policy, &status, late), late);
        assert_eq!(
            ask(every, &ran("2026-01-01T00:33:07Z"), "2026-01-01T00:33:08Z"),
            Next::At(late + SignedDuration::from_secs(60))
        );
    }

    #[test]
    fn cron_is_in_utc_and_counts_from_the_last_run_or_from_the_object() {
        let nightly = json!({ "schedule": "0 3 * * *" });
        let never_ran = EtcdBackupStatus::default();
        assert_eq!(
            ask(nightly.clone(), &never_ran, "2026-01-01T00:00:40Z"),
            Next::At(at("2026-01-01T03:00:00Z"))
        );
        assert_eq!(ask(nightly.clone(), &never_ran, "2026-01-02T00:00:00Z"), Next::Now, "a run was missed");
        assert_eq!(
            ask(nightly.clone(), &ran("2026-01-01T03:00:00Z"), "2026-01-01T03:00:01Z"),
            Next::At(at("2026-01-02T03:00:00Z"))
        );
        assert_eq!(ask(json!({ "schedule": "0 0 30 2 *" }), &never_ran, "2026-01-02T00:00:00Z"), Next::Never);
    }

    #[test]
    fn a_failure_is_tried_again_with_patience_and_at_once_when_the_spec_changes() {
        let failed = |failures| EtcdBackupStatus {
            phase: "Retrying".into(),
            succeeded: false,
            failures,
            ..ran("2026-01-01T00:01:00Z")
        };
        for (failures, second) in [(1, "00:01:05"), (2, "00:01:10"), (3, "00:01:20"), (30, "00:11:00")] {
            let again = at(&format!("2026-01-01T{second}Z"));
            assert_eq!(
                ask(json!({}), &failed(failures), "2026-01-01T00:01:01Z"),
                Next::At(again),
                "{failures}"
            );
        }
        let changed = EtcdBackupStatus { observed_generation: Some(0), ..failed(30) };
        assert_eq!(ask(json!({}), &changed, "2026-01-01T00:01:01Z"), Next::Now);
    }

    #[test]
    fn what_an_operator_left_running_is_begun_anew() {
        let left = EtcdBackupStatus { phase: "Running".into(), ..ran("2026-01-01T00:01:00Z") };
        assert_eq!(ask(json!({ "backupIntervalInSecond": 3600 }), &left, "2026-01-01T00:01:01Z"), Next::Now);
    }

    #[test]
    fn mistakes_are_reported_with_their_field() {
        for (given, words) in [
            (json!({ "backupIntervalInSecond": -1 }), "backupIntervalInSecond: invalid value -1"),
            (json!({ "backupIntervalInSecond": i64::MAX }), "backupIntervalInSecond"),
            (json!({ "maxBackups": -1 }), "maxBackups: invalid value -1"),
            (json!({ "schedule": "every day" }), "schedule: \"every day\""),
            (json!({ "schedule": "0 3 * * *", "backupIntervalInSecond": 5 }), "are mutually exclusive"),
        ] {
            let error = policy(&spec(given)).unwrap_err();
            assert!(error.contains(words), "{words} in {error}");
        }
        assert_eq!(policy(&spec(json!({ "timeoutInSecond": -5 }))).unwrap().timeout, None);
    }

    proptest! {
        /// Under all restarts of the operator and jumps of the clock: never two runs within one interval,
        /// never none in two.
        #[test]
        fn an_interval_holds_at_any_time_of_evaluation(interval in 1i64..10_000, looks in prop::collection::vec(0i64..30_000, 1..200)) {
            let policy = policy(&spec(json!({ "backupIntervalInSecond": interval }))).unwrap();
            let mut now = at("2026-01-01T00:00:00Z");
            let mut status = EtcdBackupStatus { observed_generation: Some(1), ..EtcdBackupStatus::default() };
            let mut last: Option<Timestamp> = None;
            for step in looks {
                now += SignedDuration::from_secs(step);
                match next(&policy, &status, Some(1), now, now) {
                    Next::Now => {
                        let slot = slot(&policy, &status, now);
                        prop_assert!(slot <= now && last.is_none_or(|last| slot.duration_since(last) >= SignedDuration::from_secs(interval)));
                        last = Some(slot);
                        status.last_schedule_time = Some(Time(slot));
                        status.succeeded = true;
                        status.phase = "Succeeded".into();
                    }
                    Next::At(time) => {
                        prop_assert!(time > now && time.duration_since(now) <= SignedDuration::from_secs(interval));
                    }
                    Next::Never => prop_assert!(false, "an interval never ends"),
                }
            }
        }

        #[test]
        fn no_schedule_makes_it_panic(text in "[0-9*/,LW#?@a-z -]{0,20}") {
            if let Ok(policy) = policy(&spec(json!({ "schedule": text }))) {
                let _ = next(&policy, &EtcdBackupStatus::default(), None, at("2026-01-01T00:00:00Z"), at("2026-02-01T00:00:00Z"));
            }
        }
    }
}

//! Parses and validates the user's maintenance settings.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use k8s_openapi::api::core::v1::EnvVar;

use crate::crd::{Defragmentation, MaintenancePolicy};
use crate::validate::amount;

/// etcd's own quota when none is set.
const DEFAULT_QUOTA: u64 = 2 << 30;
/// etcd warns beyond it.
const LARGE_QUOTA: u64 = 8 << 30;
/// A smaller quota is exhausted before the first write.
const SMALLEST_QUOTA: u64 = 1 << 20;
const FREE_SPACE_ABOVE: u64 = 200 << 20;
const QUOTA_USAGE_ABOVE: u64 = 75;
const MIN_RECLAIM: u64 = 32 << 20;
/// Variable of the quota in the environment of etcd, which manifests of coreos/etcd-operator use.
const QUOTA_VARIABLE: &str = "ETCD_QUOTA_BACKEND_BYTES";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// From `spec.maintenance`: passed as a flag.
    quota: Option<u64>,
    /// From the environment: only read.
    quota_of_environment: Option<u64>,
    /// Mode and retention.
    compaction: Option<(String, String)>,
    pub(super) defragmentation: Option<Schedule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) cron: Cron,
    pub(super) free_space_above: u64,
    pub(super) quota_usage_above: u64,
    pub(super) min_reclaim: u64,
}

impl Settings {
    /// Flags of etcd. Their names are the same in all supported versions.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if let Some(quota) = self.quota {
            flags.push(format!("--quota-backend-bytes={quota}"));
        }
        if let Some((mode, retention)) = &self.compaction {
            flags.push(format!("--auto-compaction-mode={mode}"));
            flags.push(format!("--auto-compaction-retention={retention}"));
        }
        flags
    }

    /// Maximum size of the database.
    pub(crate) fn quota(&self) -> u64 {
        self.quota.or(self.quota_of_environment).unwrap_or(DEFAULT_QUOTA)
    }
}

/// Parses the policy. All errors are reported, each with its field.
pub(crate) fn settings(
    policy: Option<&MaintenancePolicy>,
    env: &[EnvVar],
    errors: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Settings {
    let variable = env.iter().find(|var| var.name == QUOTA_VARIABLE).and_then(|var| var.value.clone());
    let quota_of_environment = variable.and_then(|text| text.parse().ok()).filter(|quota| *quota > 0);
    let Some(policy) = policy else { return Settings { quota_of_environment, ..Settings::default() } };
    let mut amount = |field: &str, text: Option<&String>| {
        let text = text.filter(|text| !text.is_empty())?;
        let bytes = bytes(text);
        if bytes.is_none() {
            errors.push(format!(
                "spec.maintenance.{field}: invalid quantity {text:?}, expected one such as 4Gi"
            ));
        }
        bytes
    };
    let quota = amount("quota", policy.quota.as_ref());
    let defragmentation = policy.defragmentation.as_ref().map(|given| {
        (
            given,
            amount("defragmentation.freeSpaceAbove", given.free_space_above.as_ref()),
            amount("defragmentation.minReclaim", given.min_reclaim.as_ref()),
        )
    });
    match quota {
        Some(small) if small < SMALLEST_QUOTA => {
            errors
                .push("spec.maintenance.quota: too small for an empty database, expected 1Mi or more".into());
        }
        Some(large) if large > LARGE_QUOTA => {
            notes.push("spec.maintenance.quota: etcd advises against more than 8Gi".into());
        }
        _ => {}
    }
    if quota.is_some() && quota_of_environment.is_some() {
        errors.push(format!(
            "spec.maintenance.quota: spec.pod.etcdEnv sets {QUOTA_VARIABLE} too; remove one of them"
        ));
    }
    let defragmentation =
        defragmentation.and_then(|(given, free, least)| schedule(given, free, least, errors));
    let compaction = policy.auto_compaction.as_ref().and_then(|given| {
        let mode = given.mode.clone().filter(|mode| !mode.is_empty()).unwrap_or_else(|| "periodic".into());
        match retention(&mode, &given.retention) {
            Ok(()) => Some((mode, given.retention.clone())),
            Err(error) => {
                errors.push(format!("spec.maintenance.autoCompaction.{error}"));
                None
            }
        }
    });
    Settings { quota, quota_of_environment, compaction, defragmentation }
}

fn schedule(
    given: &Defragmentation,
    free_space_above: Option<u64>,
    min_reclaim: Option<u64>,
    errors: &mut Vec<String>,
) -> Option<Schedule> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let cron = match parser.parse(&given.schedule) {
        Ok(cron) => cron,
        Err(error) => {
            let text = &given.schedule;
            errors.push(format!(
                "spec.maintenance.defragmentation.schedule: invalid value {text:?}, expected the five \
                 fields of cron, such as \"0 3 * * *\": {error}"
            ));
            return None;
        }
    };
    let percent = given.quota_usage_above.map_or(Some(QUOTA_USAGE_ABOVE), |p| u64::try_from(p).ok());
    let percent = percent.filter(|percent| (1..=100).contains(percent));
    if percent.is_none() {
        errors.push(
            "spec.maintenance.defragmentation.quotaUsageAbove: invalid value, expected 1 to 100".into(),
        );
    }
    Some(Schedule {
        cron,
        free_space_above: free_space_above.unwrap_or(FREE_SPACE_ABOVE),
        quota_usage_above: percent?,
        min_reclaim: min_reclaim.unwrap_or(MIN_RECLAIM),
    })
}

fn retention(mode: &str, text: &str) -> Result<(), String> {
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    let number = digits.parse::<u32>().ok().filter(|number| *number > 0);
    let unit = text.len() - digits.len();
    match (mode, number, unit) {
        ("periodic", Some(_), 1) | ("revision", Some(_), 0) => Ok(()),
        ("periodic", ..) => {
            Err(format!("retention: invalid value {text:?}, expected a duration such as 5m or 1h"))
        }
        ("revision", ..) => {
            Err(format!("retention: invalid value {text:?}, expected a number of revisions such as 10000"))
        }
        _ => Err(format!("mode: invalid value {mode:?}, expected periodic or revision")),
    }
}

/// A Kubernetes quantity in whole bytes; none if negative or beyond 64 bits.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let amount = amount(text)?;
    (0.0..u64::MAX as f64).contains(&amount).then_some(amount as u64)
}

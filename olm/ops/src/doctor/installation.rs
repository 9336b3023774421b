//! Checks the installation of `olm` itself: presence, versions, readiness.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use olm_engine::site::MANAGER;
use olm_plan::{Access, Rule};
use serde_json::json;

use super::{
    facts::{Facts, Manager},
    problem::{Code, Problem},
};
use crate::manifests::{ManifestOptions, is_newer, manifests};

/// A holder that did not renew for this many lease durations is gone, even with clock skew.
const STALE: i32 = 4;

pub(super) fn unreachable(why: &str) -> Problem {
    Problem::new(Code::ApiUnreachable, None, format!("the API server is not reachable: {why}"))
        .fix("start a dev cluster with `olm up`, or select a cluster with --kubeconfig or --context")
}

/// The cause of an answer with status 401.
pub const CREDENTIALS_REFUSED: &str = "the API server refused the credentials (401 Unauthorized)";
/// What to do about it.
pub const LOG_IN: &str = "log in again with the tool that wrote the kubeconfig, or select another user with --context or \
                          --kubeconfig; `kubectl auth whoami` tests the credentials";

pub(super) fn credentials_refused() -> Problem {
    Problem::new(Code::CredentialsRefused, None, CREDENTIALS_REFUSED).fix(LOG_IN)
}

pub(super) fn check(facts: &Facts, now: Timestamp) -> Vec<Problem> {
    let mut out = Vec::new();
    if let Some(other_olm) = &facts.other_olm {
        let why = format!("{other_olm}; the manager stays idle until it is stopped");
        out.push(
            Problem::new(
                Code::OtherOlmRunning,
                other_olm.deployments.first().map(|d| format!("Deployment {d}")),
                why,
            )
            .fix(other_olm.fix()),
        );
    }
    match &facts.manager {
        Some(manager) => out.extend(of_manager(manager, facts.other_olm.is_some(), now)),
        None if facts.manager_unseen => {}
        None => out.push(
            Problem::new(
                Code::ManagerMissing,
                None,
                "no manager is installed: no operator is installed, upgraded or cleaned up",
            )
            .fix("olm self install"),
        ),
    }
    out
}

fn of_manager(manager: &Manager, idles: bool, now: Timestamp) -> Vec<Problem> {
    let mut out = Vec::new();
    let place = format!("{}/{MANAGER}", manager.namespace);
    let object = Some(format!("Deployment {place}"));
    if let Some(version) = manager.version.as_deref().filter(|v| *v != env!("CARGO_PKG_VERSION")) {
        let why = format!(
            "the manager has version {version}, this program has version {}",
            env!("CARGO_PKG_VERSION")
        );
        let fix = match is_newer(version) {
            true => format!("olm version  # use the program of version {version}"),
            false => "olm self upgrade".to_owned(),
        };
        out.push(Problem::new(Code::ManagerVersionDiffers, object.clone(), why).fix(fix));
    }
    if let Some(deployment) = &manager.deployment {
        let status = deployment.status.as_ref();
        if status.and_then(|s| s.available_replicas).unwrap_or(0) == 0 {
            let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            let failed = conditions
                .iter()
                .filter(|c| c.status.as_deref() != Some("True"))
                .filter_map(|c| c.message.clone());
            let why = failed.collect::<Vec<_>>().join("; ");
            let why = if why.is_empty() { "none of its pods is available".to_owned() } else { why };
            let fix =
                format!("kubectl describe pods -n {} -l app.kubernetes.io/name={MANAGER}", manager.namespace);
            out.push(Problem::new(Code::ManagerNotReady, object.clone(), why).fix(fix));
        }
    }
    out.extend(lease(manager, now).filter(|_| !idles));
    if let Some(missing) = missing_rights(manager) {
        let why = format!("its ClusterRole lacks: {missing}");
        let fix = "olm self upgrade  # applies the ClusterRole of this version";
        out.push(
            Problem::new(Code::ManagerLacksRights, Some(format!("ClusterRole {MANAGER}")), why).fix(fix),
        );
    }
    out
}

/// A leading manager renews its lease every few seconds.
fn lease(manager: &Manager, now: Timestamp) -> Option<Problem> {
    if manager.lease_unseen {
        return None;
    }
    let object = Some(format!("Lease {}/{MANAGER}", manager.namespace));
    let fix = format!("kubectl logs -n {} -l app.kubernetes.io/name={MANAGER} --tail=50", manager.namespace);
    let Some(lease) = &manager.lease else {
        let why = "no replica has acquired the lease: no object is reconciled";
        return Some(Problem::new(Code::LeaseStale, object, why).fix(fix));
    };
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let renewed = spec.renew_time.as_ref()?.0;
    let valid = i64::from(spec.lease_duration_seconds.unwrap_or(15).saturating_mul(STALE));
    let age = now.duration_since(renewed);
    if !holder.is_empty() && age <= SignedDuration::from_secs(valid) {
        return None;
    }
    let why = match holder {
        "" => "no replica holds the lease: no object is reconciled".to_owned(),
        holder => format!("{holder} held the lease and last renewed it {} s ago", age.as_secs()),
    };
    Some(Problem::new(Code::LeaseStale, object, why).fix(fix))
}

/// The rights that this version's manager needs and the live role does not grant.
fn missing_rights(manager: &Manager) -> Option<String> {
    let have = manager.role.as_ref()?;
    let have: Vec<Rule> = have.rules.iter().flatten().map(|rule| Rule::of(&json!(rule))).collect();
    let wanted = manifests(&ManifestOptions::default());
    let wanted = wanted.iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == MANAGER)?;
    let wanted: Vec<Rule> = wanted["rules"].as_array()?.iter().map(Rule::of).collect();
    let missing = Access::unknown().with_cluster(have).lacks(&wanted, None)?;
    let text = |rule: &Rule| {
        format!(
            "{} {}",
            rule.verbs.join(","),
            rule.resources.iter().chain(&rule.urls).map(String::as_str).collect::<Vec<_>>().join(",")
        )
    };
    (!missing.is_empty()).then(|| missing.iter().map(text).collect::<Vec<_>>().join("; "))
}

pub(super) fn named<K: ResourceExt>(kind: &str, object: &K) -> Option<String> {
    Some(match object.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{}", object.name_any()),
        None => format!("{kind} {}", object.name_any()),
    })
}

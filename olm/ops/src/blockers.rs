//! What an operator waits for or fails at, from its own objects, with the fix. Pure.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, Condition, InstallPlan, Subscription, condition,
    condition::ConditionStatus,
    csv::{CsvPhase, RequirementState, RequirementStatus},
    install_plan::InstallPlanPhase,
    names,
};
use olm_engine::CATALOG_OUT_OF_SIGHT;
use olm_plan::{FINDING_CODES, shell_word};
use serde::Serialize;

use crate::{list::arguments, status::View, uninstall};

/// One condition that an operator waits for or fails at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The object that reports it or that is missing, as `Kind namespace/name`.
    pub object: String,
    /// A stable word.
    pub reason: String,
    /// What is missing or failed.
    pub text: String,
    /// How to fix it; absent where a retry is the only remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A pod that is not ready.
pub(super) struct NotReady {
    /// `Pod namespace/name`.
    pub(super) object: String,
    pub(super) why: String,
    /// Whether waiting does not resolve it.
    pub(super) failed: bool,
}

/// A starting version reports no waits before this, unless a pod fails: most are ready by then.
const COMING_UP: SignedDuration = SignedDuration::from_secs(10);

/// What an operator waits for, causes before consequences. `pod` is one that blocks the rollout.
pub(super) fn blockers(view: &View, pod: Option<NotReady>, now: Timestamp) -> Vec<Blocker> {
    let mut out = Vec::new();
    if let Some(subscription) = &view.subscription {
        out.extend(held(subscription));
        out.extend(unresolved(subscription));
        out.extend(view.plan.as_ref().and_then(|plan| stuck(plan, subscription)));
        let reported = out.iter().any(|blocker| blocker.reason == NOT_UPGRADEABLE);
        out.extend(not_upgradeable(subscription).filter(|_| !reported));
    }
    let Some(csv) = &view.csv else { return out };
    let missing: Vec<Blocker> = unmet(csv).map(|r| requirement(&r, csv)).collect();
    let failed = pod.as_ref().is_some_and(|pod| pod.failed);
    match (is_up(csv) || (is_coming_up(csv, now) && !failed), pod) {
        (true, _) => {}
        (false, _) if !missing.is_empty() => out.extend(missing),
        (false, Some(pod)) => out.push(Blocker {
            fix: Some(describe(&pod.object)),
            object: pod.object,
            reason: "PodNotReady".into(),
            text: pod.why,
        }),
        (false, None) => out.extend(phase(csv)),
    }
    out
}

/// A deletion that is held.
pub(super) fn held(subscription: &Subscription) -> Option<Blocker> {
    subscription.metadata.deletion_timestamp.as_ref()?;
    let held = holds(subscription, names::CONDITION_DELETION_HELD)?;
    let fix = format!("run `{}`", uninstall::command(subscription));
    Some(of_condition(named("Subscription", subscription), held, Some(fix)))
}

/// No version can be chosen.
pub(super) fn unresolved(subscription: &Subscription) -> Option<Blocker> {
    let object = named("Subscription", subscription);
    let unhealthy = holds(subscription, names::CONDITION_CATALOG_SOURCES_UNHEALTHY);
    // The catalog is not used then: its earlier problems are not the cause. The message ends with the fix.
    if let Some(hidden) = unhealthy.filter(|c| c.reason.as_deref() == Some(CATALOG_OUT_OF_SIGHT)) {
        let message = hidden.message.as_deref().unwrap_or_default();
        let (text, fix) = message.rsplit_once("; ").unwrap_or((message, "set spec.sourceNamespace"));
        let blocker = of_condition(object, hidden, Some(fix.to_owned()));
        return Some(Blocker { text: text.to_owned(), ..blocker });
    }
    if let Some(failed) = holds(subscription, names::CONDITION_RESOLUTION_FAILED) {
        let fix = format!("run `olm why {}`", place(subscription));
        return Some(of_condition(object, failed, Some(fix)));
    }
    let unhealthy = unhealthy?;
    let fix = format!("run `olm catalog sources -n {}`", shell_word(&subscription.spec.source_namespace));
    Some(of_condition(object, unhealthy, Some(fix)))
}

/// The unmet requirements of a version.
pub(super) fn unmet(csv: &ClusterServiceVersion) -> impl Iterator<Item = RequirementStatus> + use<> {
    let met = [RequirementState::Present, RequirementState::DeploymentFound];
    let all = csv.status.as_ref().map(|status| status.requirement_status.read()).unwrap_or_default();
    all.into_iter().filter(move |r| !met.contains(&r.status))
}

const NOT_UPGRADEABLE: &str = "OperatorConditionNotUpgradeable";

/// The operator reports that it is not upgradeable.
fn not_upgradeable(subscription: &Subscription) -> Option<Blocker> {
    let pending = holds(subscription, names::CONDITION_INSTALL_PLAN_PENDING)
        .filter(|c| c.reason.as_deref() == Some(NOT_UPGRADEABLE))?;
    let fix = allow_upgrade(subscription);
    Some(of_condition(named("Subscription", subscription), pending, Some(fix)))
}

fn allow_upgrade(subscription: &Subscription) -> String {
    let csv = subscription.status.as_ref().and_then(|s| s.installed_csv.clone()).unwrap_or_default();
    let namespace = subscription.namespace().unwrap_or_default();
    format!(
        "wait until the operator allows the upgrade, or set `spec.overrides` with `kubectl edit \
            operatorcondition {csv} -n {namespace}`"
    )
}

/// An approved plan without progress.
fn stuck(plan: &InstallPlan, subscription: &Subscription) -> Option<Blocker> {
    let status = plan.status.as_ref()?;
    if !plan.spec.approved || status.phase == InstallPlanPhase::Complete {
        return None;
    }
    let failed = condition::find(&status.conditions, names::CONDITION_INSTALLED)
        .filter(|c| c.status == ConditionStatus::False)?;
    let fix = match failed.reason.as_deref().unwrap_or_default() {
        "Paused" => Some(format!("run `olm resume {}`", place(subscription))),
        NOT_UPGRADEABLE => Some(allow_upgrade(subscription)),
        "InstallCheckFailed" => {
            Some("create the ServiceAccount, or remove it from the namespace's OperatorGroup".into())
        }
        "DependenciesNotReady" => {
            let namespace = subscription.namespace().unwrap_or_default();
            Some(format!("no action required; `olm list -n {namespace}` shows the progress"))
        }
        "InstallComponentFailed" => Some("fix the cause above; the manager retries automatically".into()),
        code if FINDING_CODES.iter().any(|known| known.as_str() == code) => {
            Some(format!("run `olm explain {code}`"))
        }
        _ => None,
    };
    Some(of_condition(named("InstallPlan", plan), failed, fix))
}

fn requirement(requirement: &RequirementStatus, csv: &ClusterServiceVersion) -> Blocker {
    let fix = requirement_fix(requirement);
    let text = if requirement.message.is_empty() { "not met" } else { &requirement.message };
    Blocker {
        object: match requirement.name.as_str() {
            "" => format!("{} {}/{}", requirement.kind, requirement.group, requirement.version),
            name if requirement.kind == "ServiceAccount" => {
                format!("ServiceAccount {}/{name}", csv.namespace().unwrap_or_default())
            }
            name => format!("{} {name}", requirement.kind),
        },
        reason: requirement.status.to_string(),
        text: text.to_owned(),
        fix: Some(fix.to_owned()).filter(|fix| !fix.is_empty()),
    }
}

/// The reason of a version that does not run.
fn phase(csv: &ClusterServiceVersion) -> Option<Blocker> {
    let status = csv.status.as_ref()?;
    let text = status.message.clone().filter(|message| !message.is_empty())?;
    let object = named("ClusterServiceVersion", csv);
    Some(Blocker {
        fix: Some(describe(&object)),
        object,
        reason: status.reason.clone().unwrap_or_default(),
        text,
    })
}

fn is_up(csv: &ClusterServiceVersion) -> bool {
    matches!(csv.phase(), CsvPhase::Succeeded | CsvPhase::Replacing | CsvPhase::Deleting)
}

fn is_coming_up(csv: &ClusterServiceVersion, now: Timestamp) -> bool {
    let Some(status) = &csv.status else { return true };
    let since = status.last_transition_time.as_ref().map(|time| time.0);
    status.phase != CsvPhase::Failed && since.is_some_and(|since| now.duration_since(since) < COMING_UP)
}

fn holds<'a>(subscription: &'a Subscription, type_: &str) -> Option<&'a Condition> {
    let conditions = &subscription.status.as_ref()?.conditions;
    condition::find(conditions, type_).filter(|c| c.is_true())
}

fn of_condition(object: String, condition: &Condition, fix: Option<String>) -> Blocker {
    Blocker {
        object,
        reason: condition.reason.clone().unwrap_or_default(),
        text: condition.message.clone().unwrap_or_default(),
        fix,
    }
}

/// `Kind namespace/name`.
fn named<K: kube::Resource>(kind: &str, object: &K) -> String {
    format!("{kind} {}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

/// Name and namespace as arguments of `olm` commands.
fn place(subscription: &Subscription) -> String {
    arguments(&subscription.name_any(), &subscription.namespace().unwrap_or_default())
}

/// The command that describes an object given as `Kind namespace/name`.
fn describe(object: &str) -> String {
    let (kind, place) = object.split_once(' ').unwrap_or((object, ""));
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    format!("run `kubectl describe {} {name} -n {namespace}`", kind.to_lowercase())
}

/// How a user can fix it. Upstream's texts stay in `requirementStatus`.
pub fn requirement_fix(requirement: &RequirementStatus) -> &'static str {
    match (requirement.kind.as_str(), requirement.status) {
        ("CustomResourceDefinition", RequirementState::NotPresent) => "install the operator that provides it",
        ("CustomResourceDefinition", RequirementState::PresentNotSatisfied) => {
            "upgrade the operator that provides it to a version that serves this version"
        }
        ("APIService", RequirementState::NotPresent) => "install the operator that serves it",
        ("APIService", RequirementState::DeploymentNotFound) => {
            "set its deploymentName to a Deployment of spec.install.spec.deployments"
        }
        ("ServiceAccount", RequirementState::NotPresent) => {
            "its InstallPlan creates it; create it manually for a version that was applied with kubectl"
        }
        ("ServiceAccount", RequirementState::PresentNotSatisfied) => {
            "bind the account to a role with this rule; an InstallPlan does this"
        }
        ("ClusterServiceVersion", _) => "upgrade the cluster, or choose an older version",
        _ => "",
    }
}

#[cfg(test)]
mod tests;

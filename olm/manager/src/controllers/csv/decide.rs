//! Phase, reason and action of a ClusterServiceVersion. Pure. Phases and reasons are upstream's.
//!
//! The phase is derived from the observed state, not from the previous phase: no state is terminal, and a
//! restarted process reaches the same result. Where upstream passes through several phases without waiting,
//! the conditions in the status record them (see `status`); the object itself changes in one step.

use jiff::SignedDuration;
use kube::ResourceExt;
use olm_api::csv::{CsvPhase, InstallModeType, RequirementStatus};
use olm_bundle::RenderError;

use super::{
    facts::{Drift, Observed, Refused},
    health::{DeploymentProblem, problems},
    requirements::{requirements, unmet},
};

/// How long an installation takes before it is reported as failed. Only the report changes: the installation
/// continues.
pub(super) const INSTALL_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

const SUCCEEDED: &str = "install strategy completed with no errors";
const INSTALLING: &str = "waiting for install components to report healthy";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    pub(super) phase: CsvPhase,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) requirements: Vec<RequirementStatus>,
    pub(super) act: Act,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    /// Apply the Deployments and their requirements.
    Install,
    /// Enable webhooks and APIServices: the Deployments are available.
    Serve,
    /// Delete its Deployments: another operator has the API.
    Stop,
    /// Delete this version: the next one runs.
    Delete,
}

/// A decision without the requirements.
type Verdict = (CsvPhase, &'static str, String, Act);

pub(super) fn decide(observed: &Observed<'_>) -> Decision {
    let requirements = requirements(observed);
    let verdict = replaced(observed)
        .or_else(|| misplaced(observed))
        .or_else(|| contested(observed))
        .or_else(|| lacking(observed, &requirements))
        .or_else(|| waits_for_predecessor(observed))
        .unwrap_or_else(|| running(observed));
    let (phase, reason, message, act) = verdict;
    Decision { phase, reason, message, requirements, act }
}

/// First: a newer version replaces it, unless the operator is not upgradeable. A failed version is superseded
/// like any other: upstream does so only with the group's `upgradeStrategy: TechPreviewUnsafeFailForward`.
fn replaced(observed: &Observed<'_>) -> Option<Verdict> {
    let successor = observed.successor.as_ref()?;
    let (before, _) = observed.before();
    if observed.upgradeable.is_err() && !matches!(before, CsvPhase::Replacing | CsvPhase::Deleting) {
        return None;
    }
    let next = &successor.name;
    // Oldest first: a version is deleted only after the one that it replaced.
    Some(if successor.runs && observed.predecessor.is_none() {
        let message = format!(
            "has been replaced by a newer ClusterServiceVersion that has successfully installed: {next}"
        );
        (CsvPhase::Deleting, "Replaced", message, Act::Delete)
    } else {
        (CsvPhase::Replacing, "BeingReplaced", format!("being replaced by csv: {next}"), Act::Nothing)
    })
}

fn failed(reason: &'static str, message: String) -> Verdict {
    (CsvPhase::Failed, reason, message, Act::Nothing)
}

/// Second: where it may run, and whether it can be rendered at all.
fn misplaced(observed: &Observed<'_>) -> Option<Verdict> {
    match observed.groups.len() {
        0 => {
            let message = "csv in namespace with no operatorgroups; create one (Subscriptions create one \
                    automatically)";
            return Some(failed("NoOperatorGroup", message.into()));
        }
        1 => {}
        n => {
            let mut groups: Vec<String> = observed.groups.iter().map(|group| group.name_any()).collect();
            groups.sort();
            let message = format!(
                "csv created in namespace with {n} operatorgroups ({}), can't pick one automatically; delete \
                    all but one",
                groups.join(", ")
            );
            return Some(failed("TooManyOperatorGroups", message));
        }
    }
    if let Some(mode) = repeated_install_mode(observed) {
        let message =
            format!("spec.installModes: {mode} is listed more than once, expected each install mode once");
        return Some(failed("InvalidInstallModes", message));
    }
    let refused = observed.desired.as_ref().err()?;
    Some(match refused {
        Refused::NoTargets { group } => failed(
            "NoTargetNamespaces",
            format!(
                "spec.selector of OperatorGroup {group} matches no namespace; label a namespace or change \
                    the selector"
            ),
        ),
        Refused::Render(error) => failed(reason_of(error), error.to_string()),
        Refused::Reserved { object, why } => {
            failed("ReservedObject", format!("operators may not create or change {object}: it {why}"))
        }
    })
}

/// The stable word for a version that fails to render.
fn reason_of(error: &RenderError) -> &'static str {
    match error {
        RenderError::InstallMode { .. } => "UnsupportedOperatorGroup",
        RenderError::Serving { .. } => error.reason(),
        RenderError::Invalid { .. } => "InvalidStrategy",
    }
}

fn repeated_install_mode(observed: &Observed<'_>) -> Option<InstallModeType> {
    let modes = &observed.csv.spec.install_modes;
    let known = modes.iter().map(|m| m.type_).filter(|m| *m != InstallModeType::Unknown);
    known.clone().find(|mode| known.clone().filter(|other| other == mode).count() > 1)
}

/// Third: whether others provide the same APIs: two operators must not manage the same objects.
fn contested(observed: &Observed<'_>) -> Option<Verdict> {
    if let Some(conflict) = observed.owner_conflicts.iter().find(|r| r.same_namespace) {
        let message = format!(
            "{} is also provided by ClusterServiceVersion {} of the same namespace, which this version does \
                not replace; delete one of them",
            conflict.api, conflict.csv
        );
        return Some(failed("OwnerConflict", message));
    }
    if let Some(conflict) = &observed.serving.conflict {
        return Some(failed("OwnerConflict", conflict.clone()));
    }
    if let Some(conflict) = observed.owner_conflicts.first() {
        let message = format!(
            "{} is also provided by ClusterServiceVersion {}/{}, whose OperatorGroup has common target \
                namespaces; change the targets of one OperatorGroup, or delete one of the versions",
            conflict.api, conflict.namespace, conflict.csv
        );
        return Some((CsvPhase::Failed, "InterOperatorGroupOwnerConflict", message, Act::Stop));
    }
    let group = observed.groups.first().filter(|group| group.spec.static_provided_apis)?;
    let listed = super::apis::listed(group);
    let missing: Vec<String> = super::apis::provided(observed.csv)
        .iter()
        .map(super::apis::text)
        .filter(|api| !listed.contains(api))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let message = format!(
        "OperatorGroup {} has staticProvidedAPIs and does not list {}; add to its annotation \
            olm.providedAPIs, or set spec.staticProvidedAPIs to false",
        group.name_any(),
        missing.join(", ")
    );
    Some((CsvPhase::Failed, "CannotModifyStaticOperatorGroupProvidedAPIs", message, Act::Nothing))
}

/// Fourth: its requirements.
fn lacking(observed: &Observed<'_>, requirements: &[RequirementStatus]) -> Option<Verdict> {
    let unmet = unmet(requirements);
    if unmet.is_empty() {
        return None;
    }
    let message = format!("requirements not met: {}", unmet.join("; "));
    // A running version that lost a requirement is failed until it is met again.
    let (before, reason) = observed.before();
    let lost =
        before == CsvPhase::Succeeded || (before == CsvPhase::Failed && reason == "RequirementsNotMet");
    let phase = if lost { CsvPhase::Failed } else { CsvPhase::Pending };
    Some((phase, "RequirementsNotMet", message, Act::Nothing))
}

/// Fifth: the previous version yields first.
fn waits_for_predecessor(observed: &Observed<'_>) -> Option<Verdict> {
    let (old, phase) = observed.predecessor.as_ref()?;
    if matches!(phase, CsvPhase::Replacing | CsvPhase::Deleting) {
        return None;
    }
    let (reason, message) = match &observed.predecessor_upgradeable {
        Err(why) => ("OperatorConditionNotUpgradeable", format!("operator {old} is not upgradeable: {why}")),
        Ok(()) => ("AllRequirementsMet", format!("waiting to replace {old}")),
    };
    Some((CsvPhase::Pending, reason, message, Act::Nothing))
}

/// Last: its workload.
fn running(observed: &Observed<'_>) -> Verdict {
    let serving = &observed.serving;
    let deployments = observed.desired.as_ref().map(|d| d.deployments.as_slice()).unwrap_or_default();
    let drift = deployments.iter().filter_map(|deployment| observed.drift(deployment)).max();
    let problems = problems(observed);
    let serves = problems.iter().all(|t| t.available);
    let (before, reason_before) = observed.before();
    let ran = before == CsvPhase::Succeeded;

    if let Some(broken) = &serving.broken {
        // Reported, and fixed in the same pass.
        return if ran || (before, reason_before) == (CsvPhase::Failed, "APIServiceResourceIssue") {
            (CsvPhase::Failed, "APIServiceResourceIssue", broken.clone(), Act::Install)
        } else {
            (CsvPhase::Pending, "APIServiceResourcesNeedReinstall", broken.clone(), Act::Install)
        };
    }
    if let Some(rotate) = &serving.rotate {
        // Old and new certificates overlap, so that the version keeps running.
        return if ran && serves {
            (CsvPhase::Succeeded, "InstallSucceeded", SUCCEEDED.into(), Act::Install)
        } else {
            (CsvPhase::Pending, "NeedsCertRotation", rotate.clone(), Act::Install)
        };
    }
    // Manual changes to a running version are reverted; it stays installed.
    if ran && serves && drift == Some(Drift::Touched) {
        return (CsvPhase::Succeeded, "InstallSucceeded", SUCCEEDED.into(), Act::Install);
    }
    if drift.is_some() || serving.endpoints_missing.is_some() {
        // A failure of the last attempt is reported until this one succeeds.
        if before == CsvPhase::Failed && INSTALL_FAILED.contains(&reason_before) {
            let message = observed.csv.status.as_ref().and_then(|s| s.message.clone()).unwrap_or_default();
            let reason =
                INSTALL_FAILED.into_iter().find(|r| *r == reason_before).unwrap_or("InstallComponentFailed");
            return (CsvPhase::Failed, reason, message, Act::Install);
        }
        return (CsvPhase::Installing, "InstallSucceeded", INSTALLING.into(), Act::Install);
    }
    let Some(first) = problems.first() else { return registered(observed) };
    if let Some(stuck) = problems.iter().find(|t| t.stuck) {
        return failed("InstallCheckFailed", stuck.text.clone());
    }
    let was_ill = (before, reason_before) == (CsvPhase::Failed, "ComponentUnhealthy");
    if !ran && !was_ill {
        return waiting(observed, &first.text);
    }
    // A rollout in progress (a restart, a node that is drained) is healthy as long as a pod serves.
    if ran && serves {
        return (
            CsvPhase::Succeeded,
            "InstallSucceeded",
            SUCCEEDED.into(),
            act_on(serving.registration_missing.is_some()),
        );
    }
    failed("ComponentUnhealthy", format!("installing: {}", unhealthy(&problems)))
}

/// Reasons of an installation attempt that the API server refused.
pub(super) const INSTALL_FAILED: [&str; 2] = ["InstallComponentFailed", "InstallComponentFailedNoRetry"];

fn act_on(registration: bool) -> Act {
    if registration { Act::Serve } else { Act::Nothing }
}

fn unhealthy(problems: &[DeploymentProblem]) -> &str {
    let worst = problems.iter().find(|t| !t.available).or_else(|| problems.first());
    worst.map_or("", |t| t.text.as_str())
}

/// The Deployments run; webhooks and APIServices come last.
fn registered(observed: &Observed<'_>) -> Verdict {
    let serving = &observed.serving;
    let ran = observed.before().0 == CsvPhase::Succeeded;
    let done = |act| (CsvPhase::Succeeded, "InstallSucceeded", SUCCEEDED.into(), act);
    match (&serving.registration_missing, &serving.waiting) {
        (Some(_), _) if ran => done(Act::Serve),
        (Some(missing), _) => {
            let (phase, reason, message, _) = waiting(observed, missing);
            (phase, reason, message, Act::Serve)
        }
        // A short unavailability of an APIService (a pod moves) is not a failure; its Deployment is
        // monitored.
        (None, Some(_)) if ran => done(Act::Nothing),
        (None, Some(waits)) => waiting(observed, waits),
        (None, None) => done(Act::Nothing),
    }
}

/// Not there yet; after the deadline that is reported as a failure, and still awaited.
fn waiting(observed: &Observed<'_>, what: &str) -> Verdict {
    let status = observed.csv.status.as_ref();
    let since =
        status.filter(|s| s.phase == CsvPhase::Installing).and_then(|s| s.last_transition_time.as_ref());
    let late = since.is_some_and(|since| observed.now.duration_since(since.0) > INSTALL_TIMEOUT);
    if late || observed.before() == (CsvPhase::Failed, "InstallCheckFailed") {
        return failed("InstallCheckFailed", format!("install timeout: still waiting for {what}"));
    }
    (CsvPhase::Installing, "InstallWaiting", format!("installing: waiting for {what}"), Act::Nothing)
}

#[cfg(test)]
pub(super) mod tests;
#[cfg(test)]
mod transitions;

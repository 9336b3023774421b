//! Decides the next action for a Subscription. Pure.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, Condition, InstallPlan, Subscription, condition, csv::CsvPhase,
    install_plan::InstallPlanPhase, names,
};
use olm_engine::{Change, Outcome, Refusal};
use olm_plan::{Finding, Severity};
use olm_resolver::Code;

/// How long a version that is neither ready nor failed holds back the next one.
const STARTUP_LIMIT: SignedDuration = SignedDuration::from_mins(5);
/// Maximum number of complete plans that are kept: they are the revisions for rollbacks.
const KEEP_COMPLETE: usize = 5;
/// Maximum number of failed plans that are kept as a record.
const KEEP_FAILED: usize = 3;

/// The Subscription and the state that its decision depends on.
pub(super) struct Observed<'a> {
    pub(super) subscription: &'a Subscription,
    pub(super) catalog: Catalog,
    /// The installed version of the Subscription.
    pub(super) installed: Option<&'a ClusterServiceVersion>,
    /// The `Upgradeable` condition of the installed version.
    pub(super) upgradeable: Result<(), String>,
    /// All of the namespace.
    pub(super) csvs: &'a [Arc<ClusterServiceVersion>],
    /// Those that the Subscription owns, oldest first.
    pub(super) plans: &'a [Arc<InstallPlan>],
    pub(super) now: Timestamp,
}

/// The state of the catalog that the Subscription names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Catalog {
    Ready,
    /// It exists, and is not read yet.
    Loading,
    /// It exists, and was never readable.
    Unreadable(String),
    Missing(String),
    /// It exists, and is not visible from the namespace.
    OutOfSight(String),
}

/// Why no resolution is made now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HoldReason {
    Paused,
    /// The catalog is unavailable.
    Catalog,
    /// An approved plan is being applied.
    Installing {
        plan: String,
    },
    /// The last installed version is still starting.
    Starting {
        until: Timestamp,
    },
}

/// Changes that were begun, for the resolution.
pub(super) struct InProgress {
    pub(super) plan: Option<PlanInProgress>,
    /// The name of the installed version that no plan will complete.
    pub(super) unfinished: Option<String>,
}

/// An approved plan that is about to be applied, and its version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlanInProgress {
    pub(super) plan: String,
    pub(super) csv: String,
}

/// The result of a resolution, or why there is none.
pub(super) enum Resolution {
    Hold(HoldReason),
    /// The chosen version is that of a plan in progress: its change was computed and reported before.
    InProgress {
        plan: String,
    },
    Answer(Result<Outcome, Refusal>),
}

/// The decision of a pass.
pub(super) struct Decision {
    pub(super) next: Next,
    /// Plans to delete.
    pub(super) obsolete: Vec<Arc<InstallPlan>>,
    /// The current plan of the Subscription; a plan that is created replaces it.
    pub(super) current: Option<Arc<InstallPlan>>,
    /// When to retry a refusal.
    pub(super) retry: Option<Duration>,
    /// Whether a new kind may change the result; `None` without a new result.
    pub(super) needs_kinds: Option<bool>,
}

pub(super) enum Next {
    Hold(HoldReason),
    Plan(Arc<Change>),
    /// A plan for the chosen version is approved and about to be applied.
    Keep {
        plan: String,
    },
    UpToDate {
        deprecations: Vec<String>,
    },
    /// A newer version is available, and hidden on request.
    Snoozed {
        to: String,
    },
    /// A newer version is available, and the operator reports that it is not upgradeable.
    NotUpgradeable {
        to: String,
        why: String,
    },
    Refused(Refused),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) message: String,
}

/// Whether to keep the current state without a resolution.
pub(super) fn hold(observed: &Observed<'_>) -> Option<HoldReason> {
    if observed.subscription.spec.paused && !rollback_in_progress(observed) {
        return Some(HoldReason::Paused);
    }
    // Work in progress is finished before anything else is considered. While its ClusterServiceVersion does
    // not exist, or makes no progress, a plan may still be superseded: otherwise a plan that cannot be
    // applied would block forever.
    let startup_end = |csv: &ClusterServiceVersion| {
        let since = csv.metadata.creation_timestamp.as_ref().map(|t| t.0);
        since.and_then(|since| since.checked_add(STARTUP_LIMIT).ok()).unwrap_or(observed.now)
    };
    let in_progress = plan_in_progress(observed);
    let stalled = in_progress.is_some_and(is_stalled);
    if let Some(plan) = in_progress.filter(|_| !stalled)
        && let Some(csv) = observed.csvs.iter().find(|csv| csv_of(plan) == csv.metadata.name.as_deref())
        && observed.now < startup_end(csv)
    {
        return Some(HoldReason::Installing { plan: plan.name_any() });
    }
    if observed.catalog != Catalog::Ready {
        return Some(HoldReason::Catalog);
    }
    let installed = observed.installed?;
    let phase = installed.phase();
    let coming_up =
        matches!(phase, CsvPhase::None | CsvPhase::Pending | CsvPhase::InstallReady | CsvPhase::Installing);
    let until = startup_end(installed);
    // One hop at a time: the next version is installed when this one runs, or when it clearly fails to.
    let waits = coming_up && !stalled && unfinished(observed).is_none();
    (waits && observed.now < until).then_some(HoldReason::Starting { until })
}

/// Whether a rollback is in progress despite the pause: the pause applies from the requested version on.
fn rollback_in_progress(observed: &Observed<'_>) -> bool {
    let to = observed.subscription.annotations().get(names::ANNOTATION_ROLLBACK_TO);
    to.is_some_and(|to| observed.installed.is_none_or(|csv| csv.metadata.name.as_ref() != Some(to)))
}

/// The installed version that no plan will complete: its plan failed or is gone. It gets another plan.
fn unfinished<'a>(observed: &Observed<'a>) -> Option<&'a ClusterServiceVersion> {
    let csv = observed.installed?;
    let name = csv.metadata.name.as_deref();
    let of_it: Vec<&Arc<InstallPlan>> = observed.plans.iter().filter(|p| csv_of(p) == name).collect();
    let counts = |p: &&Arc<InstallPlan>| p.is_over() || is_ours(p);
    if of_it.iter().filter(|p| counts(p)).any(|p| p.phase() != InstallPlanPhase::Failed) {
        return None;
    }
    let phase = csv.phase();
    let made_by_us = observed.subscription.status.as_ref().is_some_and(|s| s.install_plan_ref.is_some());
    let lacks = matches!(phase, CsvPhase::None | CsvPhase::Pending);
    (!of_it.is_empty() || (made_by_us && lacks)).then_some(csv)
}

/// Whether a plan has made no progress for a while. It is retried, and a newer version may replace it.
pub(super) fn is_stalled(plan: &InstallPlan) -> bool {
    let conditions = plan.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    condition::find(conditions, names::CONDITION_STALLED).is_some_and(Condition::is_true)
}

/// Changes that were begun. A plan in progress for which there is a reason to evaluate the change again does not
/// count: before its first change, the plan's controller checks it anyway.
pub(super) fn in_progress(observed: &Observed<'_>) -> InProgress {
    let plan = plan_in_progress(observed).filter(|plan| observed.upgradeable.is_ok() && !is_stalled(plan));
    InProgress {
        plan: plan
            .and_then(|plan| Some(PlanInProgress { plan: plan.name_any(), csv: csv_of(plan)?.to_owned() })),
        unfinished: unfinished(observed).map(ResourceExt::name_any),
    }
}

/// The action for the result of a resolution.
pub(super) fn decide(observed: &Observed<'_>, resolution: Resolution) -> Decision {
    let retry = match &resolution {
        Resolution::Answer(Err(refusal)) => refusal.retry(),
        _ => None,
    };
    let needs_kinds = needs_kinds(&resolution);
    let next = match resolution {
        Resolution::Hold(reason) => Next::Hold(reason),
        Resolution::InProgress { plan } => Next::Keep { plan },
        Resolution::Answer(answer) => next(observed, answer),
    };
    let current = match &next {
        Next::Plan(_) => None,
        Next::Hold(HoldReason::Installing { plan }) | Next::Keep { plan } => {
            observed.plans.iter().find(|p| p.name_any() == *plan).cloned()
        }
        _ => current_plan(observed, &next),
    };
    Decision { obsolete: obsolete(observed, &next), current, retry, needs_kinds, next }
}

fn next(observed: &Observed<'_>, answer: Result<Outcome, Refusal>) -> Next {
    let change = match answer {
        Err(refusal) => {
            let reason = resolution_reason(&refusal).to_owned();
            return Next::Refused(Refused { reason, message: refusal.message() });
        }
        Ok(Outcome::UpToDate(resolved)) => {
            // The plan's version exists; the rest of the plan is still to be applied.
            let same = |plan: &&InstallPlan| csv_of(plan) == Some(resolved.chosen.name.as_str());
            return match plan_in_progress(observed).filter(same) {
                Some(plan) => Next::Keep { plan: plan.name_any() },
                None => Next::UpToDate { deprecations: resolved.deprecations },
            };
        }
        Ok(Outcome::Change(change)) => change,
    };
    if change.plan.is_blocked() {
        return Next::Refused(blocked(&change.plan.findings));
    }
    let wanted =
        plan_in_progress(observed).filter(|p| csv_of(p) == Some(change.resolved.chosen.name.as_str()));
    if wanted.is_none()
        && change.replaces.is_some()
        && let Some(snooze) = &observed.subscription.spec.snooze
        && snooze.newest == newest(&change)
    {
        return Next::Snoozed { to: change.resolved.chosen.name.clone() };
    }
    if let (Some(_), Err(why)) = (&change.replaces, &observed.upgradeable) {
        return Next::NotUpgradeable { to: change.resolved.chosen.name.clone(), why: why.clone() };
    }
    if let Some(plan) = wanted {
        return Next::Keep { plan: plan.name_any() };
    }
    Next::Plan(Arc::from(change))
}

/// Whether there is no result, or a version was rejected for a dependency.
fn needs_kinds(resolution: &Resolution) -> Option<bool> {
    Some(match resolution {
        Resolution::InProgress { .. } => return None,
        Resolution::Hold(_) => false,
        Resolution::Answer(Err(_)) => true,
        Resolution::Answer(Ok(Outcome::UpToDate(resolved))) => {
            resolved.rejected.iter().any(|rejected| rejected.code == Code::DependencyUnsatisfied)
        }
        // The plan may be blocked by a missing kind of one of its objects.
        Resolution::Answer(Ok(Outcome::Change(change))) => {
            change.plan.findings.iter().any(|finding| finding.severity == Severity::Block)
        }
    })
}

/// The reason of a refusal, for the conditions.
fn resolution_reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unresolvable(_)
        | Refusal::UnknownCatalog { .. }
        | Refusal::CatalogOutOfSight { .. }
        | Refusal::Field { .. } => "ConstraintsNotSatisfiable",
        _ => "ErrorPreventedResolution",
    }
}

/// The newest reachable bundle.
fn newest(change: &Change) -> &str {
    change.resolved.path.last().map_or(&change.resolved.chosen.name, |hop| &hop.name)
}

fn blocked(findings: &[Finding]) -> Refused {
    let blocking: Vec<&Finding> = findings.iter().filter(|f| f.severity == Severity::Block).collect();
    let reason = blocking.first().map(|f| f.code.to_string()).unwrap_or_default();
    let text = |f: &&Finding| match &f.fix {
        Some(fix) => format!("{} ({fix})", f.text),
        None => f.text.clone(),
    };
    Refused { reason, message: blocking.iter().map(text).collect::<Vec<_>>().join("; ") }
}

/// Plans to delete: unapproved ones that are no longer requested, and old finished ones.
fn obsolete(observed: &Observed<'_>, next: &Next) -> Vec<Arc<InstallPlan>> {
    let wanted = match next {
        Next::Plan(change) => Some(super::plan_object::name(&change.plan.digest)),
        Next::Keep { plan } => Some(plan.clone()),
        Next::UpToDate { .. } | Next::NotUpgradeable { .. } | Next::Snoozed { .. } => None,
        // Without a new result, existing plans stay.
        Next::Hold(_) | Next::Refused(_) => return finished_surplus(observed, None),
    };
    let mut out: Vec<Arc<InstallPlan>> = Vec::new();
    for plan in observed.plans {
        let is_wanted = wanted.as_deref() == Some(plan.name_any().as_str());
        // A finished plan of the same name blocks applying the same plan again.
        let in_the_way = is_wanted && plan.is_over() && matches!(next, Next::Plan(_));
        let outdated = !is_wanted && !plan.is_over();
        if in_the_way || outdated {
            out.push(Arc::clone(plan));
        }
    }
    out.extend(finished_surplus(observed, wanted.as_deref()));
    out
}

/// The newest plan that is not deleted as [`obsolete`].
fn current_plan(observed: &Observed<'_>, next: &Next) -> Option<Arc<InstallPlan>> {
    let obsolete: Vec<String> = obsolete(observed, next).iter().map(|plan| plan.name_any()).collect();
    observed.plans.iter().rev().find(|plan| !obsolete.contains(&plan.name_any())).cloned()
}

fn finished_surplus(observed: &Observed<'_>, wanted: Option<&str>) -> Vec<Arc<InstallPlan>> {
    let others = || observed.plans.iter().filter(|p| wanted != Some(p.name_any().as_str()));
    let surplus = |of: InstallPlanPhase, keep: usize| {
        let finished: Vec<Arc<InstallPlan>> = others().filter(|p| p.phase() == of).cloned().collect();
        finished[..finished.len().saturating_sub(keep)].to_vec()
    };
    let mut surplus_plans = surplus(InstallPlanPhase::Complete, KEEP_COMPLETE);
    surplus_plans.extend(surplus(InstallPlanPhase::Failed, KEEP_FAILED));
    surplus_plans
}

/// The approved plan that is not finished. A plan of another origin is never applied, so it does not count.
fn plan_in_progress<'a>(observed: &Observed<'a>) -> Option<&'a InstallPlan> {
    observed
        .plans
        .iter()
        .map(AsRef::as_ref)
        .rev()
        .find(|plan: &&InstallPlan| plan.spec.approved && !plan.is_over() && is_ours(plan))
}

/// Whether this manager made an unfinished plan: it records the approved content.
fn is_ours(plan: &InstallPlan) -> bool {
    plan.annotations().contains_key(names::ANNOTATION_CONTENT_DIGEST)
}

pub(super) fn csv_of(plan: &InstallPlan) -> Option<&str> {
    plan.spec.cluster_service_version_names.first().map(String::as_str)
}

#[cfg(test)]
mod tests;

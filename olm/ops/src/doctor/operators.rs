//! Subscriptions, plans and versions without progress, with the first cause.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, InstallPlan, Subscription, condition, csv::CsvPhase,
    install_plan::InstallPlanPhase, names,
};
use olm_plan::shell_word;

use super::{
    super::{
        blockers::{held, unmet, unresolved},
        revisions::approval,
    },
    facts::Facts,
    installation::named,
    problem::{Code, Problem},
};

/// A version becomes ready, and a plan is applied, within seconds; one that takes longer than this is stuck.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// How long after its due time a certificate may be renewed.
const ROTATION: SignedDuration = SignedDuration::from_hours(1);

pub(super) fn check(facts: &Facts, now: Timestamp) -> Vec<Problem> {
    let mut out: Vec<Problem> = facts.subscriptions.iter().filter_map(subscription).collect();
    out.extend(facts.plans.iter().filter_map(|p| plan(p, now)));
    let own = |csv: &&ClusterServiceVersion| !csv.labels().contains_key(names::LABEL_COPIED_FROM);
    out.extend(facts.csvs.iter().filter(own).flat_map(|csv| version(csv, now)));
    // The absence of what could not be listed proves nothing.
    if facts.listed("subscriptions") {
        out.extend(facts.csvs.iter().filter(own).filter_map(|csv| unmanaged(csv, &facts.subscriptions)));
    }
    if facts.listed("operatorgroups") {
        out.extend(groups(facts));
    }
    out
}

fn subscription(subscription: &Subscription) -> Option<Problem> {
    let held = held(subscription).map(|wait| (Code::DeletionHeld, wait));
    let (code, wait) =
        held.or_else(|| unresolved(subscription).map(|wait| (Code::SubscriptionUnresolved, wait)))?;
    let problem = Problem::new(code, Some(wait.object), format!("{}: {}", wait.reason, wait.text));
    Some(match wait.fix {
        Some(fix) => problem.fix(fix),
        None => problem,
    })
}

fn plan(plan: &InstallPlan, now: Timestamp) -> Option<Problem> {
    let status = plan.status.clone().unwrap_or_default();
    let object = named("InstallPlan", plan);
    let place = format!("-n {}", plan.namespace().unwrap_or_default());
    let what = plan.spec.cluster_service_version_names.join(", ");
    match status.phase {
        InstallPlanPhase::RequiresApproval if !plan.spec.approved => {
            let why = format!("waiting for approval of {what}");
            Some(
                Problem::new(Code::PlanWaiting, object, why)
                    .fix(format!("olm approve {} {place}", plan.name_any())),
            )
        }
        InstallPlanPhase::Complete | InstallPlanPhase::Failed => None,
        _ => {
            let since = status.start_time.as_ref().map(|time| time.0);
            let since = since.or_else(|| approval(plan).at?.parse().ok());
            let since = since.or_else(|| plan.creation_timestamp().map(|time| time.0))?;
            let old = now.duration_since(since) > PATIENCE;
            let failed = condition::find(&status.conditions, names::CONDITION_INSTALLED)
                .filter(|c| c.status == olm_api::condition::ConditionStatus::False);
            let message = failed.and_then(|c| c.message.as_deref()).or(plan.message()).unwrap_or_default();
            if !old {
                return None;
            }
            let why = format!(
                "{what} is not complete {} minutes after its start: {message}",
                now.duration_since(since).as_secs() / 60
            );
            Some(
                Problem::new(Code::PlanStuck, object, why)
                    .fix(format!("kubectl describe installplan {place} {}", plan.name_any())),
            )
        }
    }
}

fn version(csv: &ClusterServiceVersion, now: Timestamp) -> Vec<Problem> {
    let status = csv.status.clone().unwrap_or_default();
    let object = named("ClusterServiceVersion", csv);
    let place = format!("-n {}", csv.namespace().unwrap_or_default());
    let mut out = Vec::new();
    let since =
        status.last_transition_time.as_ref().or(csv.metadata.creation_timestamp.as_ref()).map(|t| t.0);
    let late = since.is_some_and(|since| now.duration_since(since) > PATIENCE);
    let unhealthy = match status.phase {
        CsvPhase::Failed => true,
        CsvPhase::Succeeded => false,
        _ => late,
    };
    if unhealthy {
        // The first unmet requirement is the cause; the message lists its consequences.
        let missing = unmet(csv).next();
        let cause = match missing {
            Some(r) => format!("{} {}: {}", r.kind, r.name, r.message),
            None => status.message.clone().unwrap_or_default(),
        };
        let why = format!("{} ({}): {cause}", status.phase, status.reason.as_deref().unwrap_or_default());
        let fix = format!("olm status {} {place}", csv.name_any());
        out.push(Problem::new(Code::OperatorUnhealthy, object.clone(), why).fix(fix));
    }
    if let Some(due) = status.certs_rotate_at.as_ref().map(|t| t.0)
        && now.duration_since(due) > ROTATION
    {
        let why = format!(
            "the renewal of its certificates is overdue since {due}; when they expire, its webhooks and APIs \
                fail"
        );
        let fix = format!("kubectl describe csv {place} {}", csv.name_any());
        out.push(Problem::new(Code::CertificateNotRotated, object, why).fix(fix));
    }
    out
}

/// It runs, and gets no updates.
fn unmanaged(csv: &ClusterServiceVersion, subscriptions: &[Subscription]) -> Option<Problem> {
    let namespace = csv.namespace().unwrap_or_default();
    let package = olm_engine::package_of(csv);
    let name = csv.name_any();
    let bound = subscriptions.iter().filter(|s| s.namespace().as_deref() == Some(&namespace)).any(|s| {
        let status = s.status.clone().unwrap_or_default();
        package.as_ref() == Some(&s.spec.name)
            || [&status.installed_csv, &status.current_csv].into_iter().flatten().any(|csv| *csv == name)
    });
    let passing = matches!(csv.phase(), CsvPhase::Replacing | CsvPhase::Deleting);
    if bound || passing || csv.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let target = shell_word(&package.unwrap_or(name));
    let fix =
        format!("olm install {target} -n {namespace}  # or remove it: olm uninstall {target} -n {namespace}");
    Some(
        Problem::new(
            Code::Unmanaged,
            named("ClusterServiceVersion", csv),
            "it has no Subscription and receives no updates",
        )
        .fix(fix),
    )
}

fn groups(facts: &Facts) -> Vec<Problem> {
    let mut namespaces: Vec<String> = facts
        .csvs
        .iter()
        .filter(|csv| !csv.labels().contains_key(names::LABEL_COPIED_FROM))
        .filter_map(ResourceExt::namespace)
        .collect();
    namespaces.extend(facts.groups.iter().filter_map(ResourceExt::namespace));
    namespaces.sort();
    namespaces.dedup();
    let mut out = Vec::new();
    for namespace in namespaces {
        let here: Vec<String> = facts
            .groups
            .iter()
            .filter(|g| g.namespace().as_deref() == Some(&namespace))
            .map(ResourceExt::name_any)
            .collect();
        let object = Some(format!("Namespace {namespace}"));
        match here.len() {
            0 => out.push(
                Problem::new(
                    Code::NoOperatorGroup,
                    object,
                    "it has operators and no OperatorGroup, so they do not run",
                )
                .fix(format!(
                    "create an OperatorGroup in namespace {namespace} with \
                        spec.targetNamespaces: [{namespace}]; see `olm explain NoOperatorGroup`"
                )),
            ),
            1 => {}
            n => out.push(
                Problem::new(
                    Code::TooManyOperatorGroups,
                    object,
                    format!(
                        "it has {n} OperatorGroups ({}), expected one; its operators do not run",
                        here.join(", ")
                    ),
                )
                .fix(format!("kubectl delete operatorgroup -n {namespace} NAME")),
            ),
        }
    }
    out
}

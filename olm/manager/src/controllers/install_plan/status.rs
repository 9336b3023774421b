//! The status of an InstallPlan: its content (pure), and its writes.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use kube::ResourceExt;
use olm_api::{
    Condition, InstallPlan, InstallPlanStatus, OperatorGroup, condition,
    install_plan::{InstallPlanPhase, Step, StepResource, StepStatus},
    names,
};
use olm_engine::{
    Change, Refusal,
    limits::{TEXT, truncate},
};
use olm_plan::{ObjectRef, Op, Phase, PlannedObject};

use super::{changed, decide};
use crate::{
    context::{Ctx, Error, SAFETY_NET},
    controllers::health::{Health, conditions},
    runner::Action,
};

/// Maximum number of listed steps; a step takes some 300 bytes, and no object of more than 900 KB is written.
const MOST_STEPS: usize = 1_000;

/// After this time a plan without progress counts as failing. It is still retried: only the report changes,
/// and whether a newer version may replace it.
const FAILING_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The status of a plan that waits for approval, or that starts.
pub(super) fn begin(plan: &InstallPlan, change: &Change, now: Timestamp) -> InstallPlanStatus {
    let mut status = plan.status.clone().unwrap_or_default();
    status.plan = steps(change);
    status.plan_digest = Some(change.plan.digest.clone());
    status.content_digest = Some(change.plan.content_digest().to_owned());
    let mut catalogs = vec![change.resolved.chosen.catalog.name.clone()];
    catalogs.extend(change.along.iter().map(|entry| entry.bundle.catalog.name.clone()));
    catalogs.sort();
    catalogs.dedup();
    status.catalog_sources = catalogs;
    status.message = None;
    let left_out = change.plan.objects.iter().filter(shown).count().saturating_sub(MOST_STEPS);
    let why = match left_out {
        0 => change.resolved.why.clone(),
        n => format!("{}; {n} more objects than the {MOST_STEPS} listed", change.resolved.why),
    };
    let resolved = Condition::new(names::CONDITION_RESOLVED, true, "", truncate(&why, TEXT));
    condition::set(&mut status.conditions, resolved, now);
    // It is no longer held back.
    condition::remove(&mut status.conditions, names::CONDITION_INSTALLED);
    if plan.spec.approved {
        status.phase = InstallPlanPhase::Installing;
        status.start_time = Some(Time(now));
    } else {
        status.phase = InstallPlanPhase::RequiresApproval;
        let needed = plan.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
        status.message = Some(format!(
            "{}approve with `olm approve {} -n {}`",
            needed.map(|needed| format!("{needed}; ")).unwrap_or_default(),
            plan.name_any(),
            plan.namespace().unwrap_or_default()
        ));
    }
    health(&mut status, plan, None, now);
    status
}

fn shown(object: &&PlannedObject) -> bool {
    matches!(object.phase, Some(Phase::Prerequisites | Phase::Crds | Phase::Rbac | Phase::Config))
        && object.op != Op::Delete
        && object.reference.kind != "Namespace"
}

/// One step per object that the plan applies. Workloads and serving objects are not among them, as upstream:
/// the ClusterServiceVersion's controller applies them.
pub(super) fn steps(change: &Change) -> Vec<Step> {
    let objects = change.plan.objects.iter().filter(shown).take(MOST_STEPS);
    objects.map(|object| step(change, &object.reference, object.op)).collect()
}

fn step(change: &Change, object: &ObjectRef, op: Op) -> Step {
    let along = change.along.iter().find(|e| object.kind == "Subscription" && e.subscription == object.name);
    let bundle = along.map_or(&change.resolved.chosen, |entry| &entry.bundle);
    let status = if op == Op::Create { StepStatus::NotPresent } else { StepStatus::Unknown };
    Step {
        resolving: bundle.name.clone(),
        resource: StepResource {
            source_name: bundle.catalog.name.clone(),
            source_namespace: bundle.catalog.namespace.clone(),
            group: object.group().to_owned(),
            version: object.version().to_owned(),
            kind: object.kind.clone(),
            name: object.name.clone(),
            namespace: object.namespace.clone(),
            manifest: None,
        },
        optional: false,
        status,
        op: Some(op.as_str().to_owned()),
    }
}

/// Records the result for one object.
pub(super) fn set_step(steps: &mut [Step], object: &ObjectRef, status: StepStatus) {
    if let Some(step) = steps.iter_mut().find(|step| is_of(step, object)) {
        step.status = status;
    }
}

/// Whether an object is recorded as written.
pub(super) fn is_done(steps: &[Step], object: &ObjectRef) -> bool {
    let done = |step: &Step| matches!(step.status, StepStatus::Created | StepStatus::Present);
    steps.iter().find(|step| is_of(step, object)).is_some_and(done)
}

fn is_of(step: &Step, object: &ObjectRef) -> bool {
    let r = &step.resource;
    r.group == object.group()
        && r.kind == object.kind
        && r.name == object.name
        && r.namespace == object.namespace
}

/// The account that applies the steps, where the group names one.
pub(super) fn account(group: Option<&OperatorGroup>) -> Option<ObjectReference> {
    let group = group?;
    Some(ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("ServiceAccount".into()),
        name: Some(group.spec.service_account_name.clone()?),
        namespace: group.namespace(),
        ..ObjectReference::default()
    })
}

/// Upstream's stable word for an error.
pub(super) fn reason(error: &Error) -> &'static str {
    match error {
        Error::Account(_) => "InstallCheckFailed",
        _ => "InstallComponentFailed",
    }
}

/// The common conditions for generic tools; `problem` is why it makes no progress.
pub(super) fn health(
    status: &mut InstallPlanStatus,
    plan: &InstallPlan,
    problem: Option<(&str, &str)>,
    now: Timestamp,
) {
    let since = status.start_time.as_ref().map(|t| t.0);
    let long = since.is_some_and(|since| now.duration_since(since) >= FAILING_AFTER);
    let health = match (status.phase, problem) {
        (InstallPlanPhase::Complete, _) => Health::Ready,
        (InstallPlanPhase::Failed, problem) => {
            let (reason, message) = problem.unwrap_or(("Failed", ""));
            Health::Stalled(reason.to_owned(), message.to_owned())
        }
        (_, Some((reason, message))) if long => Health::Stalled(reason.to_owned(), message.to_owned()),
        (_, Some((reason, message))) => Health::Working(reason.to_owned(), message.to_owned()),
        (phase, None) => Health::Working(phase.to_string(), status.message.clone().unwrap_or_default()),
    };
    status.observed_generation = plan.metadata.generation;
    conditions(&mut status.conditions, &health, plan.metadata.generation, now);
}

/// Records why a plan makes no progress, and emits one event.
pub(super) async fn report(
    plan: &InstallPlan,
    ctx: &Ctx,
    after: InstallPlanStatus,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let before = plan.status.clone().unwrap_or_default();
    report_over(plan, ctx, &before, after, reason, message).await
}

pub(super) async fn report_over(
    plan: &InstallPlan,
    ctx: &Ctx,
    before: &InstallPlanStatus,
    mut after: InstallPlanStatus,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let message = truncate(message, TEXT);
    let news = after.message.as_deref() != Some(&message);
    after.message = Some(message.clone());
    let failed = Condition::new(names::CONDITION_INSTALLED, false, reason, message.clone());
    condition::set(&mut after.conditions, failed, Timestamp::now());
    health(&mut after, plan, Some((reason, &message)), Timestamp::now());
    ctx.write_status(plan, Some(before), &after).await?;
    if news {
        ctx.event(plan, true, reason, &format!("{message}; retrying")).await;
    }
    Ok(())
}

/// Records that a plan makes no progress for another reason than a missing approval.
fn planning(status: &mut InstallPlanStatus, plan: &InstallPlan) {
    let asks = status.phase == InstallPlanPhase::RequiresApproval;
    if status.phase == InstallPlanPhase::None || asks && plan.spec.approved {
        status.phase = InstallPlanPhase::Planning;
    }
}

/// The plan may not proceed now. What it waits for is watched.
pub(super) async fn report_held(plan: &InstallPlan, ctx: &Ctx, held: &decide::Held) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    let message = truncate(&held.message, TEXT);
    planning(&mut new, plan);
    new.message = Some(message.clone());
    let condition = Condition::new(names::CONDITION_INSTALLED, false, held.reason.clone(), message.clone());
    condition::set(&mut new.conditions, condition, Timestamp::now());
    health(&mut new, plan, Some((&held.reason, &message)), Timestamp::now());
    if ctx.write_status(plan, plan.status.as_ref(), &new).await? {
        ctx.event(plan, true, &held.reason, &message).await;
    }
    Ok(Action::requeue(decide::RETRY_INTERVAL))
}

/// The engine has no plan now: reported, and retried when the catalog changes.
pub(super) async fn report_refusal(plan: &InstallPlan, ctx: &Ctx, refusal: Refusal) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    let message = truncate(&refusal.message(), TEXT);
    planning(&mut new, plan);
    new.message = Some(message.clone());
    let resolved = Condition::new(names::CONDITION_RESOLVED, false, refusal.code(), message.clone());
    condition::set(&mut new.conditions, resolved, Timestamp::now());
    health(&mut new, plan, Some((refusal.code(), &message)), Timestamp::now());
    ctx.write_status(plan, plan.status.as_ref(), &new).await?;
    Err(refusal.into())
}

/// The plan differs from the approved one. The Subscription's controller makes a new one.
pub(super) async fn report_changed(plan: &InstallPlan, ctx: &Ctx, how: &str) -> Result<Action, Error> {
    refuse(plan, ctx, changed::REASON, &changed::message(plan, how)).await
}

pub(super) async fn refuse(
    plan: &InstallPlan,
    ctx: &Ctx,
    reason: &str,
    message: &str,
) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    new.phase = InstallPlanPhase::Failed;
    new.message = Some(message.to_owned());
    let failed = Condition::new(names::CONDITION_INSTALLED, false, reason, message);
    condition::set(&mut new.conditions, failed, Timestamp::now());
    health(&mut new, plan, Some((reason, message)), Timestamp::now());
    if ctx.write_status(plan, plan.status.as_ref(), &new).await? {
        ctx.event(plan, true, reason, message).await;
    }
    Ok(Action::requeue(SAFETY_NET))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::health::judges::{self, Argo, Kstatus};

    fn status(phase: InstallPlanPhase, second: i64) -> InstallPlanStatus {
        let start_time = Timestamp::from_second(second).ok().map(Time);
        InstallPlanStatus { phase, start_time, ..InstallPlanStatus::default() }
    }

    #[test]
    fn a_plan_that_does_not_get_on_counts_as_stalled_after_a_minute_and_is_tried_again() {
        let plan = InstallPlan::default();
        let at = |second: i64| {
            let mut status = status(InstallPlanPhase::Installing, 0);
            let problem = Some(("InstallComponentFailed", "no"));
            health(&mut status, &plan, problem, Timestamp::from_second(second).unwrap());
            let stalled = condition::find(&status.conditions, names::CONDITION_STALLED).is_some();
            (stalled, status.phase)
        };
        assert_eq!(at(59), (false, InstallPlanPhase::Installing));
        assert_eq!(at(60), (true, InstallPlanPhase::Installing));
    }

    /// The health that Flux and Argo CD derive from each phase.
    #[test]
    fn tools_that_know_only_the_usual_conditions_see_how_it_stands() {
        let problem = Some(("InstallComponentFailed", "no"));
        let cases = [
            (InstallPlanPhase::RequiresApproval, None, 0, Kstatus::InProgress, Argo::Progressing),
            (InstallPlanPhase::Installing, None, 999, Kstatus::InProgress, Argo::Progressing),
            (InstallPlanPhase::Installing, problem, 1, Kstatus::InProgress, Argo::Progressing),
            (InstallPlanPhase::Installing, problem, 999, Kstatus::Failed, Argo::Degraded),
            (InstallPlanPhase::Failed, problem, 1, Kstatus::Failed, Argo::Degraded),
            (InstallPlanPhase::Complete, None, 1, Kstatus::Current, Argo::Healthy),
        ];
        let mut plan = InstallPlan::default();
        plan.metadata.generation = Some(2);
        for (phase, problem, second, kstatus, argo) in cases {
            let mut status = status(phase, 0);
            health(&mut status, &plan, problem, Timestamp::from_second(second).unwrap());
            let seen = judges::object(&plan, &status);
            assert_eq!(judges::kstatus(&seen), kstatus, "{phase}");
            assert_eq!(judges::argo_with_our_check(&seen), argo, "{phase}");
            assert_eq!(judges::argo(&seen), Argo::NotLookedAt);
        }
    }
}

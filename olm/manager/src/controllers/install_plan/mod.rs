//! InstallPlan: applies exactly what was approved.
//!
//! The same engine makes the plan again right before the first change; when its digest is not the approved
//! one, nothing is applied. An interrupted run resumes from the live state when the content is still the
//! same: applying is idempotent. The digests are those that this manager wrote into the plan when it made it,
//! and the approval is the one that the API server recorded: the status holds neither.
//!
//! Errors never end a plan. It is retried with back-off, without limit; only its reporting changes with time.

mod alongside;
mod apply;
mod authority;
mod changed;
mod csv_object;
mod gate;
mod needs;
mod status;
mod wait;

use std::sync::Arc;

use apply::{Progress, Warnings};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use olm_api::{
    Condition, InstallPlan, InstallPlanStatus, Subscription, condition, install_plan::InstallPlanPhase, names,
};
use olm_engine::{
    Basis, Change, Outcome, Refusal, Snapshot,
    catalogs::{CatalogVisibility, LoadedCatalog},
    limits::{TEXT, truncate},
};
use olm_ops::authority::Authority;
use olm_plan::Fact;
use olm_resolver::Code;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

use crate::{
    audit,
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
    stores::{OPEN_PLANS, Stores},
};

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let stores = Arc::clone(&ctx.stores);
    let waiting = |stores: &Arc<Stores>| {
        let stores = Arc::clone(stores);
        move |namespace: Option<String>| at_work(stores.plans.in_namespace(&namespace.unwrap_or_default()))
    };
    let (csvs, conditions, subscriptions) = (waiting(&stores), waiting(&stores), waiting(&stores));
    let (open, held) = (Arc::clone(&stores), Arc::clone(&stores));
    let catalogs = WatchStream::from_changes(ctx.catalogs.changes())
        .flat_map(move |_| stream::iter(at_work(open.plans.keyed(OPEN_PLANS))));
    // A kind that was missing may be served now.
    let (open, resources) = (Arc::clone(&stores), ctx.resources.clone());
    let kinds = ctx.parts.definitions().flat_map(move |_| {
        resources.forget_missing();
        stream::iter(at_work(open.plans.keyed(OPEN_PLANS)))
    });
    let controller = stores
        .plans
        .controller()
        .reconcile_on(kinds)
        .reconcile_on(stores.versions.wakes(move |csv| csvs(csv.namespace())))
        .reconcile_on(stores.policies.wakes(move |_| at_work(held.plans.keyed(OPEN_PLANS))))
        .reconcile_on(stores.conditions.wakes(move |condition| conditions(condition.namespace())))
        .reconcile_on(stores.subscriptions.wakes(move |subscription| subscriptions(subscription.namespace())))
        .reconcile_on(catalogs);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = ctx.seen() => {}
    }
    drive("install_plan", controller, ctx, shutdown, reconcile).await;
}

/// The plans that wait for others.
fn at_work(plans: Vec<Arc<InstallPlan>>) -> Vec<ObjectRef<InstallPlan>> {
    let waits = |plan: &&Arc<InstallPlan>| plan.spec.approved && !is_over(phase_of(plan));
    plans.iter().filter(waits).map(|plan| ObjectRef::from_obj(plan.as_ref())).collect()
}

fn phase_of(plan: &InstallPlan) -> InstallPlanPhase {
    plan.status.as_ref().map(|s| s.phase).unwrap_or_default()
}

fn is_over(phase: InstallPlanPhase) -> bool {
    matches!(phase, InstallPlanPhase::Complete | InstallPlanPhase::Failed)
}

const NO_OWNER: &str = "the InstallPlan is not owned by a Subscription";

async fn reconcile(plan: Arc<InstallPlan>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let phase = phase_of(&plan);
    let approved = plan.spec.approved;
    if plan.metadata.deletion_timestamp.is_some() || is_over(phase) {
        return Ok(Action::await_change());
    }
    let Some(approved_content) = authority::content(&plan).cloned() else {
        // Created manually, or by a manager that did not record the approved content. The controller of its
        // Subscription replaces it.
        let kind = Subscription::kind(&());
        if !plan.owner_references().iter().any(|owner| owner.kind == kind) {
            return refuse(&plan, &ctx, "PlanUnknown", NO_OWNER).await;
        }
        let held = gate::Held {
            reason: "PlanUnknown".into(),
            message: "the InstallPlan was not created by this manager and is not applied".into(),
        };
        return hold_back(&plan, &ctx, &held).await;
    };
    if authority::waits(&plan, phase) {
        return Ok(Action::await_change());
    }
    let begun = approved && phase == InstallPlanPhase::Installing;
    let Some((snapshot, subscription)) = seen(&plan, begun, &ctx).await? else {
        // Its Subscription is gone: garbage collection is about to remove it. A plan that never had one was
        // not made by this manager, and is not applied.
        return refuse(&plan, &ctx, "PlanUnknown", NO_OWNER).await;
    };
    if let Some(held) = gate::leaves(&subscription) {
        hold_back(&plan, &ctx, &held).await?;
        return Ok(Action::await_change());
    }
    let namespace = plan.namespace().unwrap_or_default();
    // A plan in progress is completed with its original inputs, even if the OperatorGroup changed since.
    let groups = if begun { &[] } else { snapshot.groups.as_slice() };
    let visibility = CatalogVisibility::of(&namespace, &ctx.namespace, groups);
    let catalogs = ctx.catalogs.within(&visibility);
    let bundle = plan.spec.cluster_service_version_names.first().cloned().unwrap_or_default();
    let along = olm_engine::recorded_along(&plan);
    let resume =
        || olm_engine::resume_change(&ctx.resources, &catalogs, &subscription, &snapshot, &bundle, along);
    let change = if let Err(refusal) = olm_engine::check_catalog_visible(&subscription, &visibility) {
        Err(refusal)
    } else if begun {
        resume().await.map(Arc::new)
    } else if let Some(change) = cached_change(&plan, &subscription, &snapshot, &catalogs, &ctx) {
        Ok(change)
    } else {
        match olm_engine::evaluate(&ctx.resources, &catalogs, &subscription, &snapshot).await {
            Ok(Outcome::Change(change)) => Ok(Arc::from(change)),
            // Its version exists without all of its objects: an earlier plan did not complete.
            Ok(Outcome::UpToDate(resolved)) if resolved.chosen.name == bundle => resume().await.map(Arc::new),
            Ok(Outcome::UpToDate(_)) => return changed(&plan, &ctx, "no changes remain").await,
            Err(refusal) => Err(refusal),
        }
    };
    let change = match change {
        Ok(change) => change,
        // No user can approve what a policy does not allow.
        Err(refusal) if approved && refusal.code() == Code::ForbiddenByPolicy.as_str() => {
            return authority::deny(&plan, &refusal.message(), &ctx).await;
        }
        Err(refusal) => return waiting(&plan, &ctx, refusal).await,
    };

    let mut now = plan.status.clone().unwrap_or_default();
    if begun {
        if approved_content != change.plan.content_digest() {
            let how = changed::how_since_begun(&plan, &change.plan);
            return changed(&plan, &ctx, &how).await;
        }
    } else if let Some(digest) =
        plan.spec.plan_digest.as_deref().filter(|digest| *digest != change.plan.digest)
    {
        return changed(&plan, &ctx, &changed::how(&plan, digest, &change.plan)).await;
    }
    if let Some(why) = approved.then(|| gate::denied(&change)).flatten() {
        return authority::deny(&plan, &why, &ctx).await;
    }
    if let Err(held) = gate::may_go_on(begun, &change, &subscription, &snapshot) {
        return hold_back(&plan, &ctx, &held).await;
    }
    let authority = match approved {
        false => None,
        true => match authority::prove(&plan, &subscription, &snapshot, &change.plan, &ctx).await? {
            authority::Authorized::Yes(authority) => authority,
            authority::Authorized::No(action) => return Ok(action),
        },
    };
    if !begun {
        now = status::begin(&plan, &change, Timestamp::now());
        if !approved {
            ctx.write_status(plan.as_ref(), plan.status.as_ref(), &now).await?;
            return Ok(Action::await_change());
        }
        audit::begins(&plan, authority.as_ref(), &ctx).await;
    }
    let job = apply::Job {
        plan: &plan,
        change: &change,
        subscription: &subscription,
        snapshot: &snapshot,
        authority: authority.as_ref(),
    };
    carry_out(&job, now, &ctx).await
}

/// The change that the Subscription's controller computed for the plan, if nothing has changed since.
fn cached_change(
    plan: &InstallPlan,
    subscription: &Subscription,
    snapshot: &Snapshot,
    catalogs: &[LoadedCatalog],
    ctx: &Ctx,
) -> Option<Arc<Change>> {
    let basis = Basis::of(subscription, snapshot, catalogs);
    ctx.change_cache.take(&plan.namespace().unwrap_or_default(), plan.spec.plan_digest.as_deref()?, basis)
}

/// Applies the plan and reports its progress; an error is reported and retried.
async fn carry_out(job: &apply::Job<'_>, mut before: InstallPlanStatus, ctx: &Ctx) -> Result<Action, Error> {
    let apply::Job { plan, change, subscription, snapshot, .. } = *job;
    let group = snapshot.groups.iter().map(AsRef::as_ref).min_by_key(|group| group.name_any());
    let resources = match ctx.resources_for(group).await {
        Ok(resources) => resources,
        Err(error) => {
            let message = error.to_string();
            report(plan, ctx, before, "InstallCheckFailed", &message).await?;
            return Err(error.into());
        }
    };
    before.attenuated_service_account_ref = status::account(group);
    if before.plan.is_empty() {
        before.plan = status::steps(change);
    }
    // The status is written before the first change; a reconciliation of an older state of the plan fails on
    // it.
    ctx.promise_status(plan, plan.status.as_ref(), &before).await?;
    needs::record(subscription, snapshot, change, ctx).await?;
    let (mut after, mut warnings) = (before.clone(), Warnings::new());
    let applied = apply::apply(job, &resources, &mut after.plan, &mut warnings, ctx).await;
    if !warnings.is_empty() {
        let note = format!("warning of the API server: {}", warnings.join("; "));
        ctx.event(plan, false, "AppliedWithWarnings", &note).await;
    }
    match applied {
        Ok(Progress::Done) => {
            after.phase = InstallPlanPhase::Complete;
            after.message = None;
            let message = crate::controllers::subscription::summary(&change.plan);
            let done = Condition::new(names::CONDITION_INSTALLED, true, "", message.clone());
            condition::set(&mut after.conditions, done, Timestamp::now());
            status::health(&mut after, plan, None, Timestamp::now());
            ctx.write_status(plan, Some(&before), &after).await?;
            audit::applied(plan, &after.plan);
            ctx.event(plan, false, "InstallPlanComplete", &in_whose_name(message, job.authority)).await;
            Ok(Action::await_change())
        }
        Ok(Progress::Waiting(what)) => {
            let message = truncate(&format!("waiting for {what}"), TEXT);
            after.message = Some(message.clone());
            let waits = Condition::new(names::CONDITION_INSTALLED, false, "DependenciesNotReady", message);
            condition::set(&mut after.conditions, waits, Timestamp::now());
            status::health(&mut after, plan, None, Timestamp::now());
            ctx.write_status(plan, Some(&before), &after).await?;
            Ok(Action::requeue(SAFETY_NET))
        }
        Err(error) => {
            report_over(plan, ctx, &before, after, status::reason(&error), &error.to_string()).await?;
            Err(error)
        }
    }
}

fn in_whose_name(what: String, authority: Option<&Authority>) -> String {
    match authority {
        Some(authority) => format!("{what}; on behalf of {}", authority.who()),
        None => what,
    }
}

/// Records why a plan makes no progress, and emits one event.
async fn report(
    plan: &InstallPlan,
    ctx: &Ctx,
    after: InstallPlanStatus,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let before = plan.status.clone().unwrap_or_default();
    report_over(plan, ctx, &before, after, reason, message).await
}

async fn report_over(
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
    status::health(&mut after, plan, Some((reason, &message)), Timestamp::now());
    ctx.write_status(plan, Some(before), &after).await?;
    if news {
        ctx.event(plan, true, reason, &format!("{message}; retrying")).await;
    }
    Ok(())
}

/// The plan may not proceed now. What it waits for is watched.
async fn hold_back(plan: &InstallPlan, ctx: &Ctx, held: &gate::Held) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    let message = truncate(&held.message, TEXT);
    if new.phase == InstallPlanPhase::None {
        new.phase = InstallPlanPhase::Planning;
    }
    new.message = Some(message.clone());
    let condition = Condition::new(names::CONDITION_INSTALLED, false, held.reason.clone(), message.clone());
    condition::set(&mut new.conditions, condition, Timestamp::now());
    status::health(&mut new, plan, Some((&held.reason, &message)), Timestamp::now());
    if ctx.write_status(plan, plan.status.as_ref(), &new).await? {
        ctx.event(plan, true, &held.reason, &message).await;
    }
    Ok(Action::requeue(gate::RETRY_INTERVAL))
}

/// The engine has no plan now: reported, and retried when the catalog changes.
async fn waiting(plan: &InstallPlan, ctx: &Ctx, refusal: Refusal) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    let message = truncate(&refusal.message(), TEXT);
    if new.phase == InstallPlanPhase::None {
        new.phase = InstallPlanPhase::Planning;
    }
    new.message = Some(message.clone());
    let resolved = Condition::new(names::CONDITION_RESOLVED, false, refusal.code(), message.clone());
    condition::set(&mut new.conditions, resolved, Timestamp::now());
    status::health(&mut new, plan, Some((refusal.code(), &message)), Timestamp::now());
    ctx.write_status(plan, plan.status.as_ref(), &new).await?;
    Err(refusal.into())
}

/// The plan differs from the approved one. The Subscription's controller makes a new one.
async fn changed(plan: &InstallPlan, ctx: &Ctx, how: &str) -> Result<Action, Error> {
    refuse(plan, ctx, changed::REASON, &changed::message(plan, how)).await
}

async fn refuse(plan: &InstallPlan, ctx: &Ctx, reason: &str, message: &str) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    new.phase = InstallPlanPhase::Failed;
    new.message = Some(message.to_owned());
    let failed = Condition::new(names::CONDITION_INSTALLED, false, reason, message);
    condition::set(&mut new.conditions, failed, Timestamp::now());
    status::health(&mut new, plan, Some((reason, message)), Timestamp::now());
    if ctx.write_status(plan, plan.status.as_ref(), &new).await? {
        ctx.event(plan, true, reason, message).await;
    }
    Ok(Action::requeue(SAFETY_NET))
}

/// The namespace, and the Subscription of the plan. Before the first change they are read live; a plan in
/// progress uses the stores: applying is idempotent.
async fn seen(
    plan: &InstallPlan,
    begun: bool,
    ctx: &Ctx,
) -> Result<Option<(Snapshot, Arc<Subscription>)>, Error> {
    let kind = Subscription::kind(&());
    let Some(owner) = plan.owner_references().iter().find(|o| o.kind == kind) else { return Ok(None) };
    let namespace = plan.namespace().unwrap_or_default();
    let ours = |snapshot: &Snapshot| {
        let is_ours = |s: &&Arc<Subscription>| s.uid().as_deref() == Some(owner.uid.as_str());
        snapshot.subscriptions.iter().find(is_ours).cloned()
    };
    if begun {
        let snapshot = ctx.stores.snapshot(&ctx.resources, &namespace).await;
        if let Some(subscription) = ours(&snapshot) {
            return Ok(Some((snapshot, subscription)));
        }
    }
    let policies = async { Fact::Known(ctx.stores.policies_in(&namespace)) };
    let snapshot = Snapshot::read(&ctx.resources, &namespace, policies).await?;
    Ok(ours(&snapshot).map(|subscription| (snapshot, subscription)))
}

//! InstallPlan: applies exactly what was approved.
//!
//! The same engine makes the plan again right before the first change; when its digest is not the approved
//! one, nothing is applied. An interrupted run resumes from the live state when the content is still the
//! same: applying is idempotent. The digests are those that this manager wrote into the plan when it made it,
//! and the approval is the one that the API server recorded: the status is not read for either.
//!
//! [`observe`] reads the namespace and makes the change again → [`decide`] whether it may be applied (pure) →
//! [`apply`] → [`status`]. The status is written before the first change, and after the last.
//!
//! Errors never end a plan. It is retried with back-off, without limit; only its reporting changes with time.

mod alongside;
mod apply;
mod authority;
mod changed;
mod csv_object;
mod decide;
mod needs;
mod observe;
mod status;
mod wait;

use std::sync::Arc;

use apply::{Progress, Warnings};
use decide::{Held, Next};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use observe::Observed;
use olm_api::{
    Condition, InstallPlan, InstallPlanStatus, Subscription, condition, install_plan::InstallPlanPhase, names,
};
use olm_engine::{
    Change,
    limits::{TEXT, truncate},
};
use olm_ops::authority::Authority;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

use crate::{
    audit,
    cache::{ClusterCache, OPEN_PLANS},
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
};

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let cache = Arc::clone(&ctx.cache);
    let waiting = |cache: &Arc<ClusterCache>| {
        let cache = Arc::clone(cache);
        move |namespace: Option<String>| in_progress(cache.plans.in_namespace(&namespace.unwrap_or_default()))
    };
    let (csvs, conditions, subscriptions) = (waiting(&cache), waiting(&cache), waiting(&cache));
    let (open, held) = (Arc::clone(&cache), Arc::clone(&cache));
    let catalogs = WatchStream::from_changes(ctx.catalogs.changes())
        .flat_map(move |_| stream::iter(in_progress(open.plans.keyed(OPEN_PLANS))));
    // A kind that was missing may be served now.
    let (open, resources) = (Arc::clone(&cache), ctx.resources.clone());
    let kinds = ctx.parts.definitions().flat_map(move |_| {
        resources.forget_missing();
        stream::iter(in_progress(open.plans.keyed(OPEN_PLANS)))
    });
    let controller = cache
        .plans
        .controller()
        .reconcile_on(kinds)
        .reconcile_on(cache.csvs.wakes(move |csv| csvs(csv.namespace())))
        .reconcile_on(cache.policies.wakes(move |_| in_progress(held.plans.keyed(OPEN_PLANS))))
        .reconcile_on(cache.conditions.wakes(move |condition| conditions(condition.namespace())))
        .reconcile_on(cache.subscriptions.wakes(move |subscription| subscriptions(subscription.namespace())))
        .reconcile_on(catalogs);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = ctx.synced() => {}
    }
    drive("install_plan", controller, ctx, shutdown, reconcile).await;
}

/// References to the plans in progress.
fn in_progress(plans: Vec<Arc<InstallPlan>>) -> Vec<ObjectRef<InstallPlan>> {
    let unfinished = |plan: &&Arc<InstallPlan>| plan.spec.approved && !plan.is_over();
    plans.iter().filter(unfinished).map(|plan| ObjectRef::from_obj(plan.as_ref())).collect()
}

async fn reconcile(plan: Arc<InstallPlan>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if plan.metadata.deletion_timestamp.is_some() || plan.is_over() {
        return Ok(Action::await_change());
    }
    let Some(approved_content) = authority::content(&plan) else { return unknown(&plan, &ctx).await };
    if authority::waits(&plan, plan.phase()) {
        return Ok(Action::await_change());
    }
    let Some(observed) = observe::observe(&plan, &ctx).await? else {
        // Its Subscription is gone: garbage collection is about to remove it. A plan that never had one was
        // not made by this manager, and is not applied.
        return status::refuse(&plan, &ctx, "PlanUnknown", NO_OWNER).await;
    };
    if let Some(held) = decide::leaves(&observed.subscription) {
        status::report_held(&plan, &ctx, &held).await?;
        return Ok(Action::await_change());
    }
    let change = observe::change(&plan, &observed, &ctx).await;
    match decide::decide(&plan, approved_content, &observed, change) {
        Next::Apply(change) => start(&plan, &observed, &change, &ctx).await,
        Next::Changed(how) => status::report_changed(&plan, &ctx, &how).await,
        Next::Deny(why) => authority::deny(&plan, &why, &ctx).await,
        Next::Hold(held) => status::report_held(&plan, &ctx, &held).await,
        Next::Wait(refusal) => status::report_refusal(&plan, &ctx, refusal).await,
    }
}

const NO_OWNER: &str = "the InstallPlan is not owned by a Subscription";

/// Created manually, or by a manager that did not record the approved content. The controller of its
/// Subscription replaces it.
async fn unknown(plan: &InstallPlan, ctx: &Ctx) -> Result<Action, Error> {
    let kind = Subscription::kind(&());
    if !plan.owner_references().iter().any(|owner| owner.kind == kind) {
        return status::refuse(plan, ctx, "PlanUnknown", NO_OWNER).await;
    }
    let held = Held {
        reason: "PlanUnknown".into(),
        message: "the InstallPlan was not created by this manager and is not applied".into(),
    };
    status::report_held(plan, ctx, &held).await
}

/// Applies an approved plan with the rights of its authority, and reports one that waits for approval.
async fn start(plan: &InstallPlan, observed: &Observed, change: &Change, ctx: &Ctx) -> Result<Action, Error> {
    let Observed { snapshot, subscription, begun } = observed;
    let authority = match plan.spec.approved {
        false => None,
        true => match authority::prove(plan, subscription, snapshot, &change.plan, ctx).await? {
            authority::Authorized::Yes(authority) => authority,
            authority::Authorized::No(action) => return Ok(action),
        },
    };
    let mut now = plan.status.clone().unwrap_or_default();
    if !begun {
        now = status::begin(plan, change, Timestamp::now());
        if !plan.spec.approved {
            ctx.write_status(plan, plan.status.as_ref(), &now).await?;
            return Ok(Action::await_change());
        }
        audit::begins(plan, authority.as_ref(), ctx).await;
    }
    let job = apply::Job { plan, change, subscription, snapshot, authority: authority.as_ref() };
    run_plan(&job, now, ctx).await
}

/// Applies the plan and reports its progress; an error is reported and retried.
async fn run_plan(job: &apply::Job<'_>, mut before: InstallPlanStatus, ctx: &Ctx) -> Result<Action, Error> {
    let apply::Job { plan, change, subscription, snapshot, .. } = *job;
    let group = snapshot.groups.iter().map(AsRef::as_ref).min_by_key(|group| group.name_any());
    let resources = match ctx.resources_for(group).await {
        Ok(resources) => resources,
        Err(error) => {
            let message = error.to_string();
            status::report(plan, ctx, before, "InstallCheckFailed", &message).await?;
            return Err(error.into());
        }
    };
    before.attenuated_service_account_ref = status::account(group);
    if before.plan.is_empty() {
        before.plan = status::steps(change);
    }
    // The status is written before the first change; a reconciliation of an older state of the plan fails on
    // it.
    ctx.write_status_at(plan, plan.status.as_ref(), &before, plan.resource_version()).await?;
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
            ctx.event(plan, false, "InstallPlanComplete", &with_authority(message, job.authority)).await;
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
            status::report_over(plan, ctx, &before, after, status::reason(&error), &error.to_string())
                .await?;
            Err(error)
        }
    }
}

fn with_authority(what: String, authority: Option<&Authority>) -> String {
    match authority {
        Some(authority) => format!("{what}; on behalf of {}", authority.who()),
        None => what,
    }
}

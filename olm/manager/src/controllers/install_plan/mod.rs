//! InstallPlan: carry out what was approved, and nothing else.
//!
//! The plan is made again by the same engine right before the first change; when its digest is not the approved one,
//! nothing is done. From then on the phase `Installing` is on record, and an interrupted run carries on from
//! whatever is there: applying is idempotent.

mod apply;
mod changed;
mod csv_object;
mod status;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{Controller, controller::Action, watcher},
};
use olm_api::{
    Condition, InstallPlan, InstallPlanStatus, Subscription, condition,
    install_plan::{InstallPlanPhase, StepStatus},
    names,
};
use tokio_util::sync::CancellationToken;

use crate::{
    context::{Ctx, Error, SAFETY_NET, drive, truncate},
    engine::{self, Change, Outcome, Refusal, Snapshot},
};

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let controller = Controller::new(Api::<InstallPlan>::all(ctx.client.clone()), watcher::Config::default())
        .reconcile_all_on(futures::StreamExt::map(
            tokio_stream::wrappers::WatchStream::from_changes(ctx.catalogs.changes()),
            |_| (),
        ));
    drive("install_plan", controller, ctx, shutdown, reconcile).await;
}

async fn reconcile(plan: Arc<InstallPlan>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let phase = plan.status.as_ref().map(|s| s.phase).unwrap_or_default();
    if plan.metadata.deletion_timestamp.is_some()
        || matches!(phase, InstallPlanPhase::Complete | InstallPlanPhase::Failed)
    {
        return Ok(Action::await_change());
    }
    let Some(subscription) = owner(&plan, &ctx).await? else {
        // Its Subscription is gone: garbage collection takes it away in a moment. A plan that never had one was
        // not made by us, and we do not carry out what we did not work out.
        return refuse(&plan, &ctx, "PlanUnknown", "the InstallPlan is not owned by a Subscription").await;
    };
    let approved = plan.spec.approved;
    if !approved && phase == InstallPlanPhase::RequiresApproval {
        return Ok(Action::await_change());
    }

    let namespace = plan.namespace().unwrap_or_default();
    let catalogs = ctx.catalogs.visible_from(&namespace, &ctx.namespace);
    let snapshot = Snapshot::read(&ctx.resources, &subscription).await?;
    let begun = phase == InstallPlanPhase::Installing;
    let change = if begun {
        let csv = plan.spec.cluster_service_version_names.first().cloned().unwrap_or_default();
        engine::change_to(&ctx.resources, &catalogs, &subscription, &snapshot, &csv).await
    } else {
        match engine::evaluate(&ctx.resources, &catalogs, &subscription, &snapshot).await {
            Ok(Outcome::Change(change)) => Ok(*change),
            Ok(Outcome::UpToDate(_)) => return changed(&plan, &ctx, "nothing is left to do").await,
            Err(refusal) => Err(refusal),
        }
    };
    let change = match change {
        Ok(change) => change,
        Err(refusal) => return waiting(&plan, &ctx, refusal).await,
    };

    let mut now = plan.status.clone().unwrap_or_default();
    if !begun {
        if let Some(digest) = plan.spec.plan_digest.as_deref().filter(|digest| *digest != change.plan.digest)
        {
            return changed(&plan, &ctx, &changed::how(&plan, digest, &change.plan)).await;
        }
        now = status::begin(&plan, &change, Timestamp::now());
        ctx.write_status(plan.as_ref(), plan.status.as_ref(), &now).await?;
        if !approved {
            return Ok(Action::await_change());
        }
    }
    carry_out(&plan, &subscription, &change, now, &ctx).await
}

/// Applies the plan and reports how far it got; an error is reported and then tried again.
async fn carry_out(
    plan: &InstallPlan,
    subscription: &Subscription,
    change: &Change,
    before: InstallPlanStatus,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let mut after = before.clone();
    if after.plan.is_empty() {
        after.plan = status::steps(change);
    }
    let applied = apply::apply(change, subscription, &mut after.plan, ctx).await;
    match applied {
        Ok(()) => {
            after.phase = InstallPlanPhase::Complete;
            after.message = None;
            let message = crate::controllers::subscription::summary(&change.plan);
            let done = Condition::new(names::CONDITION_INSTALLED, true, "", message.clone());
            condition::set(&mut after.conditions, done, Timestamp::now());
            ctx.write_status(plan, Some(&before), &after).await?;
            ctx.event(plan, false, "InstallPlanComplete", &message).await;
            Ok(Action::await_change())
        }
        Err(error) => {
            let message = truncate(&error.to_string(), 2000);
            let news = after.message.as_deref() != Some(&message);
            after.message = Some(message.clone());
            let failed =
                Condition::new(names::CONDITION_INSTALLED, false, "InstallComponentFailed", message.clone());
            condition::set(&mut after.conditions, failed, Timestamp::now());
            ctx.write_status(plan, Some(&before), &after).await?;
            if news {
                ctx.event(plan, true, "InstallComponentFailed", &format!("{message}; it is tried again"))
                    .await;
            }
            Err(error)
        }
    }
}

/// The engine has no plan right now: reported, and looked at again when the catalog changes.
async fn waiting(plan: &InstallPlan, ctx: &Ctx, refusal: Refusal) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    let message = truncate(&refusal.message(), 2000);
    if new.phase == InstallPlanPhase::None {
        new.phase = InstallPlanPhase::Planning;
    }
    new.message = Some(message.clone());
    let resolved = Condition::new(names::CONDITION_RESOLVED, false, refusal.code(), message);
    condition::set(&mut new.conditions, resolved, Timestamp::now());
    ctx.write_status(plan, plan.status.as_ref(), &new).await?;
    Err(refusal.into())
}

/// The plan is not what was approved any more. The Subscription's controller makes a new one.
async fn changed(plan: &InstallPlan, ctx: &Ctx, how: &str) -> Result<Action, Error> {
    refuse(plan, ctx, changed::REASON, &changed::message(plan, how)).await
}

async fn refuse(plan: &InstallPlan, ctx: &Ctx, reason: &str, message: &str) -> Result<Action, Error> {
    let mut new = plan.status.clone().unwrap_or_default();
    new.phase = InstallPlanPhase::Failed;
    new.message = Some(message.to_owned());
    let failed = Condition::new(names::CONDITION_INSTALLED, false, reason, message);
    condition::set(&mut new.conditions, failed, Timestamp::now());
    if ctx.write_status(plan, plan.status.as_ref(), &new).await? {
        ctx.event(plan, true, reason, message).await;
    }
    Ok(Action::requeue(SAFETY_NET))
}

async fn owner(plan: &InstallPlan, ctx: &Ctx) -> Result<Option<Subscription>, Error> {
    let kind = Subscription::kind(&());
    let Some(owner) = plan.owner_references().iter().find(|o| o.kind == kind) else { return Ok(None) };
    let api = Api::<Subscription>::namespaced(ctx.client.clone(), &plan.namespace().unwrap_or_default());
    let found =
        api.get_opt(&owner.name).await.map_err(Error::kube(format!("get Subscription {}", owner.name)))?;
    Ok(found.filter(|s| s.uid().as_deref() == Some(owner.uid.as_str())))
}

/// When work began.
fn start(now: Timestamp) -> Option<Time> {
    Some(Time(now))
}

/// What became of an object that was applied.
fn applied(op: olm_plan::Op) -> StepStatus {
    if op == olm_plan::Op::Create { StepStatus::Created } else { StepStatus::Present }
}

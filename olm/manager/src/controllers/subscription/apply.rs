//! Creates and deletes the InstallPlans of a Subscription.

use std::sync::Arc;

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use olm_api::{InstallPlan, Subscription, names};

use super::{
    authority,
    decide::{Decision, Next, Observed},
    observe, plan_object,
};
use crate::{
    audit,
    context::{Ctx, Error},
};

/// Deletes the plan that was observed: one that was approved in the meantime stays.
async fn delete(api: &Api<InstallPlan>, plan: &InstallPlan, why: &str) -> Result<(), Error> {
    let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
    let params = DeleteParams::default()
        .preconditions(Preconditions { resource_version: plan.resource_version(), uid: plan.uid() });
    match api.delete(&name, &params).await {
        Ok(_) => tracing::info!(namespace, plan = name, "{why}"),
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(error) => return Err(Error::kube(format!("delete InstallPlan {namespace}/{name}"))(error)),
    }
    Ok(())
}

/// Deletes the plans that would install again what is being removed; returns whether there were any.
pub(super) async fn stop_plans(subscription: &Subscription, ctx: &Ctx) -> Result<bool, Error> {
    let mut plans = observe::plans_of(subscription, &ctx.cache);
    plans.retain(|plan| !plan.is_over());
    let api =
        Api::<InstallPlan>::namespaced(ctx.client.clone(), &subscription.namespace().unwrap_or_default());
    for plan in &plans {
        delete(&api, plan, "its Subscription is being deleted").await?;
    }
    Ok(!plans.is_empty())
}

/// Deletes obsolete plans and creates the chosen one; returns the current one.
pub(super) async fn apply(
    observed: &Observed<'_>,
    decision: &Decision,
    ctx: &Ctx,
) -> Result<Option<Arc<InstallPlan>>, Error> {
    let namespace = observed.subscription.namespace().unwrap_or_default();
    let api = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace);
    for plan in &decision.obsolete {
        delete(&api, plan, "superseded").await?;
    }
    let Next::Plan(change) = &decision.next else { return Ok(decision.current.clone()) };
    let needed = authority::needed(observed, &change.plan, ctx).await?;
    let name = plan_object::name(&change.plan.digest);
    if let Some(existing) = observed.plans.iter().find(|p| p.name_any() == name)
        && !existing.is_over()
    {
        let requested = plan_object::is_requested(observed, &change.plan);
        return authority::follow(existing, observed.subscription, requested, needed, ctx).await.map(Some);
    }
    let wanted = plan_object::plan_object(observed, change, needed);
    match api.create(&PostParams::default(), &wanted).await {
        Ok(created) => {
            ctx.cache.plans.store_written(created.clone());
            let author = olm_ops::authority::Authority::requested(observed.subscription);
            let needed = created.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
            audit::planned(&created, author.as_ref(), needed.map(String::as_str));
            let note = created.annotations().get(names::ANNOTATION_PLAN_SUMMARY).cloned().unwrap_or_default();
            ctx.event(observed.subscription, false, "InstallPlanCreated", &format!("{name}: {note}")).await;
            Ok(Some(Arc::new(created)))
        }
        Err(error) => Err(Error::kube(format!("create InstallPlan {namespace}/{name}"))(error)),
    }
}

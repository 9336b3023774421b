//! Observes what a plan depends on, and makes its change again. Read-only.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use olm_api::{InstallPlan, Subscription, install_plan::InstallPlanPhase};
use olm_engine::{
    Basis, Change, Outcome, Refusal, Snapshot,
    catalogs::{CatalogVisibility, LoadedCatalog},
};
use olm_plan::Fact;

use crate::context::{Ctx, Error};

/// The namespace and the Subscription of a plan.
pub(super) struct Observed {
    pub(super) snapshot: Snapshot,
    pub(super) subscription: Arc<Subscription>,
    /// The plan may have changed the cluster already.
    pub(super) begun: bool,
}

/// `None` without a Subscription. Before the first change, the namespace is read live; a plan in progress uses
/// the cache: applying is idempotent.
pub(super) async fn observe(plan: &InstallPlan, ctx: &Ctx) -> Result<Option<Observed>, Error> {
    let begun = plan.spec.approved && plan.phase() == InstallPlanPhase::Installing;
    let kind = Subscription::kind(&());
    let Some(owner) = plan.owner_references().iter().find(|o| o.kind == kind) else { return Ok(None) };
    let namespace = plan.namespace().unwrap_or_default();
    let ours = |snapshot: &Snapshot| {
        let is_ours = |s: &&Arc<Subscription>| s.uid().as_deref() == Some(owner.uid.as_str());
        snapshot.subscriptions.iter().find(is_ours).cloned()
    };
    if begun {
        let snapshot = ctx.cache.snapshot(&ctx.resources, &namespace).await;
        if let Some(subscription) = ours(&snapshot) {
            return Ok(Some(Observed { snapshot, subscription, begun }));
        }
    }
    let policies = async { Fact::Known(ctx.cache.policies_in(&namespace)) };
    let snapshot = Snapshot::read(&ctx.resources, &namespace, policies).await?;
    Ok(ours(&snapshot).map(|subscription| Observed { snapshot, subscription, begun }))
}

/// The change that the plan makes now; `None` when no changes remain.
pub(super) async fn change(
    plan: &InstallPlan,
    observed: &Observed,
    ctx: &Ctx,
) -> Result<Option<Arc<Change>>, Refusal> {
    let Observed { snapshot, subscription, begun } = observed;
    let namespace = plan.namespace().unwrap_or_default();
    // A plan in progress keeps its catalogs, even if the OperatorGroup changed since.
    let groups = if *begun { &[] } else { snapshot.groups.as_slice() };
    let visibility = CatalogVisibility::of(&namespace, &ctx.namespace, groups);
    let catalogs = ctx.catalogs.within(&visibility);
    olm_engine::check_catalog_visible(subscription, &visibility)?;
    let bundle = plan.spec.cluster_service_version_names.first().cloned().unwrap_or_default();
    if !begun {
        if let Some(change) = cached_change(plan, subscription, snapshot, &catalogs, ctx) {
            return Ok(Some(change));
        }
        match olm_engine::evaluate(&ctx.resources, &catalogs, subscription, snapshot).await? {
            Outcome::Change(change) => return Ok(Some(Arc::from(change))),
            // Its version exists without all of its objects: an earlier plan did not complete.
            Outcome::UpToDate(resolved) if resolved.chosen.name == bundle => {}
            Outcome::UpToDate(_) => return Ok(None),
        }
    }
    let along = olm_engine::recorded_along(plan);
    let resumed =
        olm_engine::resume_change(&ctx.resources, &catalogs, subscription, snapshot, &bundle, along).await?;
    Ok(Some(Arc::new(resumed)))
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

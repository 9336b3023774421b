//! Observes what the decision about a Subscription depends on: from the stores, and by name what they do not
//! have. An idle pass reads the stores alone.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{InstallPlan, Subscription};
use olm_engine::{
    Basis, Snapshot, Snapshots,
    catalogs::{CatalogVisibility, LoadedCatalog},
};

use super::{
    decide::{Catalog, Observed},
    sources::Sources,
};
use crate::{
    context::{Ctx, Error},
    stores::Stores,
};

/// What the stores contain about a Subscription.
pub(super) struct Inputs {
    namespace: String,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) catalogs: Vec<LoadedCatalog>,
    plans: Vec<Arc<InstallPlan>>,
    /// Of the engine's result.
    pub(super) basis: Basis,
    /// With the plans and the status of the Subscription.
    pub(super) whole: Basis,
}

impl Inputs {
    pub(super) async fn read(subscription: &Arc<Subscription>, snapshots: &Snapshots, ctx: &Ctx) -> Self {
        let namespace = subscription.namespace().unwrap_or_default();
        let snapshot = snapshots.share(ctx.stores.snapshot(&ctx.resources, &namespace).await);
        let catalogs =
            ctx.catalogs.within(&CatalogVisibility::of(&namespace, &ctx.namespace, &snapshot.groups));
        let plans = plans_of(subscription, &ctx.stores);
        let basis = Basis::of(subscription, &snapshot, &catalogs);
        let whole = basis.and(&plans).and(std::slice::from_ref(subscription));
        Self { namespace, snapshot, catalogs, plans, basis, whole }
    }

    fn visibility<'a>(&'a self, ctx: &'a Ctx) -> CatalogVisibility<'a> {
        CatalogVisibility::of(&self.namespace, &ctx.namespace, &self.snapshot.groups)
    }
}

/// Adds the package and the state of the catalog.
pub(super) async fn observe<'a>(
    subscription: &'a Subscription,
    inputs: &'a Inputs,
    sources: &Sources,
    ctx: &Ctx,
) -> Result<Observed<'a>, Error> {
    let snapshot = &inputs.snapshot;
    let source = olm_engine::source_of(&inputs.catalogs, subscription).ok();
    let package = match source {
        Some(source) => olm_engine::prepared(source, &subscription.spec.name).await?,
        None => None,
    };
    let installed = snapshot.installed(subscription, package.as_deref());
    Ok(Observed {
        subscription,
        catalog: catalog_state(subscription, inputs, source.is_some(), sources, ctx).await?,
        installed,
        upgradeable: installed.map_or(Ok(()), |csv| snapshot.upgradeable(&csv.name_any())),
        csvs: &snapshot.csvs,
        plans: &inputs.plans,
        now: Timestamp::now(),
    })
}

/// The plans that this Subscription owns, oldest first.
pub(super) fn plans_of(subscription: &Subscription, stores: &Stores) -> Vec<Arc<InstallPlan>> {
    let uid = subscription.uid();
    let ours = |plan: &Arc<InstallPlan>| {
        plan.metadata.deletion_timestamp.is_none()
            && plan.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    let mut plans = stores.plans.in_namespace(&subscription.namespace().unwrap_or_default());
    plans.retain(ours);
    plans.sort_by_key(|plan| (plan.spec.generation, plan.name_any()));
    plans
}

async fn catalog_state(
    subscription: &Subscription,
    inputs: &Inputs,
    is_loaded: bool,
    sources: &Sources,
    ctx: &Ctx,
) -> Result<Catalog, Error> {
    let spec = &subscription.spec;
    let (namespace, name) = (&spec.source_namespace, &spec.source);
    if let Some((text, fix)) = inputs.visibility(ctx).refuses(namespace, name) {
        return Ok(Catalog::OutOfSight(format!("targeted {text}; {fix}")));
    }
    if let Some(entry) = ctx.catalogs.get(namespace, name) {
        return Ok(match (is_loaded, entry.problem) {
            (true, _) => Catalog::Ready,
            (false, Some(problem)) => Catalog::Unreadable(format!(
                "targeted catalogsource {namespace}/{name} unhealthy: {}",
                problem.message
            )),
            (false, None) => Catalog::Loading,
        });
    }
    Ok(match sources.exists(namespace, name, ctx).await? {
        true => Catalog::Loading,
        false => Catalog::Missing(format!("targeted catalogsource {namespace}/{name} missing")),
    })
}

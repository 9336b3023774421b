//! Observes what the decision about a Subscription depends on: from the cache, and by name what it does not
//! contain. An idle pass reads the cache alone.

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
    cache::ClusterCache,
    context::{Ctx, Error},
};

/// What the cache contains about a Subscription.
pub(super) struct Inputs {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) catalogs: Vec<LoadedCatalog>,
    plans: Vec<Arc<InstallPlan>>,
    /// Why the catalog that the Subscription names is not visible from the namespace, and the fix.
    hidden: Option<(String, String)>,
    /// Of the engine's result.
    pub(super) basis: Basis,
    /// With the plans and the status of the Subscription.
    pub(super) whole: Basis,
}

impl Inputs {
    pub(super) async fn read(subscription: &Arc<Subscription>, snapshots: &Snapshots, ctx: &Ctx) -> Self {
        let plans = plans_of(subscription, &ctx.cache);
        let (namespace, spec) = (subscription.namespace().unwrap_or_default(), &subscription.spec);
        let snapshot = snapshots.share(ctx.cache.snapshot(&ctx.resources, &namespace).await);
        let visibility = CatalogVisibility::of(&namespace, &ctx.namespace, &snapshot.groups);
        let hidden = visibility.refuses(&spec.source_namespace, &spec.source);
        let catalogs = ctx.catalogs.within(&visibility);
        let basis = Basis::of(subscription, &snapshot, &catalogs);
        let whole = basis.and(&plans).and(std::slice::from_ref(subscription));
        Self { snapshot, catalogs, plans, hidden, basis, whole }
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
    let (catalog, source) = catalog_state(subscription, inputs, sources, ctx).await?;
    let package = match source {
        Some(source) => olm_engine::prepared(source, &subscription.spec.name).await?,
        None => None,
    };
    let installed = snapshot.installed(subscription, package.as_deref());
    Ok(Observed {
        subscription,
        catalog,
        installed,
        upgradeable: installed.map_or(Ok(()), |csv| snapshot.upgradeable(&csv.name_any())),
        csvs: &snapshot.csvs,
        plans: &inputs.plans,
        now: Timestamp::now(),
    })
}

/// The plans that this Subscription owns, oldest first.
pub(super) fn plans_of(subscription: &Subscription, cache: &ClusterCache) -> Vec<Arc<InstallPlan>> {
    let uid = subscription.uid();
    let ours = |plan: &Arc<InstallPlan>| {
        plan.metadata.deletion_timestamp.is_none()
            && plan.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    let mut plans = cache.plans.in_namespace(&subscription.namespace().unwrap_or_default());
    plans.retain(ours);
    plans.sort_by_key(|plan| (plan.spec.generation, plan.name_any()));
    plans
}

/// The state of the catalog, and its content.
async fn catalog_state<'a>(
    subscription: &Subscription,
    inputs: &'a Inputs,
    sources: &Sources,
    ctx: &Ctx,
) -> Result<(Catalog, Option<&'a LoadedCatalog>), Error> {
    let (namespace, name) = (&subscription.spec.source_namespace, &subscription.spec.source);
    let source = olm_engine::source_of(&inputs.catalogs, subscription).ok();
    let state = if let Some((text, fix)) = &inputs.hidden {
        Catalog::OutOfSight(format!("targeted {text}; {fix}"))
    } else if let Some(entry) = ctx.catalogs.get(namespace, name) {
        match (source, entry.problem) {
            (Some(_), _) => Catalog::Ready,
            (None, Some(problem)) => Catalog::Unreadable(format!(
                "targeted catalogsource {namespace}/{name} unhealthy: {}",
                problem.message
            )),
            (None, None) => Catalog::Loading,
        }
    } else if sources.exists(namespace, name, ctx).await? {
        Catalog::Loading
    } else {
        Catalog::Missing(format!("targeted catalogsource {namespace}/{name} missing"))
    };
    Ok((state, source))
}

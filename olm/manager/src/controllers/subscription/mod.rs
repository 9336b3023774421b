//! Subscription: from the request for a package to its InstallPlan.
//!
//! [`observe`] reads the cache → [`decide`] whether to resolve the request (pure) → [`resolve`] calls the engine
//! → [`decide`] what its result means (pure) → [`apply`] creates and deletes InstallPlans → [`status`] derives the
//! status (pure) and writes it.

mod apply;
mod authority;
mod cleanup;
mod decide;
mod decision_cache;
mod live;
mod metadata;
mod observe;
mod plan_object;
mod resolve;
mod sources;
mod status;

use std::{sync::Arc, time::Duration};

use decide::{Catalog, Decision, HoldReason, Next, Resolution};
use decision_cache::DecisionCache;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use observe::Inputs;
use olm_api::{InstallPlan, Subscription};
use olm_engine::Snapshots;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::ClusterCache,
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
};
#[cfg(test)]
pub(crate) use plan_object::parts;
pub(crate) use plan_object::summary;
use sources::Sources;
use status::Reported;

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let cache = Arc::clone(&ctx.cache);
    let others = |cache: &Arc<ClusterCache>| {
        let cache = Arc::clone(cache);
        move |namespace: Option<String>| cache.subscriptions.references_in(&namespace.unwrap_or_default())
    };
    let (csvs, groups, conditions) = (others(&cache), others(&cache), others(&cache));
    // A deleted Subscription may wait for another one that is deleted with it.
    let there = Arc::clone(&cache);
    let leaving = move |namespace: Option<String>| {
        let mut all = there.subscriptions.in_namespace(&namespace.unwrap_or_default());
        all.retain(|subscription| subscription.metadata.deletion_timestamp.is_some());
        all.into_iter().map(|subscription| ObjectRef::from_obj(subscription.as_ref())).collect::<Vec<_>>()
    };
    // A change of a policy, or of the labels by which policies select a namespace.
    let (all, labels) = (Arc::clone(&cache), Arc::clone(&cache));
    let held = move |namespace: String| match labels.policies.is_empty() {
        true => Vec::new(),
        false => labels.subscriptions.references_in(&namespace),
    };
    let memory = Arc::<Memory>::default();
    // A kind that was missing may be served now.
    let (waiting, known, resources) = (Arc::clone(&memory), Arc::clone(&cache), ctx.resources.clone());
    let kinds = ctx.parts.definitions().flat_map(move |_| {
        resources.forget_missing();
        let exists = |namespace: &str, name: &str| known.subscriptions.has(namespace, name);
        stream::iter(waiting.decisions.take_needing_kinds(exists))
    });
    let controller = cache
        .subscriptions
        .controller()
        .reconcile_on(kinds)
        .reconcile_on(cache.plans.wakes(owners))
        .reconcile_on(cache.subscriptions.wakes(move |subscription| leaving(subscription.namespace())))
        .reconcile_on(cache.csvs.wakes(move |csv| csvs(csv.namespace())))
        .reconcile_on(cache.groups.wakes(move |group| groups(group.namespace())))
        .reconcile_on(cache.conditions.wakes(move |condition| conditions(condition.namespace())))
        .reconcile_on(cache.policies.wakes(move |_| all.subscriptions.references()))
        .reconcile_on(cache.namespaces.wakes(move |namespace| held(namespace.name_any())))
        // Unaffected Subscriptions end early, without a resolution.
        .reconcile_all_on(WatchStream::from_changes(ctx.catalogs.changes()).map(|_| ()));
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = ctx.synced() => {}
    }
    drive("subscription", controller, ctx, shutdown, move |subscription, ctx| {
        let memory = Arc::clone(&memory);
        async move { reconcile(subscription, ctx, memory).await }
    })
    .await;
}

fn owners(plan: &InstallPlan) -> Vec<ObjectRef<Subscription>> {
    let (namespace, kind) = (plan.namespace().unwrap_or_default(), Subscription::kind(&()));
    let ours = plan.owner_references().iter().filter(|owner| owner.kind == kind);
    ours.map(|owner| ObjectRef::new(&owner.name).within(&namespace)).collect()
}

/// The state of this controller outside the cache.
#[derive(Default)]
struct Memory {
    decisions: DecisionCache,
    sources: Sources,
    snapshots: Snapshots,
}

/// When to retry while the catalog is loading: its first read wakes the Subscription.
const LOADING_INTERVAL: Duration = Duration::from_secs(5);
/// When to retry after a decision on an outdated state. A watch event wakes it before.
const OUTDATED_INTERVAL: Duration = Duration::from_secs(1);

async fn reconcile(
    subscription: Arc<Subscription>,
    ctx: Arc<Ctx>,
    memory: Arc<Memory>,
) -> Result<Action, Error> {
    ctx.metrics.count_sync(&subscription);
    if subscription.metadata.deletion_timestamp.is_some() {
        memory.decisions.remove(&subscription);
        return cleanup::on_deletion(&subscription, &ctx).await;
    }
    metadata::ensure_finalizer(&subscription, &ctx).await?;
    // The label is for the Operator's controller: this decision does not depend on it.
    let (labelled, action) =
        tokio::join!(metadata::ensure_label(&subscription, &ctx), pass(&subscription, &ctx, &memory));
    labelled.and(action)
}

/// Observes, decides, applies and reports, once.
async fn pass(subscription: &Arc<Subscription>, ctx: &Ctx, memory: &Memory) -> Result<Action, Error> {
    let decisions = &memory.decisions;
    let inputs = Inputs::read(subscription, &memory.snapshots, ctx).await;
    if decisions.is_current(subscription, inputs.whole, &inputs.catalogs, &inputs.snapshot).await {
        return Ok(Action::requeue(SAFETY_NET));
    }
    let observed = observe::observe(subscription, &inputs, &memory.sources, ctx).await?;
    if observed.catalog == Catalog::Loading {
        // A new CatalogSource, or the start of the manager: there is nothing to report yet.
        return Ok(Action::requeue(LOADING_INTERVAL));
    }
    let resolution = match decide::hold(&observed) {
        Some(reason) => Resolution::Hold(reason),
        None => resolve::resolve(&observed, &inputs, decide::in_progress(&observed), ctx).await?,
    };
    let decision = decide::decide(&observed, resolution);
    if let Some(kinds) = decision.needs_kinds {
        decisions.set_needs_kinds(subscription, kinds);
    }
    if let Next::Plan(change) = &decision.next {
        // The cache may lag, and a second plan for the same version could not be undone: the live objects
        // decide.
        if !live::is_current(&observed, &change.resolved.chosen.name, ctx).await? {
            return Ok(Action::requeue(OUTDATED_INTERVAL));
        }
        // Before the plan is created: its controller starts at once.
        ctx.change_cache.insert(inputs.basis, Arc::clone(change));
    }
    let current = apply::apply(&observed, &decision, ctx).await?;
    let reported = status::report(&observed, &decision.next, current.as_deref(), ctx).await?;
    // A status that was just written changes the basis: the Subscription is reconciled once more.
    if reported == Reported::Unchanged && matches!(decision.next, Next::UpToDate { .. }) {
        decisions.insert(subscription, inputs.whole, &inputs.catalogs, &inputs.snapshot).await;
    }
    Ok(Action::requeue(interval(&decision, current.as_deref(), reported, observed.now)))
}

/// When to reconcile without an event.
fn interval(
    decision: &Decision,
    current: Option<&InstallPlan>,
    reported: Reported,
    now: Timestamp,
) -> Duration {
    match &decision.next {
        _ if reported == Reported::Deferred => status::PASSING.unsigned_abs(),
        Next::Hold(HoldReason::Starting { until }) => {
            let left = until.duration_since(now).as_secs().clamp(1, 300);
            Duration::from_secs(left.unsigned_abs())
        }
        Next::Refused(refused) if UNWATCHED.contains(&refused.reason.as_str()) => UNWATCHED_INTERVAL,
        // Rights are not watched.
        Next::Plan(_) if current.is_some_and(authority::waits) => authority::RETRY_INTERVAL,
        _ => decision.retry.unwrap_or(SAFETY_NET),
    }
}

/// Refusals for causes that are not watched: webhooks and their Services, rights, quotas, foreign objects,
/// registries.
const UNWATCHED: [&str; 8] = [
    "WebhookUnavailable",
    "InstallerLacksRights",
    "InstallerCannotGrant",
    "QuotaExceeded",
    "PriorityClassMissing",
    "NameCollision",
    "ImageNotSigned",
    "SignatureUnknown",
];
/// Retry interval of such a refusal. Each retry costs a read for each object of the bundle.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(15);

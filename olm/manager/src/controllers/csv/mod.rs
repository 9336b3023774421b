//! ClusterServiceVersion: from requirements to running Deployments, and the transition between versions.
//!
//! [`parts`] caches the cluster's objects beyond the shared cache; [`observe`] reads the state → [`decide`]
//! chooses phase and actions (pure) → [`apply`] performs them → [`status`] derives the status (pure) and writes
//! it.

pub(crate) mod apis;
mod apply;
mod authority;
mod cleanup;
mod decide;
mod delayed_reports;
mod facts;
mod health;
mod observe;
mod parts;
mod pods;
mod requirements;
mod retarget;
mod rights;
mod serving;
mod status;
mod workload;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use decide::{Act, Decision};
use facts::Observed;
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use observe::{Memory, Observation};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorCondition, OperatorGroup, Subscription, csv::CsvPhase,
};
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{ClusterCache, field_cache::ObjectChange},
    context::{Ctx, Error, SAFETY_NET, drive},
    controllers::operator_group,
    runner::Action,
};
pub(crate) use parts::Parts;
use serving::Serving;

type Reference = ObjectRef<ClusterServiceVersion>;

/// Poll interval of a pending version: manually created ServiceAccounts and roles are not watched.
const PENDING: Duration = Duration::from_secs(10);
/// Minimum time between reconciliations of a settled version without an event; the maximum is half as long
/// again.
const SELDOM: Duration = Duration::from_secs(6 * 3_600);

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let (cache, parts) = (Arc::clone(&ctx.cache), Arc::clone(&ctx.parts));
    let memory = Arc::<Memory>::default();
    let controller = cache
        .csvs
        .controller()
        .reconcile_on(wake(parts.owned(), &cache, |change, cache| match &change.owner {
            Some(owner) => vec![reference(&owner.namespace, &owner.name)],
            // Deleted while the watch was interrupted: its owner is unknown.
            None if change.namespace.is_empty() => cache.csvs.references(),
            None => cache.csvs.references_in(&change.namespace),
        }))
        .reconcile_on(wake(Parts::named(&ctx), &cache, |change, cache| {
            let mut named = cache.csvs.references_keyed(&change.name);
            named.extend(change.owner.as_ref().map(|owner| reference(&owner.namespace, &owner.name)));
            named
        }))
        // Versions before and after, and those that provide the same APIs.
        .reconcile_on(cache.csvs.wakes({
            let (cache, memory) = (Arc::clone(&cache), Arc::clone(&memory));
            move |csv: &ClusterServiceVersion| {
                let mut affected = neighbours(&cache, csv);
                let there = cache.csvs.has(&csv.namespace().unwrap_or_default(), &csv.name_any());
                let mut providers = memory.providers();
                let others = if there { providers.note(csv) } else { providers.gone(csv) };
                affected.extend(others.iter().map(|(namespace, name)| reference(namespace, name)));
                affected
            }
        }))
        .reconcile_on(cache.plans.wakes(|plan: &InstallPlan| {
            let namespace = plan.namespace().unwrap_or_default();
            let names = plan.spec.cluster_service_version_names.iter();
            names.map(|name| reference(&namespace, name)).collect::<Vec<_>>()
        }))
        .reconcile_on(cache.subscriptions.wakes(|subscription: &Subscription| {
            // Its configuration is part of the Deployments of its version.
            let namespace = subscription.namespace().unwrap_or_default();
            let installed = subscription.status.as_ref().and_then(|s| s.installed_csv.as_ref());
            installed.map(|name| reference(&namespace, name))
        }))
        .reconcile_on(cache.groups.wakes({
            let cache = Arc::clone(&cache);
            move |group: &OperatorGroup| cache.csvs.references_in(&group.namespace().unwrap_or_default())
        }))
        .reconcile_on(cache.conditions.wakes({
            let cache = Arc::clone(&cache);
            move |condition: &OperatorCondition| {
                let (namespace, name) = (condition.namespace().unwrap_or_default(), condition.name_any());
                let mut all = cache.csvs.in_namespace(&namespace);
                all.retain(|csv| {
                    csv.metadata.name.as_ref() == Some(&name) || csv.spec.replaces.as_ref() == Some(&name)
                });
                references(all)
            }
        }));
    let known = async { tokio::join!(cache.synced(), parts.synced()) };
    tokio::select! {
        _ = known => {}
        () = shutdown.cancelled() => return,
    }
    drive("csv", controller, ctx, shutdown, move |csv, ctx| {
        let memory = Arc::clone(&memory);
        async move {
            memory.seed(&ctx.cache);
            reconcile(csv, ctx, memory).await
        }
    })
    .await;
}

/// Maps changes of parts to the versions to wake.
fn wake(
    changes: impl Stream<Item = ObjectChange> + Send + 'static,
    cache: &Arc<ClusterCache>,
    affected: impl Fn(&ObjectChange, &ClusterCache) -> Vec<Reference> + Send + 'static,
) -> impl Stream<Item = Reference> + Send + 'static {
    let cache = Arc::clone(cache);
    changes.flat_map(move |change| stream::iter(affected(&change, &cache)))
}

fn reference(namespace: &str, name: &str) -> Reference {
    ObjectRef::new(name).within(namespace)
}

fn references(csvs: Vec<Arc<ClusterServiceVersion>>) -> Vec<Reference> {
    csvs.iter().map(|csv| ObjectRef::from_obj(csv.as_ref())).collect()
}

fn neighbours(cache: &ClusterCache, csv: &ClusterServiceVersion) -> Vec<Reference> {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let mut after = cache.csvs.in_namespace(&namespace);
    after.retain(|other| other.spec.replaces.as_deref() == Some(&name));
    let mut out = references(after);
    // All versions before it wait for the one that runs: one between them may have failed.
    let mut before = csv.spec.replaces.clone();
    let mut seen = BTreeSet::from([name]);
    while let Some(old) = before.filter(|old| seen.insert(old.clone())) {
        before = cache.csvs.get(&namespace, &old).and_then(|csv| csv.spec.replaces.clone());
        out.push(reference(&namespace, &old));
    }
    out
}

async fn reconcile(
    csv: Arc<ClusterServiceVersion>,
    ctx: Arc<Ctx>,
    memory: Arc<Memory>,
) -> Result<Action, Error> {
    if csv.metadata.deletion_timestamp.is_some() {
        memory.providers().note(&csv);
        memory.delayed_reports.forget(&csv);
        let done = cleanup::on_deletion(&csv, &ctx).await?;
        serving::forget(&csv, &ctx);
        operator_group::forget_member(&csv, &ctx).await?;
        return Ok(done);
    }
    let Observation { observed, csvs, package, serving } = observe::observe(&csv, &ctx, &memory).await?;
    if let Some(targets) = observed.targets() {
        let group = observed.groups.first().map(AsRef::as_ref);
        if let Err(error) = retarget::follow(&csv, package.as_deref(), targets, group, &ctx).await {
            let decision = decide::decide(&observed);
            return Err(status::refused(&csv, &csv, decision, error, &ctx).await);
        }
        apply::ensure_metadata(&csv, targets, &ctx).await?;
    }
    // The APIs of a group and the state of the version are independent of each other.
    let groups = observed.groups.clone();
    let provides = async {
        match groups.as_slice() {
            [group] => operator_group::provides(group, csvs.iter().map(AsRef::as_ref), &ctx).await.map(drop),
            _ => Ok(()),
        }
    };
    let (provided, action) = tokio::join!(provides, converge(&csv, observed, serving, &memory, &ctx));
    provided.and(action)
}

/// Decides, applies and reports.
///
/// A pass may decide up to three times, but reads and reports once: the responses of its writes are part of the
/// observed state. Deployments that are available are followed by what calls them, and the reported phase is that
/// after both. A second pass instead would first write the phase between, and wait for the watch: requests and
/// latency of every installation, and a phase that is outdated when it is read.
async fn converge(
    live: &ClusterServiceVersion,
    observed: Observed<'_>,
    mut serving: Serving,
    memory: &Memory,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let mut observed = observed;
    let mut decision = decide::decide(&observed);
    if decision.act == Act::Delete {
        return apply::retire(live, &decision, ctx).await;
    }
    let begun = status::begun(live, &decision);
    let base = begun.as_ref().unwrap_or(live);
    loop {
        let act = decision.act;
        if let Err(error) = apply::apply(&decision, &mut observed, &mut serving, &memory.roles, ctx).await {
            return Err(status::refused(live, base, decision, error, ctx).await);
        }
        if !matches!(act, Act::Install | Act::Serve) {
            break;
        }
        observed.csv = base;
        decision = decide::decide(&observed);
        if (act, decision.act) != (Act::Install, Act::Serve) {
            break;
        }
    }
    if let Some(left) = memory.delayed_reports.delay(live, decision.phase, &observed.applied) {
        return Ok(Action::requeue(left));
    }
    status::report(live, &decision, &observed, ctx).await?;
    Ok(requeue(&decision, &observed))
}

/// When to reconcile without an event.
fn requeue(decision: &Decision, observed: &Observed<'_>) -> Action {
    let csv = observed.csv;
    let longest = match decision.phase {
        CsvPhase::Pending | CsvPhase::Failed if !requirements::are_watched(&decision.requirements) => PENDING,
        // for the report that it takes too long
        CsvPhase::Installing => {
            let since = csv.status.as_ref().filter(|s| s.phase == CsvPhase::Installing);
            let since =
                since.and_then(|s| s.last_transition_time.as_ref()).map_or_else(Timestamp::now, |t| t.0);
            let left = decide::INSTALL_TIMEOUT - Timestamp::now().duration_since(since);
            let left = Duration::try_from(left).unwrap_or_default();
            left.saturating_add(Duration::from_secs(1)).min(SAFETY_NET)
        }
        // The manager may not read Secrets, so it does not watch them either.
        _ if observed.serving.dates.is_some() => SAFETY_NET,
        _ => {
            let mut hasher = DefaultHasher::new();
            csv.metadata.uid.hash(&mut hasher);
            let spread = Duration::from_secs(hasher.finish() % (SELDOM.as_secs() / 2));
            SELDOM.saturating_add(spread)
        }
    };
    Action::requeue(pods::interval(observed, decision.phase).map_or(longest, |next| next.min(longest)))
}

//! ClusterServiceVersion: from requirements to running Deployments, and the transition between versions.
//!
//! [`parts`] caches the cluster's objects beyond the shared stores; [`observe`] reads the state → [`decide`]
//! chooses phase and actions (pure) → apply → [`status`] records it.

pub(crate) mod apis;
mod authority;
mod cleanup;
mod decide;
mod facts;
mod health;
mod install;
mod observe;
mod parts;
mod passing;
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

use decide::{Act, Decision, INSTALL_FAILED};
use facts::Observed;
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
    runtime::reflector::ObjectRef,
};
use observe::{Memory, Seen};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorCondition, OperatorGroup, Subscription, csv::CsvPhase,
};
use tokio_util::sync::CancellationToken;

use super::ledger::Touched;
use crate::{
    context::{Ctx, Error, SAFETY_NET, drive},
    controllers::operator_group,
    runner::Action,
    stores::Stores,
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
    let (stores, parts) = (Arc::clone(&ctx.stores), Arc::clone(&ctx.parts));
    let memory = Arc::<Memory>::default();
    let controller = stores
        .versions
        .controller()
        .reconcile_on(wake(parts.owned(), &stores, |touched, stores| match &touched.owner {
            Some(owner) => vec![reference(&owner.namespace, &owner.name)],
            // Deleted while the watch was interrupted: its owner is unknown.
            None if touched.namespace.is_empty() => stores.versions.references(),
            None => stores.versions.references_in(&touched.namespace),
        }))
        .reconcile_on(wake(Parts::named(&ctx), &stores, |touched, stores| {
            let mut named = stores.versions.references_keyed(&touched.name);
            named.extend(touched.owner.as_ref().map(|owner| reference(&owner.namespace, &owner.name)));
            named
        }))
        // Versions before and after, and those that provide the same APIs.
        .reconcile_on(stores.versions.wakes({
            let (stores, memory) = (Arc::clone(&stores), Arc::clone(&memory));
            move |csv: &ClusterServiceVersion| {
                let mut touched = neighbours(&stores, csv);
                let there = stores.versions.has(&csv.namespace().unwrap_or_default(), &csv.name_any());
                let mut providers = memory.providers();
                let others = if there { providers.note(csv) } else { providers.gone(csv) };
                touched.extend(others.iter().map(|(namespace, name)| reference(namespace, name)));
                touched
            }
        }))
        .reconcile_on(stores.plans.wakes(|plan: &InstallPlan| {
            let namespace = plan.namespace().unwrap_or_default();
            let names = plan.spec.cluster_service_version_names.iter();
            names.map(|name| reference(&namespace, name)).collect::<Vec<_>>()
        }))
        .reconcile_on(stores.subscriptions.wakes(|subscription: &Subscription| {
            // Its configuration is part of the Deployments of its version.
            let namespace = subscription.namespace().unwrap_or_default();
            let installed = subscription.status.as_ref().and_then(|s| s.installed_csv.as_ref());
            installed.map(|name| reference(&namespace, name))
        }))
        .reconcile_on(stores.groups.wakes({
            let stores = Arc::clone(&stores);
            move |group: &OperatorGroup| stores.versions.references_in(&group.namespace().unwrap_or_default())
        }))
        .reconcile_on(stores.conditions.wakes({
            let stores = Arc::clone(&stores);
            move |condition: &OperatorCondition| {
                let (namespace, name) = (condition.namespace().unwrap_or_default(), condition.name_any());
                let mut all = stores.versions.in_namespace(&namespace);
                all.retain(|csv| {
                    csv.metadata.name.as_ref() == Some(&name) || csv.spec.replaces.as_ref() == Some(&name)
                });
                references(all)
            }
        }));
    let known = async { tokio::join!(stores.synced(), parts.filled()) };
    tokio::select! {
        _ = known => {}
        () = shutdown.cancelled() => return,
    }
    drive("csv", controller, ctx, shutdown, move |csv, ctx| {
        let memory = Arc::clone(&memory);
        async move {
            memory.seed(&ctx.stores);
            reconcile(csv, ctx, memory).await
        }
    })
    .await;
}

/// Maps changes of parts to the versions to wake.
fn wake(
    touched: impl Stream<Item = Touched> + Send + 'static,
    stores: &Arc<Stores>,
    whom: impl Fn(&Touched, &Stores) -> Vec<Reference> + Send + 'static,
) -> impl Stream<Item = Reference> + Send + 'static {
    let stores = Arc::clone(stores);
    touched.flat_map(move |touched| stream::iter(whom(&touched, &stores)))
}

fn reference(namespace: &str, name: &str) -> Reference {
    ObjectRef::new(name).within(namespace)
}

fn references(csvs: Vec<Arc<ClusterServiceVersion>>) -> Vec<Reference> {
    csvs.iter().map(|csv| ObjectRef::from_obj(csv.as_ref())).collect()
}

fn neighbours(stores: &Stores, csv: &ClusterServiceVersion) -> Vec<Reference> {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let mut after = stores.versions.in_namespace(&namespace);
    after.retain(|other| other.spec.replaces.as_deref() == Some(&name));
    let mut out = references(after);
    // All versions before it wait for the one that runs: one between them may have failed.
    let mut before = csv.spec.replaces.clone();
    let mut seen = BTreeSet::from([name]);
    while let Some(old) = before.filter(|old| seen.insert(old.clone())) {
        before = stores.versions.get(&namespace, &old).and_then(|csv| csv.spec.replaces.clone());
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
        memory.passing.forget(&csv);
        let done = cleanup::on_deletion(&csv, &ctx).await?;
        serving::forget(&csv, &ctx);
        operator_group::forget_member(&csv, &ctx).await?;
        return Ok(done);
    }
    let Seen { observed, csvs, package, serving } = observe::observe(&csv, &ctx, &memory).await?;
    if let Some(targets) = observed.targets() {
        let group = observed.groups.first().map(AsRef::as_ref);
        if let Err(error) = retarget::follow(&csv, package.as_deref(), targets, group, &ctx).await {
            let decision = decide::decide(&observed);
            return refused(&csv, &csv, decision, error, &ctx).await;
        }
        install::ensure_metadata(&csv, targets, &ctx).await?;
    }
    // The APIs of a group and the state of the version are independent of each other.
    let groups = observed.groups.clone();
    let provides = async {
        match groups.as_slice() {
            [group] => operator_group::provides(group, csvs.iter().map(AsRef::as_ref), &ctx).await.map(drop),
            _ => Ok(()),
        }
    };
    let (provided, action) = tokio::join!(provides, act(&csv, observed, serving, &memory, &ctx));
    provided.and(action)
}

/// Performs the action for the observed state.
async fn act(
    csv: &ClusterServiceVersion,
    observed: Observed<'_>,
    serving: Serving,
    memory: &Memory,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let decision = decide::decide(&observed);
    match decision.act {
        Act::Nothing => {}
        Act::Install => return install(observed, serving, decision, memory, ctx).await,
        Act::Serve => return serve(csv, observed, serving, decision, memory, ctx).await,
        Act::Stop => {
            let ours: Vec<&str> = observed
                .deployments
                .iter()
                .filter(|(_, d)| d.is_owned_by(csv.metadata.uid.as_deref()))
                .map(|(name, _)| name.as_str())
                .collect();
            let group = observed.groups.first().map(AsRef::as_ref);
            if let Err(error) = install::delete(csv, &ours, group, ctx).await {
                return refused(csv, csv, decision, error, ctx).await;
            }
        }
        Act::Delete => {
            let status = status::status(csv, &decision, Timestamp::now());
            record(csv, &status, ctx).await?;
            let name = csv.name_any();
            let api = Api::<ClusterServiceVersion>::namespaced(
                ctx.client.clone(),
                &csv.namespace().unwrap_or_default(),
            );
            // A recreated version of the same name is not deleted.
            let this = Preconditions { uid: csv.metadata.uid.clone(), resource_version: None };
            return match api.delete(&name, &DeleteParams::default().preconditions(this)).await {
                Ok(_) => Ok(Action::await_change()),
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
                Err(error) => Err(Error::kube(format!("delete ClusterServiceVersion {name}"))(error)),
            };
        }
    }
    if decision.phase == CsvPhase::Succeeded {
        // Objects that the version no longer describes are deleted once the described ones run.
        let group = observed.groups.first().map(AsRef::as_ref);
        if let Err(error) = install::delete(csv, &observed.orphans(), group, ctx).await {
            return refused(csv, csv, decision, error, ctx).await;
        }
    }
    say(csv, &decision, &observed, memory, ctx).await
}

/// Installs the version and reports the result once. An interrupted installation is visible in the objects
/// themselves.
async fn install(
    mut observed: Observed<'_>,
    mut serving: Serving,
    decision: Decision,
    memory: &Memory,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let live = observed.csv;
    let mut csv = live.clone();
    // A recorded failure stays until there is a better result.
    if !(decision.phase == CsvPhase::Failed && INSTALL_FAILED.contains(&decision.reason)) {
        csv.status = Some(status::status(&csv, &decision, Timestamp::now()));
    }
    let applied = match put(&mut observed, &mut serving, ctx).await {
        Ok(applied) => applied,
        Err(error) => return refused(live, &csv, decision, error, ctx).await,
    };
    // Applying may complete the installation; then that is reported at once.
    let observed = Observed { csv: &csv, ..observed.with_applied(applied) };
    let after = decide::decide(&observed);
    if after.act == Act::Serve {
        return serve(live, observed, serving, after, memory, ctx).await;
    }
    say(live, &after, &observed, memory, ctx).await
}

/// Applies the Deployments and their requirements.
async fn put(
    observed: &mut Observed<'_>,
    serving: &mut Serving,
    ctx: &Ctx,
) -> Result<Vec<(String, workload::Workload)>, Error> {
    let group = observed.groups.first().map(AsRef::as_ref);
    let resources = ctx.resources_for(group).await?;
    authority::of_version(observed.csv, group, observed.to_apply().chain(serving.to_prepare()), ctx).await?;
    authority::of_config(observed.csv, group, observed.to_apply(), ctx).await?;
    serving.prepare(observed.csv, &resources, ctx).await?;
    observed.serving = serving.facts();
    if let Ok(desired) = &mut observed.desired {
        serving.stamp(&mut desired.deployments, observe::hash);
    }
    install::apply(observed, ctx).await
}

/// The Deployments serve: configures the API server and the users' roles. `live` is the recorded version.
async fn serve(
    live: &ClusterServiceVersion,
    observed: Observed<'_>,
    mut serving: Serving,
    decision: Decision,
    memory: &Memory,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let csv = observed.csv.clone();
    let switches = serving.to_switch_on();
    let switched = async {
        let switches = switches.iter().map(|(manifest, exists)| (manifest, *exists));
        let group = observed.groups.first().map(AsRef::as_ref);
        authority::of_version(&csv, group, switches, ctx).await?;
        let resources = ctx.resources_for(group).await?;
        serving.switch_on(&csv, &memory.roles, &resources).await
    };
    if let Err(error) = switched.await {
        return refused(live, &csv, decision, error, ctx).await;
    }
    let observed = Observed { csv: &csv, serving: serving.facts(), ..observed };
    let after = decide::decide(&observed);
    say(live, &after, &observed, memory, ctx).await
}

/// Records the state of the version, unless it is about to change; `live` is the recorded version.
async fn say(
    live: &ClusterServiceVersion,
    decision: &Decision,
    observed: &Observed<'_>,
    memory: &Memory,
    ctx: &Ctx,
) -> Result<Action, Error> {
    if let Some(left) = memory.passing.hold(live, decision.phase, &observed.applied) {
        return Ok(Action::requeue(left));
    }
    let status = status::status(observed.csv, decision, Timestamp::now());
    record(live, &status::with_facts(status, observed), ctx).await?;
    Ok(requeue(decision, observed))
}

/// Reports a refusal of the API server; the action is retried with back-off, without limit.
async fn refused(
    live: &ClusterServiceVersion,
    csv: &ClusterServiceVersion,
    decision: Decision,
    error: Error,
    ctx: &Ctx,
) -> Result<Action, Error> {
    if let Some((reason, message)) = install::refusal(&error) {
        let failed = Decision { phase: CsvPhase::Failed, reason, message, act: Act::Nothing, ..decision };
        record(live, &status::status(csv, &failed, Timestamp::now()), ctx).await?;
    }
    Err(error)
}

/// When to reconcile without an event.
fn requeue(decision: &Decision, observed: &Observed<'_>) -> Action {
    let csv = observed.csv;
    match decision.phase {
        CsvPhase::Pending | CsvPhase::Failed if !requirements::are_watched(&decision.requirements) => {
            Action::requeue(PENDING)
        }
        // for the report that it takes too long
        CsvPhase::Installing => {
            let since = csv.status.as_ref().filter(|s| s.phase == CsvPhase::Installing);
            let since =
                since.and_then(|s| s.last_transition_time.as_ref()).map_or_else(Timestamp::now, |t| t.0);
            let left = decide::INSTALL_TIMEOUT - Timestamp::now().duration_since(since);
            let left = Duration::try_from(left).unwrap_or_default();
            Action::requeue(left.saturating_add(Duration::from_secs(1)).min(SAFETY_NET))
        }
        // The manager may not read Secrets, so it does not watch them either.
        _ if observed.serving.dates.is_some() => Action::requeue(SAFETY_NET),
        _ => {
            let mut hasher = DefaultHasher::new();
            csv.metadata.uid.hash(&mut hasher);
            let spread = Duration::from_secs(hasher.finish() % (SELDOM.as_secs() / 2));
            Action::requeue(SELDOM.saturating_add(spread))
        }
    }
}

/// Writes a changed status and records an event.
async fn record(
    csv: &ClusterServiceVersion,
    new: &olm_api::ClusterServiceVersionStatus,
    ctx: &Ctx,
) -> Result<(), Error> {
    let old = csv.status.as_ref();
    if !ctx.write_status(csv, old, new).await? {
        return Ok(());
    }
    if old.map(|s| (s.phase, &s.reason)) != Some((new.phase, &new.reason)) {
        let (before, reason) = (old.map(|s| s.phase).unwrap_or_default(), event_reason(new));
        let begins = matches!(before, CsvPhase::None | CsvPhase::Pending);
        let began = matches!(new.phase, CsvPhase::Installing | CsvPhase::Succeeded);
        if begins && began && reason != BEGUN {
            ctx.event(csv, false, BEGUN, "all requirements found, attempting install").await;
        }
        if new.phase == CsvPhase::Replacing {
            ctx.metrics.upgraded();
        }
        let warning = new.phase == CsvPhase::Failed;
        ctx.event(csv, warning, reason, new.message.as_deref().unwrap_or_default()).await;
    }
    Ok(())
}

/// Reason of the event at the start of an installation.
const BEGUN: &str = "AllRequirementsMet";

/// Upstream has the reason `InstallSucceeded` twice: for applied objects and for a running operator. Events
/// of one reason are counted together under the text of the first, so the first gets the reason of the phase
/// just before it, which is what users wait for.
fn event_reason(status: &olm_api::ClusterServiceVersionStatus) -> &str {
    match (status.phase, status.reason.as_deref()) {
        (CsvPhase::Installing, Some("InstallSucceeded")) => BEGUN,
        (_, reason) => reason.unwrap_or("PhaseChanged"),
    }
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterServiceVersionStatus;

    use super::*;

    #[test]
    fn an_event_that_says_succeeded_is_of_an_operator_that_runs() {
        let status = |phase| ClusterServiceVersionStatus {
            phase,
            reason: Some("InstallSucceeded".into()),
            ..ClusterServiceVersionStatus::default()
        };
        assert_eq!(event_reason(&status(CsvPhase::Succeeded)), "InstallSucceeded");
        assert_eq!(event_reason(&status(CsvPhase::Installing)), "AllRequirementsMet");
        assert_eq!(event_reason(&ClusterServiceVersionStatus::default()), "PhaseChanged");
    }
}

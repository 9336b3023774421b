//! ClusterServiceVersion: from requirements to running Deployments, and the hand-over from version to version.
//!
//! [`observe`] reads what matters → [`decide`] says phase and actions (pure) → apply → [`status`] records it.

pub(crate) mod apis;
mod cleanup;
mod decide;
mod facts;
mod health;
mod install;
mod observe;
mod requirements;
mod retarget;
mod rights;
mod serving;
mod status;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, ResourceExt,
    api::DeleteParams,
    core::PartialObjectMeta,
    runtime::{
        controller::Action,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorCondition, OperatorGroup, Subscription, csv::CsvPhase, names,
};
use tokio_util::sync::CancellationToken;

use crate::{
    context::{Ctx, Error, SAFETY_NET, drive},
    controllers::operator_group,
    metadata::metadata_only,
    stores,
};
use decide::{Act, Decision, INSTALL_FAILED};
use facts::Observed;
pub(crate) use health::replicas;
use observe::{Memory, Seen};
use serving::Serving;

type Csvs = Store<ClusterServiceVersion>;

/// How long a version that waits for something goes unseen: ServiceAccounts and roles that somebody makes by hand are not
/// watched.
const PENDING: Duration = Duration::from_secs(10);

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let client = ctx.client.clone();
    let any = watcher::Config::default;
    let managed = any().labels(&format!("{}=true,{}", names::LABEL_MANAGED, names::LABEL_OWNER));
    let registered = managed.clone();
    // Copies that OLM v0 left in other namespaces are never acted on.
    let originals = any().labels(&format!("!{}", names::LABEL_COPIED_FROM));
    let (controller, kept) =
        stores::controller(Api::<ClusterServiceVersion>::all(client.clone()), originals.clone());
    let memory = Arc::<Memory>::default();
    let store = kept.store.clone();
    ctx.stores.set_versions(kept);
    let (chain, crds, groups, conditions) = (store.clone(), store.clone(), store.clone(), store.clone());
    let index = Arc::clone(&memory);
    let controller = controller
        .watches(Api::<Deployment>::all(client.clone()), managed, labelled_owner)
        // Only that something happened to them.
        .watches(
            Api::<PartialObjectMeta<ValidatingWebhookConfiguration>>::all(client.clone()),
            registered.clone(),
            labelled_owner,
        )
        .watches(
            Api::<PartialObjectMeta<MutatingWebhookConfiguration>>::all(client.clone()),
            registered.clone(),
            labelled_owner,
        )
        .watches(Api::<PartialObjectMeta<APIService>>::all(client.clone()), registered, labelled_owner)
        // Versions before and after, and those that provide the same.
        .watches(Api::<ClusterServiceVersion>::all(client.clone()), originals, move |csv| {
            let mut touched = neighbours(&chain, &csv);
            let others = index.providers().note(&csv);
            touched
                .extend(others.into_iter().map(|(namespace, name)| ObjectRef::new(&name).within(&namespace)));
            touched
        })
        .watches(Api::<InstallPlan>::all(client.clone()), any(), |plan| {
            let namespace = plan.namespace().unwrap_or_default();
            let reference = move |name: &String| ObjectRef::new(name).within(&namespace);
            plan.spec.cluster_service_version_names.iter().map(reference).collect::<Vec<_>>()
        })
        .watches(Api::<Subscription>::all(client.clone()), any(), |subscription| {
            // Its configuration goes into the Deployments of what it has installed.
            let namespace = subscription.namespace().unwrap_or_default();
            let installed = subscription.status.as_ref().and_then(|s| s.installed_csv.clone());
            installed.map(|name| ObjectRef::new(&name).within(&namespace))
        })
        .watches(Api::<OperatorGroup>::all(client.clone()), any(), move |group| {
            let namespace = group.namespace();
            select(&groups, |csv| csv.namespace() == namespace)
        })
        .watches(Api::<OperatorCondition>::all(client.clone()), any(), move |condition| {
            let (namespace, name) = (condition.namespace(), condition.name_any());
            select(&conditions, |csv| {
                csv.namespace() == namespace
                    && (csv.name_any() == name || csv.spec.replaces.as_deref() == Some(&name))
            })
        })
        // Only that something happened to a CRD; the few that matter are read by name.
        .watches(
            Api::<PartialObjectMeta<CustomResourceDefinition>>::all(metadata_only(client)),
            any(),
            move |crd| {
                let name = crd.name_any();
                select(&crds, |csv| {
                    csv.spec.owned_crds().iter().chain(csv.spec.required_crds()).any(|c| c.name == name)
                })
            },
        );
    let all = store;
    drive("csv", controller, ctx, shutdown, move |csv, ctx| {
        let (memory, all) = (Arc::clone(&memory), all.clone());
        async move {
            memory.seed(&all);
            reconcile(csv, ctx, memory).await
        }
    })
    .await;
}

/// The version that an object's labels name.
fn labelled_owner<K: ResourceExt>(object: K) -> Option<ObjectRef<ClusterServiceVersion>> {
    let label = |key: &str| object.labels().get(key).cloned();
    let name = label(names::LABEL_OWNER)?;
    Some(ObjectRef::new(&name).within(&label(names::LABEL_OWNER_NAMESPACE)?))
}

fn select(
    store: &Csvs,
    matches: impl Fn(&ClusterServiceVersion) -> bool,
) -> Vec<ObjectRef<ClusterServiceVersion>> {
    store.state().iter().filter(|csv| matches(csv)).map(|csv| ObjectRef::from_obj(csv.as_ref())).collect()
}

fn neighbours(store: &Csvs, csv: &ClusterServiceVersion) -> Vec<ObjectRef<ClusterServiceVersion>> {
    let (namespace, name) = (csv.namespace(), csv.name_any());
    let mut out = select(store, |other| {
        other.namespace() == namespace && other.spec.replaces.as_deref() == Some(&name)
    });
    // All versions before it wait for the one that runs: one between them may have failed. By name: the store may not have
    // this one's news yet, but the name is in the event.
    let mut before = csv.spec.replaces.clone();
    let mut seen = BTreeSet::from([name]);
    while let (Some(old), Some(namespace)) = (before.filter(|old| seen.insert(old.clone())), &namespace) {
        let reference = ObjectRef::new(&old).within(namespace);
        before = store.get(&reference).and_then(|csv| csv.spec.replaces.clone());
        out.push(reference);
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
        let done = cleanup::on_deletion(&csv, &ctx).await?;
        serving::forget(&csv, &ctx);
        operator_group::forget_member(&csv, &ctx).await?;
        return Ok(done);
    }
    let Seen { observed, csvs, package, serving } = observe::observe(&csv, &ctx, &memory).await?;
    if let Some(targets) = observed.targets() {
        retarget::follow(&csv, package.as_deref(), targets, &ctx).await?;
        install::ensure_metadata(&csv, targets, &ctx).await?;
    }
    if let [group] = observed.groups.as_slice() {
        operator_group::provides(group, &csvs, &ctx).await?;
    }
    let decision = decide::decide(&observed);
    let again = requeue(&decision, &csv);
    match decision.act {
        Act::Nothing => {}
        Act::Install => return install(observed, serving, decision, &memory, &ctx).await,
        Act::Serve => return serve(observed, serving, decision, &memory, &ctx).await,
        Act::Stop => {
            let ours: Vec<&str> = observed
                .deployments
                .iter()
                .filter(|(_, d)| owned(d, &csv))
                .map(|(name, _)| name.as_str())
                .collect();
            install::delete(&csv, &ours, &ctx).await?;
        }
        Act::Delete => {
            let status = status::status(&csv, &decision, Timestamp::now());
            record(&csv, &status, &ctx).await?;
            let name = csv.name_any();
            let api = Api::<ClusterServiceVersion>::namespaced(
                ctx.client.clone(),
                &csv.namespace().unwrap_or_default(),
            );
            return match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => Ok(Action::await_change()),
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
                Err(error) => Err(Error::kube(format!("delete ClusterServiceVersion {name}"))(error)),
            };
        }
    }
    if decision.phase == CsvPhase::Succeeded {
        // What the version no longer describes goes when what it describes runs.
        install::delete(&csv, &observed.orphans(), &ctx).await?;
    }
    let status = status::with_facts(status::status(&csv, &decision, Timestamp::now()), &observed);
    record(&csv, &status, &ctx).await?;
    Ok(again)
}

fn owned(deployment: &Deployment, csv: &ClusterServiceVersion) -> bool {
    deployment.owner_references().iter().any(|owner| Some(&owner.uid) == csv.metadata.uid.as_ref())
}

/// Puts the version on the cluster and reports how that went.
async fn install(
    mut observed: Observed<'_>,
    mut serving: Serving,
    decision: Decision,
    memory: &Memory,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let mut csv = observed.csv.clone();
    // The phase is on record before the first change, like every promise to others; but a failure that is on record
    // stays until there is something better to say.
    if !(decision.phase == CsvPhase::Failed && INSTALL_FAILED.contains(&decision.reason)) {
        let installing = status::status(&csv, &decision, Timestamp::now());
        record(&csv, &installing, ctx).await?;
        csv.status = Some(installing);
    }
    let applied = match put(&mut observed, &mut serving, ctx).await {
        Ok(applied) => applied,
        Err(error) => return refused(&csv, decision, error, ctx).await,
    };
    // Applying may be all there was to do; then it is known right away.
    let observed = Observed { csv: &csv, ..observed.with_applied(applied) };
    let after = decide::decide(&observed);
    if after.act == Act::Serve {
        return serve(observed, serving, after, memory, ctx).await;
    }
    let status = status::with_facts(status::status(&csv, &after, Timestamp::now()), &observed);
    record(&csv, &status, ctx).await?;
    Ok(requeue(&after, &csv))
}

/// What the Deployments need, and the Deployments.
async fn put(
    observed: &mut Observed<'_>,
    serving: &mut Serving,
    ctx: &Ctx,
) -> Result<Vec<Deployment>, Error> {
    let resources = ctx.resources_for(observed.groups.first()).await?;
    serving.prepare(observed.csv, &resources, ctx).await?;
    observed.serving = serving.facts();
    if let Ok(desired) = &mut observed.desired {
        serving.stamp(&mut desired.deployments, observe::hash);
    }
    install::apply(observed, ctx).await
}

/// The Deployments serve: the API server and users are told.
async fn serve(
    observed: Observed<'_>,
    mut serving: Serving,
    decision: Decision,
    memory: &Memory,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let csv = observed.csv.clone();
    if let Err(error) = serving.switch_on(&csv, &memory.roles, ctx).await {
        return refused(&csv, decision, error, ctx).await;
    }
    let observed = Observed { csv: &csv, serving: serving.facts(), ..observed };
    let after = decide::decide(&observed);
    let status = status::with_facts(status::status(&csv, &after, Timestamp::now()), &observed);
    record(&csv, &status, ctx).await?;
    Ok(requeue(&after, &csv))
}

/// Says what the API server refused; it is tried again with back-off, for ever.
async fn refused(
    csv: &ClusterServiceVersion,
    decision: Decision,
    error: Error,
    ctx: &Ctx,
) -> Result<Action, Error> {
    if let Some((reason, message)) = install::refusal(&error) {
        let failed = Decision { phase: CsvPhase::Failed, reason, message, act: Act::Nothing, ..decision };
        record(csv, &status::status(csv, &failed, Timestamp::now()), ctx).await?;
    }
    Err(error)
}

/// When to look again without being told.
fn requeue(decision: &Decision, csv: &ClusterServiceVersion) -> Action {
    match decision.phase {
        CsvPhase::Pending => Action::requeue(PENDING),
        CsvPhase::Failed if decision.reason == "RequirementsNotMet" => Action::requeue(PENDING),
        // for the report that it takes too long
        CsvPhase::Installing => {
            let since = csv.status.as_ref().filter(|s| s.phase == CsvPhase::Installing);
            let since =
                since.and_then(|s| s.last_transition_time.as_ref()).map_or_else(Timestamp::now, |t| t.0);
            let left = decide::INSTALL_TIMEOUT - Timestamp::now().duration_since(since);
            let left = Duration::try_from(left).unwrap_or_default();
            Action::requeue(left.saturating_add(Duration::from_secs(1)).min(SAFETY_NET))
        }
        _ => Action::requeue(SAFETY_NET),
    }
}

/// Writes the status when it is news, and tells it.
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
        if new.phase == CsvPhase::Replacing {
            ctx.metrics.upgraded();
        }
        let warning = new.phase == CsvPhase::Failed;
        ctx.event(csv, warning, event_reason(new), new.message.as_deref().unwrap_or_default()).await;
    }
    Ok(())
}

/// Upstream has the reason `InstallSucceeded` twice: for objects that were applied and for an operator that runs. Events of
/// one reason are counted together under the text of the first, so the first gets the reason of the phase just before
/// it, which is what users wait for.
fn event_reason(status: &olm_api::ClusterServiceVersionStatus) -> &str {
    match (status.phase, status.reason.as_deref()) {
        (CsvPhase::Installing, Some("InstallSucceeded")) => "AllRequirementsMet",
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

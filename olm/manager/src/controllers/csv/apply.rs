//! Applies a version: its Deployments, their OperatorCondition, and what the API server needs to call them.

use futures::future;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use olm_api::{ClusterServiceVersion, OperatorCondition, OperatorGroup, csv::CsvPhase, names};
use olm_engine::{
    ownership::{Owner, own},
    targets::Targets,
};
use serde_json::{Value, json};

use super::{
    apis, authority,
    decide::{Act, Decision},
    facts::Observed,
    observe,
    serving::{Known, Serving},
    status,
    workload::Workload,
};
use crate::{
    context::{Ctx, Error},
    runner::Action,
};

/// Performs the action of a decision, and adds the responses to the observed state.
pub(super) async fn apply(
    decision: &Decision,
    observed: &mut Observed<'_>,
    serving: &mut Serving,
    roles: &Known,
    ctx: &Ctx,
) -> Result<(), Error> {
    let csv = observed.csv;
    let group = observed.groups.first().map(AsRef::as_ref);
    match decision.act {
        Act::Install => install(observed, serving, ctx).await,
        Act::Serve => serve(observed, serving, roles, ctx).await,
        Act::Stop => {
            let uid = csv.metadata.uid.as_deref();
            let ours = observed.deployments.iter().filter(|(_, d)| d.is_owned_by(uid));
            let ours: Vec<&str> = ours.map(|(name, _)| name.as_str()).collect();
            delete(csv, &ours, group, ctx).await
        }
        // Objects that the version no longer describes are deleted once the described ones run.
        Act::Nothing if decision.phase == CsvPhase::Succeeded => {
            delete(csv, &observed.orphans(), group, ctx).await
        }
        Act::Nothing | Act::Delete => Ok(()),
    }
}

/// Applies the Deployments and their requirements.
async fn install(observed: &mut Observed<'_>, serving: &mut Serving, ctx: &Ctx) -> Result<(), Error> {
    let group = observed.groups.first().map(AsRef::as_ref);
    let resources = ctx.resources_for(group).await?;
    authority::of_version(
        observed.csv,
        group,
        observed.to_apply().chain(serving.prerequisites_to_apply()),
        ctx,
    )
    .await?;
    authority::of_config(observed.csv, group, observed.to_apply(), ctx).await?;
    serving.prepare(observed.csv, &resources, ctx).await?;
    observed.serving = serving.facts();
    if let Ok(desired) = &mut observed.desired {
        serving.stamp(&mut desired.deployments, observe::hash);
    }
    let applied = apply_deployments(observed, ctx).await?;
    observed.add_applied(applied);
    Ok(())
}

/// The Deployments serve: configures the API server and the users' roles.
async fn serve(
    observed: &mut Observed<'_>,
    serving: &mut Serving,
    roles: &Known,
    ctx: &Ctx,
) -> Result<(), Error> {
    let registrations = serving.registrations_to_apply();
    let registrations = registrations.iter().map(|(manifest, exists)| (manifest, *exists));
    let group = observed.groups.first().map(AsRef::as_ref);
    authority::of_version(observed.csv, group, registrations, ctx).await?;
    let resources = ctx.resources_for(group).await?;
    serving.register(observed.csv, roles, &resources).await?;
    observed.serving = serving.facts();
    Ok(())
}

/// Reports that the version is replaced, and deletes it.
pub(super) async fn retire(
    csv: &ClusterServiceVersion,
    decision: &Decision,
    ctx: &Ctx,
) -> Result<Action, Error> {
    status::write(csv, &status::status(csv, decision, Timestamp::now()), ctx).await?;
    let name = csv.name_any();
    let api =
        Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &csv.namespace().unwrap_or_default());
    // A recreated version of the same name is not deleted.
    let this = Preconditions { uid: csv.metadata.uid.clone(), resource_version: None };
    match api.delete(&name, &DeleteParams::default().preconditions(this)).await {
        Ok(_) => Ok(Action::await_change()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
        Err(error) => Err(Error::kube(format!("delete ClusterServiceVersion {name}"))(error)),
    }
}

/// Applies everything that differs; returns the Deployments that were applied.
///
/// The owner reference is part of the write: a Deployment of the same name passes from the previous version
/// in one write, so that garbage collection never deletes it.
async fn apply_deployments(observed: &Observed<'_>, ctx: &Ctx) -> Result<Vec<(String, Workload)>, Error> {
    let Ok(desired) = &observed.desired else { return Ok(Vec::new()) };
    // With no more rights than the OperatorGroup grants.
    let rights = async {
        let resources = ctx.resources_for(observed.groups.first().map(AsRef::as_ref)).await;
        resources.map_err(Error::from)
    };
    let objects = operator_condition(observed.csv);
    let owned = objects.iter().map(|object| authority::owned(observed.csv, object, ctx));
    let (resources, _) = tokio::try_join!(rights, future::try_join_all(owned))?;
    // The manager may bind a missing role, and pods take longer to start than a write: the writes run
    // concurrently.
    let reports = async {
        let writes = objects.iter().map(|object| ctx.resources.apply(object));
        future::try_join_all(writes).await.map_err(Error::from)
    };
    let run = async {
        let mut applied = Vec::new();
        for deployment in &desired.deployments {
            if observed.drift(deployment).is_none() {
                continue;
            }
            let answer = resources.apply(deployment).await?;
            let answer: Deployment = serde_json::from_value(answer).map_err(|error| Error::Bundle {
                name: observed.csv.name_any(),
                text: format!("failed to parse the API server's response for a Deployment: {error}"),
            })?;
            applied.push((answer.name_any(), ctx.parts.store_written(&answer)));
        }
        Ok(applied)
    };
    let (_, applied) = tokio::try_join!(reports, run)?;
    Ok(applied)
}

/// Deletes Deployments of the version by name, with no more rights than the OperatorGroup grants.
async fn delete(
    csv: &ClusterServiceVersion,
    deployments: &[&str],
    group: Option<&OperatorGroup>,
    ctx: &Ctx,
) -> Result<(), Error> {
    if deployments.is_empty() {
        return Ok(());
    }
    let client = ctx.resources_for(group).await?.client().clone();
    let api = Api::<Deployment>::namespaced(client, &csv.namespace().unwrap_or_default());
    for name in deployments {
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(Error::kube(format!("delete Deployment {name}"))(error)),
        }
    }
    Ok(())
}

/// The OperatorCondition by which an operator reports to the manager, and the right to write that one object.
/// The manager makes them with its own rights, whatever the OperatorGroup grants.
pub(super) fn operator_condition(csv: &ClusterServiceVersion) -> Vec<Value> {
    let name = csv.name_any();
    let namespace = csv.namespace().unwrap_or_default();
    let strategy = &csv.spec.install.spec;
    let mut accounts: Vec<&str> = strategy
        .deployments
        .iter()
        .map(|d| {
            d.spec.pointer("/template/spec/serviceAccountName").and_then(Value::as_str).unwrap_or("default")
        })
        .collect();
    accounts.sort_unstable();
    accounts.dedup();
    let deployments: Vec<&str> = strategy.deployments.iter().map(|d| d.name.as_str()).collect();
    let subjects: Vec<Value> = accounts
        .iter()
        .map(|account| json!({ "kind": "ServiceAccount", "name": account, "namespace": namespace }))
        .collect();
    let metadata = json!({ "name": name, "namespace": namespace });
    let mut objects = vec![
        json!({
            "apiVersion": OperatorCondition::api_version(&()),
            "kind": OperatorCondition::kind(&()),
            "metadata": metadata,
            "spec": { "serviceAccounts": accounts, "deployments": deployments },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{
                "apiGroups": [names::GROUP],
                "resources": ["operatorconditions", "operatorconditions/status"],
                "resourceNames": [name],
                "verbs": ["get", "update", "patch"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": subjects,
        }),
    ];
    let owner = Owner::of(csv, None);
    for object in &mut objects {
        own(object, &owner);
    }
    objects
}

/// Adds the finalizer, and the annotations and labels that operators and tools read, to
/// ClusterServiceVersions that were applied manually, or whose APIs or group changed.
pub(super) async fn ensure_metadata(
    csv: &ClusterServiceVersion,
    targets: &Targets,
    ctx: &Ctx,
) -> Result<(), Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let wanted = targets.annotations(&namespace);
    let annotated =
        wanted.iter().all(|(key, value)| csv.annotations().get(key).map(String::as_str) == value.as_str());
    let apis = apis::labels(csv);
    let labelled = csv.labels().iter().filter(|(key, _)| key.starts_with(names::LABEL_API_PREFIX));
    let gone: Vec<&String> = labelled.map(|(key, _)| key).filter(|key| !apis.contains_key(*key)).collect();
    let labelled = gone.is_empty()
        && apis.iter().all(|(key, value)| csv.labels().get(key).map(String::as_str) == Some(value));
    let has_finalizer = csv.finalizers().iter().any(|f| f == names::FINALIZER_CSV_CLEANUP);
    if annotated && labelled && has_finalizer {
        return Ok(());
    }
    let mut finalizers = csv.finalizers().to_vec();
    if !has_finalizer {
        finalizers.push(names::FINALIZER_CSV_CLEANUP.to_owned());
    }
    let annotations: serde_json::Map<String, Value> = wanted.into_iter().collect();
    let mut labels: serde_json::Map<String, Value> =
        apis.into_iter().map(|(key, value)| (key, value.into())).collect();
    labels.extend(gone.into_iter().map(|key| (key.clone(), Value::Null)));
    let patch = json!({ "metadata": {
        "labels": labels,
        "annotations": annotations,
        "finalizers": finalizers,
        // A merge patch replaces the list of finalizers, so it is conditional on the list that was read.
        "resourceVersion": csv.resource_version(),
    } });
    let name = csv.name_any();
    let annotated = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("annotate ClusterServiceVersion {namespace}/{name}")))?;
    ctx.cache.store_written(annotated);
    Ok(())
}

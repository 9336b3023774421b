//! Putting a version's Deployments on the cluster, with what they need to talk back.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{ClusterServiceVersion, OperatorCondition, names};
use serde_json::{Value, json};

use super::{APPLIED, observe::Observed};
use crate::{
    context::{Ctx, Error},
    engine::targets::Targets,
    ownership::{Owner, own},
};

/// Applies everything that differs; returns the Deployments as they are now.
///
/// The owner reference goes along: a Deployment of the same name is handed over from the version before in the same
/// write, so that garbage collection never takes it.
pub(super) async fn apply(observed: &Observed<'_>, ctx: &Ctx) -> Result<BTreeMap<String, Deployment>, Error> {
    let mut fresh = observed.deployments.clone();
    let Ok(desired) = &observed.desired else { return Ok(fresh) };
    for object in operator_condition(observed.csv) {
        ctx.resources.apply(&object).await?;
    }
    for deployment in &desired.deployments {
        if !observed.drifted(deployment) {
            continue;
        }
        let applied = ctx.resources.apply(deployment).await?;
        let applied: Deployment = serde_json::from_value(applied).map_err(|error| Error::Bundle {
            name: observed.csv.name_any(),
            text: format!("the API server's answer for a Deployment cannot be read: {error}"),
        })?;
        if let (Some(uid), Some(generation)) = (applied.uid(), applied.metadata.generation) {
            APPLIED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(uid, generation);
        }
        fresh.insert(applied.name_any(), applied);
    }
    Ok(fresh)
}

/// The object by which an operator talks back, and the right to write that one object.
fn operator_condition(csv: &ClusterServiceVersion) -> Vec<Value> {
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

/// The finalizer and the annotations that operators and tools read, on ClusterServiceVersions that somebody applied
/// by hand or whose group changed.
pub(super) async fn ensure_metadata(
    csv: &ClusterServiceVersion,
    targets: &Targets,
    ctx: &Ctx,
) -> Result<(), Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let wanted = targets.annotations(&namespace);
    let annotated =
        wanted.iter().all(|(key, value)| csv.annotations().get(key).map(String::as_str) == value.as_str());
    let has_finalizer = csv.finalizers().iter().any(|f| f == names::FINALIZER_CSV_CLEANUP);
    if annotated && has_finalizer {
        return Ok(());
    }
    let mut finalizers = csv.finalizers().to_vec();
    if !has_finalizer {
        finalizers.push(names::FINALIZER_CSV_CLEANUP.to_owned());
    }
    let annotations: serde_json::Map<String, Value> = wanted.into_iter().collect();
    let patch = json!({ "metadata": {
        "annotations": annotations,
        "finalizers": finalizers,
        // A merge patch replaces the list of finalizers: only over the list that was read.
        "resourceVersion": csv.resource_version(),
    } });
    let name = csv.name_any();
    Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("annotate ClusterServiceVersion {namespace}/{name}")))?;
    Ok(())
}

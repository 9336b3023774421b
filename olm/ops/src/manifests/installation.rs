//! An installation of `olm` on a cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PropagationPolicy},
    core::{GroupVersionKind, PartialObjectMeta},
};
use olm_engine::resources::{Id, ResourceError, short};
use olm_engine::site::{CONSOLE, MANAGER};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{ManifestOptions, PART_OF, VERSION_LABEL};
use crate::pod_failure::PodFailure;

/// Annotation of the manager's Deployment: the [`ManifestOptions`] of the installation, as JSON.
pub const OPTIONS_ANNOTATION: &str = "olm.installOptions";

/// Every kind of object of an installation, in the order of deletion: first what the API server
/// calls, then workloads, last their dependencies. `true` is namespaced.
const KINDS: [(&str, &str, &str, bool); 19] = [
    // Before the pods that answer them: an APIService without pods blocks the deletion of namespaces, a
    // webhook the changes of Subscriptions.
    ("apiregistration.k8s.io/v1", "APIService", "apiservices", false),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    ("apps/v1", "Deployment", "deployments", true),
    ("v1", "Service", "services", true),
    ("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", true),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true),
    ("operators.coreos.com/v1alpha1", "CatalogSource", "catalogsources", true),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        false,
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        false,
    ),
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", false),
    ("coordination.k8s.io/v1", "Lease", "leases", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
];

/// Kinds of the API whose objects users made; their content is lost with the CustomResourceDefinitions.
const USERS: [(&str, &str); 5] = [
    ("v1alpha1", "Subscription"),
    ("v1alpha1", "ClusterServiceVersion"),
    ("v1alpha1", "InstallPlan"),
    ("v1", "OperatorGroup"),
    ("v1alpha1", "CatalogSource"),
];

/// An installation on the cluster.
#[derive(Debug, Clone)]
pub struct Installation {
    pub namespace: String,
    /// Its version, from the Deployment.
    pub version: Option<String>,
    /// Its options, as far as this version has them; `None` when another tool than `olm self` made it.
    pub options: Option<ManifestOptions>,
    /// Names of its options that this version does not have, because a later one made it.
    pub unknown_options: Vec<String>,
}

/// The state of one Deployment of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub name: String,
    pub image: String,
    /// Desired pods.
    pub wanted: i32,
    /// Available pods of the current template.
    pub available: i32,
    pub ready: bool,
    /// Why it is not ready: the Deployment's message, and the first pod that fails to start.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Object {
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// The manager's Deployment, in any namespace.
///
/// # Errors
/// When Deployments cannot be listed, or when there are managers in several namespaces: each would revert the
/// other's changes.
pub async fn find(client: &Client) -> Result<Option<Installation>, ResourceError> {
    let managers = Api::<Deployment>::all(client.clone());
    let params = ListParams::default()
        .labels(&format!("app.kubernetes.io/name={MANAGER},{}={}", PART_OF.0, PART_OF.1));
    let mut found = managers.list(&params).await.map_err(failed("list", "Deployments"))?.items;
    let namespaces: Vec<String> = found.iter().filter_map(|d| d.namespace()).collect();
    let Some(manager) = found.pop() else { return Ok(None) };
    if namespaces.len() > 1 {
        return Err(ResourceError::Several { what: "Deployment olm-manager", namespaces });
    }
    let annotation = manager.annotations().get(OPTIONS_ANNOTATION);
    let (options, unknown_options) = annotation.map(String::as_str).and_then(recorded).unzip();
    let unknown_options = unknown_options.unwrap_or_default();
    Ok(Some(Installation {
        namespace: manager.namespace().unwrap_or_default(),
        version: manager.labels().get(VERSION_LABEL).cloned(),
        options,
        unknown_options,
    }))
}

/// The options in an annotation, and the names of those that this version does not have.
fn recorded(text: &str) -> Option<(ManifestOptions, Vec<String>)> {
    let mut fields: Map<String, Value> = serde_json::from_str(text).ok()?;
    let known = serde_json::to_value(ManifestOptions::default()).ok()?;
    let unknown: Vec<String> =
        fields.keys().filter(|name| known.get(name.as_str()).is_none()).cloned().collect();
    fields.retain(|name, _| known.get(name.as_str()).is_some());
    Some((serde_json::from_value(Value::Object(fields)).ok()?, unknown))
}

/// The state of the Deployments of an installation, the manager's first.
///
/// # Errors
/// When one is unreadable.
pub async fn workloads(client: &Client, namespace: &str) -> Result<Vec<Workload>, ResourceError> {
    let api = Api::<Deployment>::namespaced(client.clone(), namespace);
    let mut out = Vec::new();
    for name in [MANAGER, CONSOLE] {
        let found =
            api.get_opt(name).await.map_err(failed("get", &format!("Deployment {namespace}/{name}")))?;
        let Some(deployment) = found else { continue };
        let mut workload = workload(&deployment);
        if !workload.ready {
            // Without the right to list pods, the Deployment's message alone remains.
            let pods = pods_of(client, namespace, &deployment).await.unwrap_or_default();
            workload.message = explained(workload.message, &pods);
        }
        out.push(workload);
    }
    Ok(out)
}

async fn pods_of(client: &Client, namespace: &str, deployment: &Deployment) -> Result<Vec<Pod>, kube::Error> {
    let labels = deployment.spec.selector.match_labels.clone().unwrap_or_default();
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(","));
    Ok(Api::<Pod>::namespaced(client.clone(), namespace).list(&params).await?.items)
}

/// A Deployment's message, with the cause of the first pod that fails to start.
fn explained(message: String, pods: &[Pod]) -> String {
    match PodFailure::first(pods) {
        Some(cause) => format!("{message}; {cause}"),
        None => message,
    }
}

fn workload(deployment: &Deployment) -> Workload {
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let current = status.observed_generation == deployment.metadata.generation;
    let updated = status.updated_replicas.unwrap_or(0);
    // Pods of the old template do not count.
    let available = status.available_replicas.unwrap_or(0).min(updated);
    let old = status.replicas.unwrap_or(0) > updated;
    let ready = current && available >= wanted && !old;
    let pod = deployment.spec.template.spec.as_ref();
    let image = pod.and_then(|pod| pod.containers.first()?.image.clone()).unwrap_or_default();
    let failure = status.conditions.iter().flatten().find(|c| {
        let is = |type_: &str, status: &str| {
            c.type_.as_deref() == Some(type_) && c.status.as_deref() == Some(status)
        };
        is("ReplicaFailure", "True") || is("Progressing", "False")
    });
    let message = match failure.and_then(|c| c.message.clone()) {
        _ if ready => String::new(),
        Some(message) => message,
        None if !current => "the change is not observed yet".into(),
        None => format!("{available} of {wanted} pods available"),
    };
    Workload {
        name: deployment.name_any(),
        image,
        wanted,
        available: if current { available } else { 0 },
        ready,
        message,
    }
}

/// All live objects of an installation, in the order of deletion; CustomResourceDefinitions are last.
///
/// # Errors
/// When a kind cannot be listed.
pub async fn objects(client: &Client, namespace: &str) -> Result<Vec<Object>, ResourceError> {
    let mut out = Vec::new();
    for (api_version, kind, plural, namespaced) in KINDS {
        let api = api(client, api_version, kind, plural, namespaced.then_some(namespace));
        let params = ListParams::default().labels(&format!("{}={}", PART_OF.0, PART_OF.1));
        match api.list(&params).await {
            Ok(list) => out.extend(list.items.iter().map(|object| Object {
                kind: kind.into(),
                namespace: object.namespace(),
                name: object.name_any(),
            })),
            // A kind that is not served has no objects.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(failed("list", plural)(error)),
        }
    }
    Ok(out)
}

/// The objects that the manager created for itself in its namespace: its Lease. No manifest has them.
///
/// # Errors
/// When the Lease is unreadable.
pub async fn created(client: &Client, namespace: &str) -> Result<Vec<Object>, ResourceError> {
    let api = Api::<Lease>::namespaced(client.clone(), namespace);
    let lease = api.get_opt(MANAGER).await.map_err(failed("get", &format!("Lease {namespace}/{MANAGER}")))?;
    let object = |_| Object { kind: "Lease".into(), namespace: Some(namespace.into()), name: MANAGER.into() };
    Ok(lease.map(object).into_iter().collect())
}

/// The number of objects per kind of the API that are not part of the installation.
///
/// # Errors
/// When a kind cannot be listed.
pub async fn users(client: &Client, namespace: &str) -> Result<Vec<(&'static str, usize)>, ResourceError> {
    let own = format!("{}!={}", PART_OF.0, PART_OF.1);
    let mut out = Vec::new();
    for (version, kind) in USERS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(olm_api::names::GROUP, version, kind));
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let count = match api.list_metadata(&ListParams::default().labels(&own)).await {
            Ok(list) => list.items.len(),
            Err(kube::Error::Api(status)) if status.is_not_found() => 0,
            Err(error) => {
                return Err(failed("list", &format!("{kind}s beside namespace {namespace}"))(error));
            }
        };
        out.push((kind, count));
    }
    Ok(out)
}

/// Removes objects of an installation that are not wanted, such as the console after it is disabled; never a
/// CustomResourceDefinition. Returns the removed ones.
///
/// # Errors
/// When an object fails to be removed.
pub async fn prune(client: &Client, namespace: &str, wanted: &[Value]) -> Result<Vec<Object>, ResourceError> {
    let keep: BTreeSet<String> = wanted.iter().filter_map(|o| Some(Id::of(o).ok()?.to_string())).collect();
    let mut gone = Vec::new();
    for object in objects(client, namespace).await? {
        if object.kind != "CustomResourceDefinition" && !keep.contains(&object.to_string()) {
            delete(client, &object).await?;
            gone.push(object);
        }
    }
    Ok(gone)
}

/// Deletes one object of an installation; a missing one is no error. Its dependents are deleted first, so
/// that no pod of it runs any more once a read returns "not found".
///
/// # Errors
/// When the API server refuses the deletion.
pub async fn delete(client: &Client, object: &Object) -> Result<(), ResourceError> {
    let Some((api_version, kind, plural, _)) = KINDS.iter().find(|(_, kind, ..)| *kind == object.kind) else {
        return Ok(());
    };
    let params =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    let api = api(client, api_version, kind, plural, object.namespace.as_deref());
    match api.delete(&object.name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(failed("delete", &object.to_string())(error)),
    }
}

/// Other objects in the namespace, of kinds that users create on purpose. The objects of every namespace, and
/// those of an installation (`leaving`, its pods, its Lease), do not count.
///
/// # Errors
/// When a kind cannot be listed.
pub async fn others(
    client: &Client,
    namespace: &str,
    leaving: &[Object],
) -> Result<Vec<Object>, ResourceError> {
    const KINDS: [(&str, &str, &str); 8] = [
        ("v1", "ConfigMap", "configmaps"),
        ("v1", "Secret", "secrets"),
        ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        ("v1", "Service", "services"),
        ("v1", "ServiceAccount", "serviceaccounts"),
        ("apps/v1", "Deployment", "deployments"),
        ("operators.coreos.com/v1alpha1", "CatalogSource", "catalogsources"),
        ("operators.coreos.com/v1alpha1", "Subscription", "subscriptions"),
    ];
    const EVERYWHERE: [&str; 3] = ["default", "kube-root-ca.crt", "openshift-service-ca.crt"];
    let mut out = Vec::new();
    for (api_version, kind, plural) in KINDS {
        let api = api(client, api_version, kind, plural, Some(namespace));
        let found = match api.list_metadata(&ListParams::default()).await {
            Ok(list) => list.items,
            // The kind or the namespace does not exist.
            Err(kube::Error::Api(status)) if status.is_not_found() => Vec::new(),
            Err(error) => return Err(failed("list", &format!("{plural} in namespace {namespace}"))(error)),
        };
        // Garbage collection removes dependents of deleted objects shortly after.
        let theirs = |object: &PartialObjectMeta<DynamicObject>| {
            let mut owners = object.owner_references().iter();
            owners.any(|owner| leaving.iter().any(|l| l.kind == owner.kind && l.name == owner.name))
        };
        let found = found.iter().filter(|object| !theirs(object));
        let objects =
            found.filter(|object| !EVERYWHERE.contains(&object.name_any().as_str())).map(|object| Object {
                kind: kind.into(),
                namespace: object.namespace(),
                name: object.name_any(),
            });
        out.extend(objects.filter(|object| !leaving.contains(object)));
    }
    Ok(out)
}

/// Deletes the namespace of an installation; a missing one is no error.
///
/// # Errors
/// When the API server refuses the deletion.
pub async fn delete_namespace(client: &Client, namespace: &str) -> Result<(), ResourceError> {
    let api = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    match api.delete(namespace, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(failed("delete", &format!("Namespace {namespace}"))(error)),
    }
}

fn api(
    client: &Client,
    api_version: &str,
    kind: &str,
    plural: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn failed(verb: &'static str, object: &str) -> impl FnOnce(kube::Error) -> ResourceError {
    let object = object.to_owned();
    move |source| {
        tracing::debug!(verb, object, error = short(&source), "failed");
        ResourceError::Api { verb, object, source: Box::new(source) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(value: serde_json::Value) -> Deployment {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_rollout_is_ready_when_all_pods_are_of_the_new_template() {
        let status = |generation: i64, replicas: i32, updated: i32, available: i32| {
            workload(&deployment(serde_json::json!({
                "metadata": { "name": "olm-manager", "generation": 2 },
                "spec": { "replicas": 2, "selector": {}, "template": { "spec": { "containers": [{ "name": "m", "image": "i:2" }] } } },
                "status": { "observedGeneration": generation, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available },
            })))
        };
        assert!(status(2, 2, 2, 2).ready);
        assert_eq!(status(1, 2, 2, 2).message, "the change is not observed yet");
        assert_eq!(status(2, 3, 1, 2).message, "1 of 2 pods available");
        assert!(!status(2, 3, 2, 2).ready, "a pod of the old template is still there");
    }

    #[test]
    fn options_of_a_later_version_are_named() {
        let chosen = ManifestOptions { replicas: 3, ..ManifestOptions::default() };
        let mut fields = serde_json::to_value(chosen).unwrap();
        let (options, unknown) = recorded(&fields.to_string()).unwrap();
        assert_eq!((options.replicas, unknown), (3, Vec::new()));
        fields["audit"] = "verbose".into();
        let (options, unknown) = recorded(&fields.to_string()).unwrap();
        assert_eq!((options.replicas, unknown), (3, vec!["audit".to_owned()]));
        assert!(recorded("no JSON").is_none());
    }

    #[test]
    fn a_workload_that_is_not_ready_names_the_cause() {
        let pod = |reason: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": "olm-manager-1" },
                "status": { "containerStatuses": [{ "name": "manager", "image": "i:2", "imageID": "",
                    "ready": false, "restartCount": 0,
                    "state": { "waiting": { "reason": reason, "message": "not found" } } }] },
            }))
            .unwrap()
        };
        let message = || "0 of 1 pods available".to_owned();
        assert_eq!(
            explained(message(), &[pod("ContainerCreating"), pod("ErrImagePull")]),
            "0 of 1 pods available; pod olm-manager-1: container manager, image i:2: ErrImagePull: not found"
        );
        assert_eq!(explained(message(), &[pod("ContainerCreating")]), message());
        // pods that a quota or Pod Security refuses do not exist
        let refused = workload(&deployment(serde_json::json!({
            "metadata": { "name": "olm-manager", "generation": 1 },
            "spec": { "selector": {}, "template": {} },
            "status": { "observedGeneration": 1, "conditions": [
                { "type": "Progressing", "status": "True", "message": "created" },
                { "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                  "message": "pods \"olm-manager-1\" is forbidden: exceeded quota" }] },
        })));
        assert_eq!(refused.message, "pods \"olm-manager-1\" is forbidden: exceeded quota");
    }

    #[test]
    fn everything_that_is_installed_has_a_kind_that_is_removed() {
        let options = ManifestOptions { replicas: 2, service_monitor: true, ..ManifestOptions::default() };
        for object in super::super::manifests(&options) {
            let kind = object["kind"].as_str().unwrap();
            let known = KINDS.iter().find(|(_, k, ..)| *k == kind);
            // The namespace is deleted last, and only when it has no other objects.
            let known = known.map(|(version, _, _, namespaced)| (*version, *namespaced));
            let wanted =
                (object["apiVersion"].as_str().unwrap(), object["metadata"]["namespace"].is_string());
            assert!(kind == "Namespace" || known == Some(wanted), "{kind}");
        }
    }
}

//! The objects of an installation of `olm`, in apply order.
//!
//! The dev cluster, `olm self install` and the Helm chart install the same objects; all are built here.
//!
//! * [`ManifestOptions`]: the options of an installation
//! * [`manifests`], [`preflight`], [`apply`]: the objects, checking and applying them
//! * [`definitions`]: their CustomResourceDefinitions and those of the cluster
//! * [`helm`], [`containerfile`]: the objects as a chart; the image that they run
//! * [`installation`]: the live objects: finding, waiting, pruning and removing

mod calls;
pub mod containerfile;
pub mod definitions;
pub mod helm;
pub mod installation;
mod network;
mod options;
pub mod packages;
mod rbac;
mod surplus;
#[cfg(test)]
mod tests;
mod workloads;

use std::{ops::Range, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    core::GroupVersionKind,
    runtime::wait::{await_condition, conditions},
};
use serde_json::{Value, json};

use olm_engine::resources::{ResourceError, Resources};
use olm_version::Version;
pub use options::{LOCAL_IMAGES, ManifestOptions, VERSION};
pub use packages::{PACKAGES, PACKAGES_API};
pub use surplus::surplus;
pub use workloads::{NO_PROXY, OWN_VARIABLES};

use crate::authority::{policies, webhook};

/// The CatalogSource that serves the catalog embedded in the manager's binary.
pub const SHIPPED_CATALOG: &str = "community";
/// The image reference that stands for the embedded catalog.
pub const SHIPPED_CATALOG_IMAGE: &str = olm_catalog::SHIPPED_IMAGE;
/// The ClusterRole to read catalogs; by default all authenticated users have it in the manager's namespace.
pub const CATALOG_READER_ROLE: &str = "olm-catalog-reader";
/// The Role to reach the manager's port through the API server; all authenticated users have it.
const PORT_ROLE: &str = "olm-manager-port";
/// The ClusterRole to read the manager's metrics; it has no binding.
pub const METRICS_READER_ROLE: &str = "olm-metrics-reader";
/// The ClusterRoles that add the manager's kinds to `view`, `edit` and `admin`.
pub const VIEW_ROLE: &str = "olm-view";
/// See [`VIEW_ROLE`].
pub const EDIT_ROLE: &str = "olm-edit";
/// See [`VIEW_ROLE`].
pub const ADMIN_ROLE: &str = "olm-admin";
/// Port on which the API server calls the manager, and its name.
const SECURE_PORT: u16 = 8443;
pub const SECURE_PORT_NAME: &str = "secure";
/// Field manager of an installation's own objects.
pub const FIELD_MANAGER: &str = "olm.self";
/// Labels of the namespace: both pods satisfy the strictest Pod Security level, and the cluster enforces it.
const POD_SECURITY: [(&str, &str); 2] = [
    ("pod-security.kubernetes.io/enforce", "restricted"),
    ("pod-security.kubernetes.io/enforce-version", "latest"),
];
/// The label that all objects of an installation carry, and its value.
pub const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "olm");
/// The label of Deployments and CustomResourceDefinitions with the version that applied them.
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// The objects of an installation, in the order in which they must be applied.
///
/// CustomResourceDefinitions come early and must be established before the CatalogSource at the end is
/// applied. All objects carry [`PART_OF`]. No cluster has all of them: see [`served`].
#[must_use]
pub fn manifests(options: &ManifestOptions) -> Vec<Value> {
    let mut out = crds();
    out.insert(0, namespace(options));
    out.extend(rbac::objects(options));
    out.extend(policies::objects(&options.namespace));
    out.extend(webhook::objects(&options.namespace));
    out.extend(rbac::personas());
    out.extend(network::objects(options));
    out.extend(packages::objects(options));
    out.extend(workloads::manager(options));
    if let Some(image) = &options.console_image {
        out.extend(workloads::console(options, image));
    }
    if options.shipped_catalog {
        out.push(shipped_catalog(options));
    }
    for object in &mut out {
        label(object);
    }
    out.extend(options.extra_catalogs.iter().cloned());
    out
}

fn crds() -> Vec<Value> {
    let mut crds: Vec<Value> =
        olm_api::crds().into_iter().filter_map(|crd| serde_json::to_value(crd).ok()).collect();
    for crd in &mut crds {
        label(crd);
        crd["metadata"]["labels"][VERSION_LABEL] = VERSION.into();
    }
    crds
}

/// Whether a version of an installation is newer than this program; `false` for text that is no version.
#[must_use]
pub fn is_newer(version: &str) -> bool {
    match (Version::parse(version), Version::parse(VERSION)) {
        (Ok(version), Ok(own)) => version > own,
        _ => false,
    }
}

/// The oldest minor version of Kubernetes 1 that an installation supports: the first that evaluates
/// `matchConditions` of webhooks by default.
pub const OLDEST_KUBERNETES: u32 = 28;

/// Kinds that were added in a minor version of Kubernetes 1.
const SINCE: [(&str, u32); 4] = [
    ("ValidatingAdmissionPolicy", 30),
    ("ValidatingAdmissionPolicyBinding", 30),
    (RECORDS, RECORDS_SINCE),
    ("MutatingAdmissionPolicyBinding", RECORDS_SINCE),
];
/// The kind by which the API server records requests, and the minor version of Kubernetes 1 that added it.
/// Earlier versions use a webhook.
const RECORDS: &str = "MutatingAdmissionPolicy";
const RECORDS_SINCE: u32 = 36;

/// The minor versions of Kubernetes 1 on which an object is part of an installation.
#[must_use]
pub fn served(object: &Value) -> Range<u32> {
    if stands_in(object) {
        return 0..RECORDS_SINCE;
    }
    let since = SINCE.iter().find(|(kind, _)| object["kind"] == *kind);
    since.map_or(0, |(_, since)| *since)..u32::MAX
}

/// Whether an object is needed only where the API server has no policies that record requests.
fn stands_in(object: &Value) -> bool {
    ["Service", "MutatingWebhookConfiguration"].iter().any(|kind| object["kind"] == *kind)
        && object["metadata"]["name"] == policies::REQUESTS
}

/// The objects of an installation that an API server accepts: without the kinds that it does not serve, and
/// with the webhook where it cannot record requests itself.
///
/// # Errors
/// When the API server does not report its kinds.
pub async fn for_server(client: &Client, objects: Vec<Value>) -> Result<Vec<Value>, ResourceError> {
    let resources = Resources::new(client.clone());
    let mut missing = Vec::new();
    for (kind, _) in SINCE {
        if !is_served(&resources, "admissionregistration.k8s.io", kind).await? {
            missing.push(kind);
        }
    }
    let records = !missing.contains(&RECORDS);
    let taken = |object: &Value| match stands_in(object) {
        true => !records,
        false => !missing.iter().any(|kind| object["kind"] == *kind),
    };
    Ok(objects.into_iter().filter(taken).collect())
}

/// Whether the API server has the kind of [`ManifestOptions::service_monitor`], which the Prometheus operator
/// brings.
///
/// # Errors
/// When the API server does not report its kinds.
pub async fn serves_service_monitors(client: &Client) -> Result<bool, ResourceError> {
    is_served(&Resources::new(client.clone()), "monitoring.coreos.com", "ServiceMonitor").await
}

async fn is_served(resources: &Resources, group: &str, kind: &str) -> Result<bool, ResourceError> {
    match resources.lookup(&GroupVersionKind::gvk(group, "v1", kind)).await {
        Ok(_) => Ok(true),
        Err(ResourceError::UnknownKind { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks that the API server accepts an installation's objects, by applying them without storing the result
/// (dry run). Objects of olm's own kinds are not checked, because the live definitions may be those of another
/// version. Neither are objects whose namespace, or whose role, the installation creates.
///
/// # Errors
/// [`ResourceError`] for the first object that the API server refuses.
pub async fn preflight(client: &Client, objects: &[Value]) -> Result<(), ResourceError> {
    let resources = Resources::new(client.clone());
    let own = |object: &Value| {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        api_version.split_once('/').is_some_and(|(group, _)| group == olm_api::names::GROUP)
    };
    for object in objects {
        if own(object) {
            continue;
        }
        match resources.check_apply(object, FIELD_MANAGER).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Applies an installation's objects in order, as [`FIELD_MANAGER`], and waits for each CRD to be established
/// before its objects. Fields that others added and that affect rights or function are removed. Applying the
/// same objects again changes nothing.
///
/// # Errors
/// [`ResourceError`] for the first object that fails to be applied.
pub async fn apply(client: &Client, objects: &[Value]) -> Result<(), ResourceError> {
    let resources = Resources::new(client.clone());
    let mut crds = Vec::new();
    for object in objects {
        if object["kind"] != "CustomResourceDefinition" {
            for crd in crds.drain(..) {
                established(client, crd).await?;
            }
        }
        let applied = resources.apply_as(object, FIELD_MANAGER).await?;
        if let Some(patch) = surplus::without(&surplus(object, &applied)) {
            resources.merge(object, &patch, FIELD_MANAGER).await?;
            // Applied again to remove what the API server filled in for the removed fields.
            resources.apply_as(object, FIELD_MANAGER).await?;
        }
        if object["kind"] == "CustomResourceDefinition" {
            crds.extend(object["metadata"]["name"].as_str());
        }
    }
    Ok(())
}

async fn established(client: &Client, name: &str) -> Result<(), ResourceError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let failed = |text: &str| ResourceError::NotEstablished { name: name.to_owned(), text: text.to_owned() };
    let wait = await_condition(api, name, conditions::is_crd_established());
    match tokio::time::timeout(Duration::from_secs(10), wait).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(&error.to_string())),
        Err(_) => Err(failed("timed out after 10 s waiting for the condition Established")),
    }
}

fn namespace(options: &ManifestOptions) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": options.namespace,
            "labels": serde_json::Map::from_iter(
                POD_SECURITY.map(|(key, value)| (key.to_owned(), value.into()))
            ),
        }
    })
}

fn shipped_catalog(options: &ManifestOptions) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": { "name": SHIPPED_CATALOG, "namespace": options.namespace },
        "spec": {
            "sourceType": "grpc",
            "image": SHIPPED_CATALOG_IMAGE,
            "displayName": "Community operators",
            "publisher": "olm",
            "description": "Operators that are included in olm."
        }
    })
}

fn label(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(PART_OF.0.into(), PART_OF.1.into());
    }
}

//! CatalogSource: the source of a catalog.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::Condition;
use crate::lenient::{any_object, empty_as_none, null_as_default};

/// `spec.sourceType` of a catalog in an image or at the address of a catalog server.
pub const SOURCE_GRPC: &str = "grpc";
/// `spec.sourceType` of a catalog in a ConfigMap.
pub const SOURCE_CONFIGMAP: &str = "configmap";
/// Deprecated alias of [`SOURCE_CONFIGMAP`].
pub const SOURCE_INTERNAL: &str = "internal";
/// `spec.sourceType` of a catalog in a directory that the manager can read (not upstream).
pub const SOURCE_DIRECTORY: &str = "directory";
/// `spec.sourceType` of a catalog on a web server (not upstream).
pub const SOURCE_HTTP: &str = "http";
/// Annotation with an image template that contains parts of the Kubernetes version, such as
/// `quay.io/org/catalog:v{kube_major_version}.{kube_minor_version}`; it replaces `spec.image`.
pub const ANNOTATION_IMAGE_TEMPLATE: &str = "olm.catalogImageTemplate";

/// The source of the catalog.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "CatalogSource",
    plural = "catalogsources",
    shortname = "catsrc",
    category = "olm",
    namespaced,
    status = "CatalogSourceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A catalog of operators for Subscriptions.",
    printcolumn(name = "Display", type_ = "string", json_path = ".spec.displayName"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.sourceType"),
    printcolumn(name = "Publisher", type_ = "string", json_path = ".spec.publisher"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.connectionState.lastObservedState"),
    printcolumn(name = "Packages", type_ = "integer", json_path = ".status.packages"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogSourceSpec {
    /// grpc, configmap, internal, directory, or http.
    #[serde(deserialize_with = "null_as_default")]
    pub source_type: String,
    /// Image with the catalog (grpc).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// host:port of a running catalog server (grpc).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// ConfigMap with the catalog (configmap).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub config_map: Option<String>,
    /// Path on the disk of the manager: a catalog, a bundle repository, an OCI layout or an archive
    /// (directory; not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// URL of a catalog: catalogd's /api/v1/all, a file, or an archive (http; not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Priority among catalogs that can satisfy a dependency; higher is preferred.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// When to check for a newer image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Image pull secrets in the same namespace.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Required signer of the image (grpc; not upstream). The image is not read otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<olm_signatures::Requirement>,
    /// Display name.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description of the content.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Publisher of the catalog.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Icon of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<crate::csv::Icon>,
    /// Upstream's settings of the catalog pod. Preserved and ignored: there is no catalog pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub grpc_pod_config: Option<Value>,
}

fn is_zero(value: &i32) -> bool {
    *value == 0
}

/// When to check for a newer image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// Interval of the checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_poll: Option<RegistryPoll>,
}

/// Polling of a registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryPoll {
    /// Go duration, such as 10m.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// Observed state of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogSourceStatus {
    /// The observed generation (not upstream). Argo CD, Flux and `kubectl wait` read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Human-readable message.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Machine-readable reason.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the image was last resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_image_registry_poll: Option<Time>,
    /// The ConfigMap that was read last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_reference: Option<ConfigMapReference>,
    /// The Service of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_service: Option<RegistryService>,
    /// Whether the catalog can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<ConnectionState>,
    /// Digest of the served content (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The resolved source: the image by digest, or the digest of the content (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<String>,
    /// When the source was last read, or found unchanged (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Time>,
    /// The value of annotation `olm.refreshRequested` whose read has ended (not upstream). Flux reports
    /// `lastHandledReconcileAt` likewise.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub last_handled_refresh: Option<String>,
    /// Number of packages served (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<i32>,
    /// Invalid parts of the catalog (not upstream).
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The ConfigMap that was read last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapReference {
    /// Name of the ConfigMap.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Namespace of the ConfigMap.
    #[serde(deserialize_with = "null_as_default")]
    pub namespace: String,
    /// UID of the ConfigMap.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Resource version that was read.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// When it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// The Service of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryService {
    /// grpc, or http for catalogs that the manager serves itself.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Name of the Service.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Namespace of the Service.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub service_namespace: Option<String>,
    /// Port of the Service.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Creation time of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

/// Whether the catalog can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionState {
    /// Address of the catalog server.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// READY, CONNECTING, TRANSIENT_FAILURE, IDLE or SHUTDOWN.
    #[serde(deserialize_with = "null_as_default")]
    pub last_observed_state: String,
    /// When it was last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_connect: Option<Time>,
}

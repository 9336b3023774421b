//! `EtcdCluster`, with the JSON names of coreos/etcd-operator, odd ones included.
//!
//! The nested Kubernetes types are kept as plain JSON here and read in `validate`: a manifest with a mistake in an
//! affinity must lead to a condition on that object, never to a watch that cannot be read.

// Printer columns of the same type look alike to the lint.
#![allow(clippy::duplicated_attributes)]

mod schema;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, EnvVar, PodSecurityContext, ResourceRequirements, Toleration};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use schema::crd;
pub use status::{Condition, EtcdClusterStatus, MembersStatus};

/// Where etcd images come from when `spec.repository` is empty.
pub const DEFAULT_REPOSITORY: &str = "quay.io/coreos/etcd";
/// The etcd version when `spec.version` is empty: the one this release is tested with.
pub const DEFAULT_VERSION: &str = "3.4.23";
/// The longest name of a cluster: its members append a hyphen and ten characters and must stay DNS labels.
pub const MAX_NAME_LENGTH: usize = 52;
/// The largest cluster.
pub const MAX_SIZE: i64 = 7;

/// The etcd cluster that is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdCluster",
    plural = "etcdclusters",
    shortname = "etcdclus",
    shortname = "etcd",
    category = "all",
    namespaced,
    status = "EtcdClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "An etcd cluster, kept at its size and healthy by the etcd operator.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.size",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyMembers"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.currentVersion"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterSpec {
    /// Number of members, 1 to 7. Odd numbers survive more failures than the even number above them costs.
    #[schemars(range(min = 1, max = 7))]
    pub size: i64,
    /// Image repository without a tag; the image is `<repository>:v<version>`. Default: quay.io/coreos/etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// etcd version such as 3.4.23, at least 3.4. Default: 3.4.23, which this release is tested with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Leave the cluster alone: while true nothing is created, healed or resized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How the pods of members look. A change holds for members that are created after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodPolicy>,
    /// TLS. Not served by this release: a cluster that asks for it is refused with condition SpecAccepted=False.
    #[serde(default, rename = "TLS", skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPolicy>,
}

/// How the pods of members look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodPolicy {
    /// Labels added to the pods. `app` and names that begin with `etcd_` are the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations added to the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels that a node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Scheduling constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Affinity>")]
    pub affinity: Option<Value>,
    /// Deprecated: never two members on one node. Without effect beside `affinity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<bool>,
    /// Taints that are tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Toleration>>")]
    pub tolerations: Option<Value>,
    /// Resources of the etcd container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ResourceRequirements>")]
    pub resources: Option<Value>,
    /// Environment of the etcd container, for settings such as ETCD_QUOTA_BACKEND_BYTES.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<EnvVar>>")]
    pub etcd_env: Option<Value>,
    /// Security context of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodSecurityContext>")]
    pub security_context: Option<Value>,
    /// A volume per member. Not served by this release: a cluster that asks for it is refused with condition SpecAccepted=False.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub persistent_volume_claim_spec: Option<Value>,
    /// Accepted for old manifests and not needed: members have no init container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busybox_image: Option<String>,
    /// Accepted for old manifests and not needed: no init container waits for DNS.
    #[serde(rename = "DNSTimeoutInSecond", skip_serializing_if = "Option::is_none")]
    pub dns_timeout_in_second: Option<i64>,
    /// DNS domain of the Kubernetes cluster with its leading dot, such as `.cluster.local`, appended to the members' names.
    #[serde(rename = "ClusterDomain", skip_serializing_if = "Option::is_none")]
    pub cluster_domain: Option<String>,
}

/// TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TlsPolicy {
    /// Certificates that somebody else issues, in Secrets.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticTls>,
}

/// Names of the Secrets that hold certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticTls {
    /// Secrets of the members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberSecrets>,
    /// Secret with the client certificate of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_secret: Option<String>,
}

/// Secrets of the members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberSecrets {
    /// Certificates between members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_secret: Option<String>,
    /// Certificates towards clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_secret: Option<String>,
}

//! `EtcdCluster`, with the JSON names of coreos/etcd-operator, odd ones included.
//!
//! The nested Kubernetes types are kept as plain JSON here and read in `validate`: a manifest with a mistake in an
//! affinity must lead to a condition on that object, never to a watch that cannot be read.

// Printer columns of the same type look alike to the lint.
#![allow(clippy::duplicated_attributes)]
#![deny(missing_docs)]

pub mod backup;
mod limits;
mod pod;
pub mod restore;
mod schema;
mod secure;
mod status;
mod storage;
pub mod stores;
mod tls;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use pod::PodPolicy;
pub use schema::crd;
pub use secure::*;
pub use status::{
    Condition, CorruptionStatus, EtcdClusterStatus, LearnerFailure, MemberStatus, MembersStatus,
};
pub use storage::{RetentionPolicy, StorageMode, StoragePolicy};
pub use tls::{MemberSecrets, StaticTls, TlsPolicy};

/// Where etcd images come from when `spec.repository` is empty.
pub const DEFAULT_REPOSITORY: &str = "quay.io/coreos/etcd";
/// The etcd version when `spec.version` is empty: the one this release is tested with.
pub const DEFAULT_VERSION: &str = "3.4.23";
/// The longest name of a cluster: its members append a hyphen and ten characters and must stay DNS labels.
pub const MAX_NAME_LENGTH: usize = 52;
/// The largest cluster.
pub const MAX_SIZE: i64 = 7;

/// Desired etcd cluster.
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
    doc = "An etcd cluster managed by the etcd operator.",
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
    /// Number of members, 1 to 7. Use an odd number: one more member does not increase the number of tolerated
    /// failures.
    #[schemars(range(min = 1, max = 7))]
    pub size: i64,
    /// Image repository without a tag; the image is `<repository>:v<version>`. Default: quay.io/coreos/etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// etcd version, 3.4 or later, such as 3.4.23. Default: 3.4.23, the tested version of this release. A change
    /// upgrades the members one by one, by at most one minor version; downgrades to an earlier minor version are
    /// rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Suspend reconciliation: if true, the operator neither creates, heals, resizes, upgrades nor maintains the
    /// cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Settings of member pods. A change applies to members created after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodPolicy>,
    /// Certificates, provided in Secrets (`static`) or issued by the operator (`auto`). TLS cannot be added or
    /// removed after the creation of the cluster.
    #[serde(default, rename = "TLS", skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPolicy>,
    /// Storage and retention of member data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StoragePolicy>,
    /// Quota, compaction and defragmentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenancePolicy>,
    /// Users and authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthPolicy>,
    /// Maintain a PodDisruptionBudget, so that draining nodes preserves the quorum. Default: true. A single-member
    /// cluster has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<bool>,
    /// Settings of the metrics port of the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsPolicy>,
}

/// Settings of the metrics port of the members, 2381.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricsPolicy {
    /// Include histograms per gRPC method (`--metrics=extensive`). Default: false. A change applies to members
    /// created after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensive: Option<bool>,
}

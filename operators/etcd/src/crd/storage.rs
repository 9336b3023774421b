//! Where members keep their data, and what becomes of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where members keep their data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StoragePolicy {
    /// `Volume`: a volume per member. `Pod`: in the pod alone, lost with it. Default: `Volume` when a claim is described
    /// here or in `pod.persistentVolumeClaimSpec`, or when the Kubernetes cluster has a default StorageClass; else `Pod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<StorageMode>,
    /// Size of each volume. Default: 8Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub size: Option<Value>,
    /// StorageClass of the volumes. Default: that of the Kubernetes cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// What becomes of a volume whose member was removed or whose cluster was deleted. Default: Delete, as with the predecessor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<RetentionPolicy>,
}

/// Where members keep their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StorageMode {
    /// A volume per member: a lost pod is made again with its data.
    Volume,
    /// In the pod: a lost pod is a lost member, which is replaced.
    Pod,
}

/// What becomes of a volume that is not needed any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetentionPolicy {
    /// It is deleted: after the removal of its member was confirmed, or with the cluster.
    #[default]
    Delete,
    /// It stays, under the label `etcd_retained`, until somebody deletes it.
    Retain,
}

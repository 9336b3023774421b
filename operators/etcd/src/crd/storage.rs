//! Storage of members, and its retention.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Storage of member data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StoragePolicy {
    /// `Volume`: a volume per member. `Pod`: ephemeral storage, lost with the pod. Default: `Volume` if a claim is
    /// described here or in `pod.persistentVolumeClaimSpec`, or if the Kubernetes cluster has a default StorageClass;
    /// else `Pod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<StorageMode>,
    /// Size of each volume. Default: 8Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub size: Option<Value>,
    /// StorageClass of the volumes. Default: the default StorageClass of the Kubernetes cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Retention of volumes of removed members and deleted clusters. Default: Delete, as in coreos/etcd-operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<RetentionPolicy>,
}

/// Storage of member data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StorageMode {
    /// A volume per member: a lost pod is recreated with its data.
    Volume,
    /// Ephemeral storage: a lost pod is a lost member and is replaced.
    Pod,
}

/// Retention of unused volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetentionPolicy {
    /// Delete after the confirmed removal of the member, or with the cluster.
    #[default]
    Delete,
    /// Retain with label `etcd_retained` until deleted manually.
    Retain,
}

//! `spec.config`: overrides for the Deployments of an operator.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::{any_object, any_objects, named_objects, quantities};

/// The shape of `spec.config`, for the API server: it names the fields that there are. What is inside of those that
/// Kubernetes defines is checked when the Deployment is made of it. The manager passes the JSON on as it came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionConfig {
    /// Declared and without effect, as upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Replaces the node selector of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Added to the tolerations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Replaces the resources of every container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Added to the sources of variables of every container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_objects")]
    pub env_from: Option<Value>,
    /// Variables of every container; one of the same name is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "named_objects")]
    pub env: Option<Value>,
    /// Volumes of the pods; one of the same name is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "named_objects")]
    pub volumes: Option<Value>,
    /// Mounts of every container; one of the same name is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,
    /// Replaces the affinity of the pods, part by part.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub affinity: Option<Value>,
    /// Added to the annotations of Deployments and pods; existing ones stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// The most it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantities")]
    pub limits: Option<Value>,
    /// What it gets at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantities")]
    pub requests: Option<Value>,
    /// Devices it claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "named_objects")]
    pub claims: Option<Value>,
}

/// Where a volume is seen in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    /// Name of the volume.
    pub name: String,
    /// Path in the container.
    pub mount_path: String,
    /// Path in the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// Path in the volume, with variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_path_expr: Option<String>,
    /// Whether it cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether mounts below it cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive_read_only: Option<String>,
    /// How mounts made by one side are seen by the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_propagation: Option<String>,
}

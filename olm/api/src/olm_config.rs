//! OLMConfig: cluster-wide settings of upstream, in a single object named `cluster`.
//!
//! Both features concern parts that this product does not have. They are read and retained, so that manifests
//! with them apply and users can see that they have no effect: the manager writes the condition
//! `DisabledCopiedCSVs` as upstream does for "disabled", because there are no copied ClusterServiceVersions
//! here.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::lenient::{empty_as_none, null_as_default};

/// Cluster-wide settings.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OLMConfig",
    plural = "olmconfigs",
    category = "olm",
    status = "OLMConfigStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Cluster-wide settings; only the object named cluster is used."
)]
#[serde(rename_all = "camelCase", default)]
pub struct OLMConfigSpec {
    /// Features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
}

/// Switches of upstream; both are read and kept, and change nothing here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Features {
    /// Ignored: there are no copied ClusterServiceVersions.
    #[serde(rename = "disableCopiedCSVs", skip_serializing_if = "Option::is_none")]
    pub disable_copied_csvs: Option<bool>,
    /// Ignored: there is no polling package server.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub package_server_sync_interval: Option<String>,
}

/// Observed state of the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OLMConfigStatus {
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

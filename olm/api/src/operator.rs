//! Operator: a summary of the components of one package in one namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::lenient::{nul, opt};

/// Nothing is asked for: the object is made, kept and removed by the manager.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "Operator",
    plural = "operators",
    category = "olm",
    status = "OperatorStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Everything that belongs to one package in one namespace, written by the manager."
)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorSpec {}

/// What belongs to the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorStatus {
    /// Its objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<Components>,
}

/// Objects of one operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Components {
    /// What all of them carry.
    #[serde(deserialize_with = "nul")]
    pub label_selector: LabelSelector,
    /// The objects.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<RichReference>,
    /// How many there are more than are listed (not upstream): no object of more than 900 KB is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A reference to an object, with what the object says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RichReference {
    /// API version.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace, if it has one.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Resource version; read and kept, not written.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// A part of the object; read and kept, not written.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// Conditions of the object.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

//! Operator: a summary of the components of one package in one namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::lenient::{empty_as_none, null_as_default};

/// Empty: the object is created, maintained and removed by the manager.
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
    doc = "The objects of a package in a namespace, written by the manager."
)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorSpec {}

/// Objects of the operator.
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
    /// Selector of the objects.
    #[serde(deserialize_with = "null_as_default")]
    pub label_selector: LabelSelector,
    /// The objects.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<RichReference>,
    /// Number of objects that are not listed (not upstream); objects are limited to 900 KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A reference to an object, with its conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RichReference {
    /// API version.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace, if it has one.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Resource version. Preserved, not written.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// A part of the object. Preserved, not written.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

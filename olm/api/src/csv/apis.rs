//! APIs that an operator provides and requires, and its webhooks.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::{any_value, empty_as_none, int_or_string, null_as_default};

/// A kind of object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupVersionKind {
    /// API group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
}

/// CRDs that an operator provides and needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinitions {
    /// CRDs installed with the operator.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<CrdDescription>,
    /// CRDs installed by others.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<CrdDescription>,
}

/// A version of a CRD.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdDescription {
    /// Name of the CRD: plural.group.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Display name.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Objects that the operator creates for it.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResourceReference>,
    /// How to display fields of its spec.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub spec_descriptors: Vec<SpecDescriptor>,
    /// How to display fields of its status.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub status_descriptors: Vec<StatusDescriptor>,
    /// Actions, described for user interfaces.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub action_descriptors: Vec<ActionDescriptor>,
}

impl CrdDescription {
    /// The API group: the part of the name after the first dot.
    pub fn group(&self) -> &str {
        self.name.split_once('.').map_or("", |(_, group)| group)
    }

    /// The kind with its group and version.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group().to_owned(),
            version: self.version.clone(),
            kind: self.kind.clone(),
        }
    }
}

/// Aggregated APIs that an operator provides and needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceDefinitions {
    /// Aggregated APIs served by the operator.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<ApiServiceDescription>,
    /// Aggregated APIs served by others.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<ApiServiceDescription>,
}

/// An aggregated API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceDescription {
    /// Plural name of the resource.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// API group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Name of the Deployment that serves it.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// Port of the container; 443 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
    /// Display name.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Objects that the operator creates for it.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResourceReference>,
    /// How to display fields of its spec.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub spec_descriptors: Vec<SpecDescriptor>,
    /// How to display fields of its status.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub status_descriptors: Vec<StatusDescriptor>,
    /// Actions, described for user interfaces.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub action_descriptors: Vec<ActionDescriptor>,
}

/// A kind of object that an operator creates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiResourceReference {
    /// Name of its CRD, if it has one.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
}

/// How to display a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpecDescriptor {
    /// Path of the field.
    #[serde(deserialize_with = "null_as_default")]
    pub path: String,
    /// Display name.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How to display it, as URNs.
    #[serde(
        rename = "x-descriptors",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub x_descriptors: Vec<String>,
    /// A value to display.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub value: Option<Value>,
}

/// A descriptor of a status field.
pub type StatusDescriptor = SpecDescriptor;
/// A descriptor of an action on an object.
pub type ActionDescriptor = SpecDescriptor;

/// A webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookDescription {
    /// Name of the webhook.
    #[serde(deserialize_with = "null_as_default")]
    pub generate_name: String,
    /// ValidatingAdmissionWebhook, MutatingAdmissionWebhook or ConversionWebhook.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub type_: String,
    /// Name of the Deployment that serves it.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// Port of the container; 443 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
    /// Target port of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub target_port: Option<IntOrString>,
    /// Rules that select requests.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleWithOperations>,
    /// Fail or Ignore.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<String>,
    /// Exact or Equivalent.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<String>,
    /// Selector of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
    /// None, NoneOnDryRun, Some or Unknown.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<String>,
    /// Timeout in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Supported versions of AdmissionReview.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub admission_review_versions: Vec<String>,
    /// Never or IfNeeded.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub reinvocation_policy: Option<String>,
    /// Path of the URL.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
    /// CRDs converted by the webhook.
    #[serde(
        rename = "conversionCRDs",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conversion_crds: Vec<String>,
}

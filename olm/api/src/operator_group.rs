//! OperatorGroup: the namespaces that the operators of its namespace watch.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::lenient::{empty_as_none, is_false, null_as_default, string_enum};

string_enum! {
    /// What to do about a failed upgrade.
    UpgradeStrategy {
        /// Wait for a human.
        Default = "Default",
        /// Continue to the next version.
        TechPreviewUnsafeFailForward = "TechPreviewUnsafeFailForward",
    }
    default Default, unknown Default, schema closed
}

/// The target namespaces.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OperatorGroup",
    plural = "operatorgroups",
    shortname = "og",
    category = "olm",
    namespaced,
    status = "OperatorGroupStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The target namespaces of the operators of a namespace.",
    printcolumn(name = "Namespaces", type_ = "string", json_path = ".status.namespaces"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorGroupSpec {
    /// Target namespaces; takes precedence over the selector. Neither means all namespaces.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub target_namespaces: Vec<String>,
    /// Selector of target namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// ServiceAccount whose permissions limit installs.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Whether the annotation olm.providedAPIs is left unchanged.
    #[serde(
        rename = "staticProvidedAPIs",
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_false"
    )]
    pub static_provided_apis: bool,
    /// Default or TechPreviewUnsafeFailForward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_strategy: Option<UpgradeStrategy>,
}

impl OperatorGroupSpec {
    /// Whether operators watch all namespaces.
    pub fn is_global(&self) -> bool {
        let no_selector = self.selector.as_ref().is_none_or(|s| {
            s.match_labels.as_ref().is_none_or(|m| m.is_empty())
                && s.match_expressions.as_ref().is_none_or(|m| m.is_empty())
        });
        self.target_namespaces.is_empty() && no_selector
    }
}

/// Observed state of the group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorGroupStatus {
    /// The observed generation (not upstream). Argo CD, Flux and `kubectl wait` read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Target namespaces; one empty string means all.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The ServiceAccount whose permissions limit installs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<ObjectReference>,
    /// When the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

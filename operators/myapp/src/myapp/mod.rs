//! The kind MyApp: its fields, its columns and its rules.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use operator_kit::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use plan::plan;

/// Desired application.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "MyApp",
    plural = "myapps",
    namespaced,
    status = "MyAppStatus",
    derive = "PartialEq",
    doc = "An application that runs as a number of equal pods.",
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name: must be at most 63 characters"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image")
)]
#[serde(rename_all = "camelCase")]
pub struct MyAppSpec {
    /// Number of pods, 0 to 100. Default: 1.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,
    /// Image of the pods.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Port on which the pods listen, 1 to 65535; it cannot be changed. Default: 8080.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("spec.port: the port is immutable"))]
    pub port: i32,
}

/// Observed state of the application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MyAppStatus {
    /// Number of existing pods.
    #[serde(default)]
    pub replicas: i32,
    /// Number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Label selector of the pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Conditions Ready and Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Generation of the object that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

const fn default_replicas() -> i32 {
    1
}

const fn default_port() -> i32 {
    8080
}

/// The kind, what it owns, and its plan.
pub fn kind() -> Kind {
    operator_kit::kind::<MyApp>().owns::<Deployment>().plan(plan)
}

//! InstallPlan: the plan of a change, with its approval and result.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::lenient::{empty_as_none, is_false, null_as_default, string_enum};
use crate::subscription::Approval;

string_enum! {
    /// Phase of an InstallPlan.
    InstallPlanPhase {
        /// Not observed yet.
        None = "",
        /// Steps are being computed.
        Planning = "Planning",
        /// Waits for `spec.approved`.
        RequiresApproval = "RequiresApproval",
        /// Steps are being applied.
        Installing = "Installing",
        /// All steps are applied.
        Complete = "Complete",
        /// The plan cannot be applied.
        Failed = "Failed",
    }
    default None, unknown None, schema open
}

string_enum! {
    /// State of a step.
    StepStatus {
        /// Not observed yet.
        Unknown = "Unknown",
        /// The object does not exist.
        NotPresent = "NotPresent",
        /// The object existed.
        Present = "Present",
        /// The object was created.
        Created = "Created",
        /// The object was not created.
        NotCreated = "NotCreated",
        /// The API of the object is not served yet.
        WaitingForApi = "WaitingForApi",
        /// Objects of this kind are not handled.
        UnsupportedResource = "UnsupportedResource",
    }
    default Unknown, unknown Unknown, schema open
}

/// The plan to apply.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "InstallPlan",
    plural = "installplans",
    shortname = "ip",
    category = "olm",
    namespaced,
    status = "InstallPlanStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A change of the cluster: awaiting approval, in progress or complete.",
    printcolumn(name = "CSV", type_ = "string", json_path = ".spec.clusterServiceVersionNames[0]"),
    printcolumn(name = "Approval", type_ = "string", json_path = ".spec.approval"),
    printcolumn(name = "Approved", type_ = "boolean", json_path = ".spec.approved"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanSpec {
    /// ClusterServiceVersions that the plan installs.
    #[serde(deserialize_with = "null_as_default")]
    pub cluster_service_version_names: Vec<String>,
    /// Automatic or Manual.
    #[serde(deserialize_with = "null_as_default")]
    pub approval: Approval,
    /// True approves the plan.
    #[serde(deserialize_with = "null_as_default")]
    pub approved: bool,
    /// Ordinal number of the plan in its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Name of the CatalogSource.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Namespace of the CatalogSource.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub source_namespace: Option<String>,
    /// Digest of the plan. An approval covers exactly this content (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
}

/// Observed state of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanStatus {
    /// The observed generation (not upstream). Argo CD, Flux and `kubectl wait` read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Planning, RequiresApproval, Installing, Complete or Failed.
    #[serde(deserialize_with = "null_as_default")]
    pub phase: InstallPlanPhase,
    /// The catalogs of the plan, as written by upstream.
    #[serde(deserialize_with = "null_as_default")]
    pub catalog_sources: Vec<String>,
    /// Steps of the plan.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    /// Upstream's bundle lookups. Preserved and ignored.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub bundle_lookups: Vec<BundleLookup>,
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The ServiceAccount whose permissions limit the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<ObjectReference>,
    /// When the plan was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Human-readable message.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Digest of the plan as computed last (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    /// Digest of the applied content. For information: plans are compared by the annotation `olm.contentDigest`
    /// (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub content_digest: Option<String>,
}

impl InstallPlan {
    /// The phase; [`InstallPlanPhase::default`] without a status.
    #[must_use]
    pub fn phase(&self) -> InstallPlanPhase {
        self.status.as_ref().map(|status| status.phase).unwrap_or_default()
    }

    /// The message of the status; `None` while it still asks for the approval that the plan has.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        let asks = self.phase() == InstallPlanPhase::RequiresApproval;
        self.status.as_ref()?.message.as_deref().filter(|_| !(asks && self.spec.approved))
    }

    /// Whether the plan was applied, or never will be.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase(), InstallPlanPhase::Complete | InstallPlanPhase::Failed)
    }
}

/// A step: one object of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// The ClusterServiceVersion that requires it.
    #[serde(deserialize_with = "null_as_default")]
    pub resolving: String,
    /// The object.
    #[serde(deserialize_with = "null_as_default")]
    pub resource: StepResource,
    /// Whether the step is optional.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Observed state of the object.
    #[serde(deserialize_with = "null_as_default")]
    pub status: StepStatus,
    /// create, update, adopt, delete or unchanged (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
}

/// The object of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StepResource {
    /// Name of its CatalogSource.
    #[serde(deserialize_with = "null_as_default")]
    pub source_name: String,
    /// Namespace of its CatalogSource.
    #[serde(deserialize_with = "null_as_default")]
    pub source_namespace: String,
    /// API group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Namespace, if it is not that of the plan (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Upstream's inline manifest; olm refers to the bundle instead.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

/// A bundle lookup of upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleLookup {
    /// Image of the bundle.
    #[serde(deserialize_with = "null_as_default")]
    pub path: String,
    /// Name of the bundle.
    #[serde(deserialize_with = "null_as_default")]
    pub identifier: String,
    /// Name of the bundle that it replaces.
    #[serde(deserialize_with = "null_as_default")]
    pub replaces: String,
    /// The CatalogSource of the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_source_ref: Option<ObjectReference>,
    /// Properties of the bundle, as JSON.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub properties: Option<String>,
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

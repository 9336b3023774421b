//! InstallPlan: the plan of a change, with its approval and result.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::lenient::{is_false, nul, opt, string_enum};
use crate::subscription::Approval;

string_enum! {
    /// Where an InstallPlan stands.
    InstallPlanPhase {
        /// Nothing was done yet.
        None = "",
        /// Steps are being worked out.
        Planning = "Planning",
        /// It waits for `spec.approved`.
        RequiresApproval = "RequiresApproval",
        /// Steps are being carried out.
        Installing = "Installing",
        /// Done.
        Complete = "Complete",
        /// It cannot be carried out.
        Failed = "Failed",
    }
    default None, unknown None, schema open
}

string_enum! {
    /// Where one step stands.
    StepStatus {
        /// Nobody looked yet.
        Unknown = "Unknown",
        /// The object is not there.
        NotPresent = "NotPresent",
        /// The object was there.
        Present = "Present",
        /// The object was made.
        Created = "Created",
        /// The object was not made.
        NotCreated = "NotCreated",
        /// The API of the object is not served yet.
        WaitingForApi = "WaitingForApi",
        /// Objects of this kind are not handled.
        UnsupportedResource = "UnsupportedResource",
    }
    default Unknown, unknown Unknown, schema open
}

/// What to carry out.
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
    doc = "A change of the cluster that waits for approval, is at work, or is done.",
    printcolumn(name = "CSV", type_ = "string", json_path = ".spec.clusterServiceVersionNames[0]"),
    printcolumn(name = "Approval", type_ = "string", json_path = ".spec.approval"),
    printcolumn(name = "Approved", type_ = "boolean", json_path = ".spec.approved"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanSpec {
    /// Versions that the plan installs.
    #[serde(deserialize_with = "nul")]
    pub cluster_service_version_names: Vec<String>,
    /// Automatic or Manual.
    #[serde(deserialize_with = "nul")]
    pub approval: Approval,
    /// True lets the plan be carried out.
    #[serde(deserialize_with = "nul")]
    pub approved: bool,
    /// Order of plans in a namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Name of the CatalogSource.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Namespace of the CatalogSource.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub source_namespace: Option<String>,
    /// Digest of the plan; approving approves exactly this content (not upstream).
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
}

/// What became of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanStatus {
    /// The generation that this is about (not upstream): Argo CD, Flux and `kubectl wait` look for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Planning, RequiresApproval, Installing, Complete or Failed.
    #[serde(deserialize_with = "nul")]
    pub phase: InstallPlanPhase,
    /// Catalogs that were used, as upstream writes them.
    #[serde(deserialize_with = "nul")]
    pub catalog_sources: Vec<String>,
    /// Steps of the plan.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    /// Bundles that upstream still has to unpack; read and kept.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub bundle_lookups: Vec<BundleLookup>,
    /// Observations.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The account that steps are carried out with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<ObjectReference>,
    /// When work began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// One sentence for a human.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Digest of the plan as it was worked out last (not upstream).
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    /// Digest of what is applied, which a plan that was interrupted is compared with (not upstream).
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub content_digest: Option<String>,
}

/// One object of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// The ClusterServiceVersion that needs it.
    #[serde(deserialize_with = "nul")]
    pub resolving: String,
    /// The object.
    #[serde(deserialize_with = "nul")]
    pub resource: StepResource,
    /// Whether the plan succeeds without it.
    #[serde(deserialize_with = "nul", skip_serializing_if = "is_false")]
    pub optional: bool,
    /// What became of it.
    #[serde(deserialize_with = "nul")]
    pub status: StepStatus,
    /// create, update, adopt, delete or unchanged (not upstream).
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
}

/// The object of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StepResource {
    /// Name of the CatalogSource it comes from.
    #[serde(deserialize_with = "nul")]
    pub source_name: String,
    /// Namespace of the CatalogSource it comes from.
    #[serde(deserialize_with = "nul")]
    pub source_namespace: String,
    /// API group.
    #[serde(deserialize_with = "nul")]
    pub group: String,
    /// API version.
    #[serde(deserialize_with = "nul")]
    pub version: String,
    /// Kind.
    #[serde(deserialize_with = "nul")]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "nul")]
    pub name: String,
    /// Namespace, where it is not the plan's own (not upstream).
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Upstream's inline manifest; we refer to the bundle instead.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

/// A bundle that upstream still has to unpack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleLookup {
    /// Image of the bundle.
    #[serde(deserialize_with = "nul")]
    pub path: String,
    /// Name of the bundle.
    #[serde(deserialize_with = "nul")]
    pub identifier: String,
    /// Name of the bundle it replaces.
    #[serde(deserialize_with = "nul")]
    pub replaces: String,
    /// The CatalogSource it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_source_ref: Option<ObjectReference>,
    /// Properties of the bundle, as JSON.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub properties: Option<String>,
    /// Observations.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

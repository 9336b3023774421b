//! Status of a ClusterServiceVersion.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Unread,
    condition::ConditionStatus,
    lenient::{any_object, empty_as_none, null_as_default, string_enum},
};

string_enum! {
    /// Phase of a ClusterServiceVersion.
    CsvPhase {
        /// Not observed yet.
        None = "",
        /// Requirements are not met yet.
        Pending = "Pending",
        /// Requirements are met.
        InstallReady = "InstallReady",
        /// Objects are being created.
        Installing = "Installing",
        /// The operator is running.
        Succeeded = "Succeeded",
        /// The operator is not running.
        Failed = "Failed",
        /// The phase is not known.
        Unknown = "Unknown",
        /// A newer version replaces it.
        Replacing = "Replacing",
        /// It is being deleted.
        Deleting = "Deleting",
    }
    default None, unknown Unknown, schema open
}

string_enum! {
    /// Whether a requirement is met.
    RequirementState {
        /// It is met.
        Present = "Present",
        /// The object does not exist.
        NotPresent = "NotPresent",
        /// The object exists and does not satisfy the requirement.
        PresentNotSatisfied = "PresentNotSatisfied",
        /// The object exists and is not available.
        PresentNotAvailable = "PresentNotAvailable",
        /// The Deployment exists.
        DeploymentFound = "DeploymentFound",
        /// The Deployment does not exist.
        DeploymentNotFound = "DeploymentNotFound",
        /// A dependent is satisfied.
        Satisfied = "Satisfied",
        /// A dependent is not satisfied.
        NotSatisfied = "NotSatisfied",
        /// Not observed yet.
        Unknown = "Unknown",
    }
    default Unknown, unknown Unknown, schema open
}

/// Observed state of the version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionStatus {
    /// The observed generation (not upstream). Argo CD, Flux and `kubectl wait` read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pending, InstallReady, Installing, Succeeded, Failed, Replacing or Deleting.
    #[serde(deserialize_with = "null_as_default")]
    pub phase: CsvPhase,
    /// Machine-readable reason.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the phase last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Conditions of the current state (not upstream) and the last phases, at most 20, the newest last.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CsvCondition>,
    /// Requirements and their state.
    #[serde(skip_serializing_if = "Unread::is_default")]
    #[schemars(with = "Vec<RequirementStatus>")]
    pub requirement_status: Unread<Vec<RequirementStatus>>,
    /// When certificates were last issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_last_updated: Option<Time>,
    /// When certificates are next issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_rotate_at: Option<Time>,
    /// Last applied state of the Deployments (not upstream).
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub applied_deployments: Vec<AppliedDeployment>,
    /// Upstream's state of the clean-up. Preserved and ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub cleanup: Option<Value>,
}

/// The last applied state of a Deployment. An unchanged generation means an unchanged spec (not upstream).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedDeployment {
    /// UID.
    #[serde(deserialize_with = "null_as_default")]
    pub uid: String,
    /// Generation.
    #[serde(deserialize_with = "null_as_default")]
    pub generation: i64,
}

/// A phase of the version or, with a type, a condition of its current state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CsvCondition {
    /// Ready, Reconciling or Stalled (not upstream). Such entries come before all phases and have none.
    #[serde(rename = "type", deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Status of the condition (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ConditionStatus>,
    /// The observed generation of an entry with a type (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The phase.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_no_phase")]
    pub phase: CsvPhase,
    /// Machine-readable reason.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the phase began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

fn is_no_phase(phase: &CsvPhase) -> bool {
    *phase == CsvPhase::None
}

/// A requirement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RequirementStatus {
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
    /// Whether the requirement is met.
    #[serde(deserialize_with = "null_as_default")]
    pub status: RequirementState,
    /// Human-readable message.
    #[serde(deserialize_with = "null_as_default")]
    pub message: String,
    /// UID of the object.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Dependents of the requirement.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<DependentStatus>,
}

/// A dependent of a requirement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DependentStatus {
    /// API group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Satisfied or NotSatisfied.
    #[serde(deserialize_with = "null_as_default")]
    pub status: RequirementState,
    /// Human-readable message.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// UID of the object.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

//! What is reported about a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MaintenanceStatus, TlsStatus};

/// Observed state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdClusterStatus {
    /// Creating, Running or Failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Cause of phase Failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether reconciliation is suspended by `spec.paused`.
    pub control_paused: bool,
    /// Generation of the object observed by this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of members in the etcd cluster.
    pub size: i64,
    /// Number of ready members.
    pub ready_members: i64,
    /// Members by readiness.
    pub members: MembersStatus,
    /// The members as reported by etcd at the last observation with a quorum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_list: Vec<MemberStatus>,
    /// Name of the Service for clients.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// Port of the Service for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<i32>,
    /// etcd version of the members.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_version: String,
    /// Desired etcd version, if it differs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target_version: String,
    /// ID of the etcd cluster, recorded when its first member is running; after that no member is started as a new
    /// cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Name of the member being added, recorded before it is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_member: Option<String>,
    /// The last learner that did not join. A change of the spec starts the next attempt immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learner_failure: Option<LearnerFailure>,
    /// Present while members hold different data, until a comparison of all members finds them equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corruption: Option<CorruptionStatus>,
    /// Observed state of certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsStatus>,
    /// Observed state of maintenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceStatus>,
    /// Whether authentication was enabled. The operator does not disable it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auth_enabled: bool,
    /// Label selector of the members' pods, for the scale subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Conditions of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Members by readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MembersStatus {
    /// Members that serve requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<String>,
    /// Members that do not serve requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
}

/// A member as reported by etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberStatus {
    /// Name of the member, its pod and its claim; the peer URL for a member not created by the operator.
    pub name: String,
    /// ID, hexadecimal as printed by etcdctl.
    pub id: String,
    /// Leader, Voter or Learner.
    pub role: String,
    /// etcd version; empty while the member is unreachable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Whether it follows the leader without significant lag.
    pub healthy: bool,
}

/// A learner that did not join.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LearnerFailure {
    /// Name of the learner.
    pub name: String,
    /// Cause of the failure.
    pub reason: String,
    /// Removal time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Generation of the object at the time of removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// Members with different data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CorruptionStatus {
    /// ID of the affected etcd cluster.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Members whose data differs from the majority; empty while no majority agrees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

/// A condition of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Machine-readable reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time of the last change of status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Time of the last change of reason or message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Generation of the object observed by the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl EtcdClusterStatus {
    /// The condition of a type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_ == type_)
    }
}

//! What is reported about a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MaintenanceStatus, TlsStatus};

/// What is known about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdClusterStatus {
    /// Creating, Running or Failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Why the phase is Failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// True while `spec.paused` holds the operator back.
    pub control_paused: bool,
    /// Generation of the object that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of members in the etcd cluster.
    pub size: i64,
    /// Number of members that are ready.
    pub ready_members: i64,
    /// Members by readiness.
    pub members: MembersStatus,
    /// The members as etcd knows them, as of the last look that a quorum answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_list: Vec<MemberStatus>,
    /// Name of the Service for clients.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// Port of the Service for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<i32>,
    /// etcd version that the members run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_version: String,
    /// etcd version that is wanted, when it is another one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target_version: String,
    /// Id of the etcd cluster, written once when its first member is up: from then on no member is ever started as a new cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Name of the member that is being added, written before it is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_member: Option<String>,
    /// The last member that was added and did not become one. A change of the spec lets the next attempt begin at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learner_failure: Option<LearnerFailure>,
    /// Members do not hold the same data. It stays until a comparison of all members finds that they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corruption: Option<CorruptionStatus>,
    /// What is known about certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsStatus>,
    /// What is known about housekeeping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceStatus>,
    /// Authentication was switched on. It is not switched off again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auth_enabled: bool,
    /// Label selector of the members' pods, for the scale subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// What holds of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Members by readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MembersStatus {
    /// Members that serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<String>,
    /// Members that do not serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
}

/// A member as etcd knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberStatus {
    /// Name, also that of its pod and its claim; for a member of somebody else its peer URL.
    pub name: String,
    /// Id, hexadecimal as etcdctl prints it.
    pub id: String,
    /// Leader, Voter or Learner.
    pub role: String,
    /// etcd version that it runs; empty while it does not answer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// It follows the leader and is not far behind.
    pub healthy: bool,
}

/// A member that was added and did not become one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LearnerFailure {
    /// Its name.
    pub name: String,
    /// What it waited for.
    pub reason: String,
    /// When it was taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Generation of the object at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// Members that do not hold the same data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CorruptionStatus {
    /// Id of the etcd cluster in which that was found.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Members whose data is another than that of a majority that agreed; none while it is not known who is right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

/// One thing that holds or does not hold of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When reason or message last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Generation of the object that the condition speaks of.
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

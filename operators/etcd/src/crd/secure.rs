//! The fields of `EtcdCluster` about certificates, users and housekeeping, which coreos/etcd-operator did not have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Certificates issued by the operator from certificate authorities that it creates for each EtcdCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoTls {
    /// Validity of certificates in days, 1 to 825. They are renewed when a third of it remains. Default: 365.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 825))]
    pub certificate_days: Option<i64>,
    /// Additional DNS names and IP addresses of the cluster for clients, such as those of a load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_names: Option<Vec<String>>,
}

/// Maintenance of the databases of the members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenancePolicy {
    /// Maximum size of the database, such as 4Gi. Default: the default of etcd, 2Gi. A change applies to members
    /// created after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMGT]i?|k)?$"))]
    pub quota: Option<String>,
    /// Automatic compaction of old revisions by etcd. A change applies to members created after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compaction: Option<AutoCompaction>,
    /// Defragmentation schedule and thresholds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defragmentation: Option<Defragmentation>,
}

/// Automatic compaction of old revisions by etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoCompaction {
    /// `periodic` retains the revisions of a duration, `revision` a number of revisions. Default: periodic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(periodic|revision)$"))]
    pub mode: Option<String>,
    /// Retention: a duration such as 5m or 1h, or a number of revisions.
    #[schemars(regex(pattern = r"^[0-9]+[smh]?$"))]
    pub retention: String,
}

/// Defragmentation schedule and thresholds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Defragmentation {
    /// Cron schedule in UTC with five fields, such as `0 3 * * *`.
    pub schedule: String,
    /// Defragment a member if the free space in its database exceeds this size. Default: 200Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMGT]i?|k)?$"))]
    pub free_space_above: Option<String>,
    /// Also defragment a member if its database exceeds this percentage of the quota. Default: 75.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub quota_usage_above: Option<i64>,
    /// Minimum space to reclaim; a member with less reclaimable space is never defragmented. Default: 32Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMGT]i?|k)?$"))]
    pub min_reclaim: Option<String>,
}

/// Users and authentication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthPolicy {
    /// Secret with the password of user `root` under key `password`. The operator creates the user and enables
    /// authentication once; it does not disable it. Requires client TLS.
    pub root_secret: String,
}

/// Observed state of certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsStatus {
    /// Expiry of the first certificate in use to expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// Secret with a client certificate and the trusted authorities, if the operator issues them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_secret: String,
}

/// Observed state of maintenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceStatus {
    /// Start time of the current run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// Trigger of the run: Schedule or NoSpace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// Compacted revision of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<i64>,
    /// Members completed by this run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// Completion time of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
}

//! The fields of `EtcdCluster` about certificates, users and housekeeping, which coreos/etcd-operator did not have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Certificates that the operator issues, from authorities of the cluster's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoTls {
    /// Days that certificates are valid, 1 to 825. They are renewed when a third of it is left. Default: 365.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 825))]
    pub certificate_days: Option<i64>,
    /// Further DNS names and IP addresses under which clients reach the cluster, such as that of a load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_names: Option<Vec<String>>,
}

/// Housekeeping of the members' databases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenancePolicy {
    /// How large the database may become, such as 4Gi. Default: that of etcd, 2Gi. A change holds for members that are created after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMGT]i?|k)?$"))]
    pub quota: Option<String>,
    /// When etcd forgets old revisions by itself. A change holds for members that are created after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compaction: Option<AutoCompaction>,
    /// When members give the space of forgotten revisions back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defragmentation: Option<Defragmentation>,
}

/// When etcd forgets old revisions by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoCompaction {
    /// `periodic` keeps the revisions of a time, `revision` a number of them. Default: periodic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(periodic|revision)$"))]
    pub mode: Option<String>,
    /// What is kept: a time such as 5m or 1h, or a number of revisions.
    #[schemars(regex(pattern = r"^[0-9]+[smh]?$"))]
    pub retention: String,
}

/// When members give the space of forgotten revisions back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Defragmentation {
    /// When to look, as five fields of cron in UTC, such as `0 3 * * *`.
    pub schedule: String,
    /// A member is defragmented when more than this is free inside of its database. Default: 200Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMGT]i?|k)?$"))]
    pub free_space_above: Option<String>,
    /// It is also defragmented when its database uses more than this many percent of the quota. Default: 75.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub quota_usage_above: Option<i64>,
    /// It is never defragmented when less than this would become free. Default: 32Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMGT]i?|k)?$"))]
    pub min_reclaim: Option<String>,
}

/// Users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthPolicy {
    /// Secret whose key `password` is that of the user `root`. The operator creates the user and switches
    /// authentication on, once; it is not switched off again. Needs TLS towards clients.
    pub root_secret: String,
}

/// What is known about certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsStatus {
    /// When the first of the certificates in use expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// Secret with a client certificate and the authorities to trust, when the operator issues them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_secret: String,
}

/// What is known about housekeeping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceStatus {
    /// Since when a run is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// Why: Schedule or NoSpace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// The revision that this run compacted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<i64>,
    /// Members that this run is done with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// When the last run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
}

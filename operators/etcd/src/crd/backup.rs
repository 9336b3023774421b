//! `EtcdBackup`, with the JSON names of coreos/etcd-operator, odd ones included.

// Printer columns of the same type look alike to the lint.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::limits;
use super::schema::{rule, simplify};
use super::stores::{self, Encryption, Stores};

/// Desired backup.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdBackup",
    plural = "etcdbackups",
    category = "all",
    namespaced,
    status = "EtcdBackupStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A snapshot of an etcd cluster, taken once or periodically.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Succeeded", type_ = "boolean", json_path = ".status.succeeded"),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.etcdRevision"),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastSuccessDate"),
    printcolumn(name = "Object", type_ = "string", json_path = ".status.object", priority = 1),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupSpec {
    /// URLs of etcd members or of their Service, such as `http://example-client:2379`. A host without a dot is
    /// resolved in the namespace of the object. All voting members of the cluster are candidates. Mutually exclusive
    /// with `clusterName`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd_endpoints: Vec<String>,
    /// Name of an EtcdCluster in the same namespace, instead of `etcdEndpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// Type of the store: S3, ABS, GCS or Local. OSS is rejected; use S3, whose API it implements.
    #[serde(default)]
    pub storage_type: String,
    /// Schedule and retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_policy: Option<BackupPolicy>,
    /// Location of the backup.
    #[serde(flatten)]
    pub stores: Stores,
    /// Secret with `etcd-client.crt`, `etcd-client.key` and `etcd-client-ca.crt` for members with TLS.
    #[serde(default, rename = "clientTLSSecret", skip_serializing_if = "String::is_empty")]
    pub client_tls_secret: String,
    /// Client-side encryption of backups. Default: none; the store may encrypt at rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
}

/// Schedule and retention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupPolicy {
    /// Deadline of a backup in seconds. 0: no deadline; a backup without progress for 60 seconds fails in any case.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeout_in_second: i64,
    /// Seconds between backups; the first one starts immediately. 0: a single backup, or the times of `schedule`.
    #[serde(skip_serializing_if = "is_zero")]
    pub backup_interval_in_second: i64,
    /// Cron schedule in UTC, such as `0 3 * * *`. Mutually exclusive with backupIntervalInSecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Number of retained periodic backups of this object; older ones are deleted. 0: retain all.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_backups: i64,
}

const fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Observed state of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdBackupStatus {
    /// Pending, Running, Succeeded, Retrying (the last attempt failed, the next starts at nextBackup) or Failed
    /// (until the spec changes).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Whether the last attempt succeeded.
    pub succeeded: bool,
    /// Cause of the failure of the last attempt, under the upstream field name.
    #[serde(rename = "Reason", skip_serializing_if = "String::is_empty")]
    pub reason_upstream: String,
    /// Cause of the failure of the last attempt, or the pending prerequisite.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// etcd version of the source member of the last successful backup.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub etcd_version: String,
    /// Minimum revision of the last successful backup.
    #[serde(skip_serializing_if = "is_zero")]
    pub etcd_revision: i64,
    /// Time of the last successful backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_date: Option<Time>,
    /// Generation of the object observed by this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Location of the last successful backup.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// Size of the snapshot in bytes, before encryption.
    #[serde(skip_serializing_if = "is_zero")]
    pub size_bytes: i64,
    /// SHA-256 of its database as computed by etcd and verified against the data read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// ID of the source etcd cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// Name of the encryption key of the last successful backup; it does not reveal the key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub encryption_key: String,
    /// Source member of the last successful backup.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Unusable endpoints, each with its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_endpoints: Vec<String>,
    /// Bytes of the running backup read so far.
    #[serde(skip_serializing_if = "is_zero")]
    pub progress_bytes: i64,
    /// Start time of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,
    /// Scheduled time of the last scheduled backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// Start time of the next backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_backup: Option<Time>,
    /// Number of failed attempts since the last successful one.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// Multipart upload in progress, aborted if the operator instance that started it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<Upload>,
    /// Cause of the failure to delete old backups.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retention_reason: String,
}

/// Multipart upload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Upload {
    /// Key of the object.
    pub key: String,
    /// The store's id of the upload.
    pub id: String,
}

/// The definition of `etcdbackups.etcd.database.coreos.com`.
///
/// # Panics
/// Never: the definition is made from constants, and a test makes it.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut value = serde_json::to_value(EtcdBackup::crd()).expect("a CRD made by kube serializes");
    let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    simplify(schema, 0);
    schema["required"] = json!(["spec"]);
    schema["x-kubernetes-validations"] = rule(&[limits::object_name()]);
    let spec = &mut schema["properties"]["spec"];
    spec["required"] = json!(["storageType"]);
    spec["properties"]["storageType"]["enum"] = json!(["S3", "ABS", "GCS", "OSS", "Local"]);
    spec["properties"]["etcdEndpoints"]["maxItems"] = json!(64);
    spec["properties"]["etcdEndpoints"]["items"]["maxLength"] = json!(1024);
    limits::cluster_reference(&mut spec["properties"]["clusterName"]);
    let policy = &mut spec["properties"]["backupPolicy"];
    for number in ["backupIntervalInSecond", "maxBackups"] {
        policy["properties"][number]["minimum"] = json!(0);
    }
    limits::schedule(&mut policy["properties"]["schedule"], true);
    policy["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.schedule) || !has(self.backupIntervalInSecond) || self.backupIntervalInSecond == 0",
        "message": "schedule and backupIntervalInSecond are mutually exclusive",
    }]);
    stores::bound(spec);
    let mut rules = stores::rules("storageType");
    rules.push(json!({
        "rule": "(has(self.etcdEndpoints) && size(self.etcdEndpoints) > 0) != has(self.clusterName)",
        "message": "spec: expected exactly one source, etcdEndpoints or clusterName",
    }));
    spec["x-kubernetes-validations"] = json!(rules);
    serde_json::from_value(value).expect("a CRD stays one when keywords of its schema are changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_coreos_is_read_and_its_odd_names_are_kept() {
        let backup: EtcdBackup = serde_json::from_value(json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup", "metadata": { "name": "b" },
            "spec": {
                "etcdEndpoints": ["http://example-etcd-cluster-client:2379"], "storageType": "S3", "clientTLSSecret": "tls",
                "backupPolicy": { "timeoutInSecond": 60, "backupIntervalInSecond": 120, "maxBackups": 5 },
                "s3": { "path": "bucket/dir/etcd.backup", "awsSecret": "aws", "endpoint": "http://s3:9000", "forcePathStyle": true },
            },
            "status": { "succeeded": false, "Reason": "old words" },
        }))
        .unwrap();
        let s3 = backup.spec.stores.s3.clone().unwrap();
        assert_eq!((s3.aws_secret.as_str(), s3.force_path_style), ("aws", true));
        assert_eq!(backup.spec.client_tls_secret, "tls");
        let written = serde_json::to_value(&backup).unwrap();
        assert_eq!(written["spec"]["s3"]["path"], "bucket/dir/etcd.backup");
        assert_eq!(written["status"]["Reason"], "old words");
    }

    #[test]
    fn the_schema_is_structural_and_knows_both_reasons() {
        let crd = serde_json::to_value(crd()).unwrap();
        let version = &crd["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"];
        super::super::schema::tests::assert_structural(schema, "");
        assert!(version["subresources"]["status"].is_object());
        let status = &schema["properties"]["status"]["properties"];
        assert!(
            status["Reason"].is_object() && status["reason"].is_object() && status["clusterID"].is_object()
        );
        assert!(schema["properties"]["spec"]["properties"]["abs"]["properties"]["absSecret"].is_object());
    }
}

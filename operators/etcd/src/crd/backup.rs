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

/// The backup that is wanted.
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
    doc = "A snapshot of an etcd cluster, taken once or again and again.",
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
    /// URLs of etcd members or of their Service, such as `http://example-client:2379`. A host without a dot is one of the object's namespace.
    /// All voting members that they lead to are considered. Either this or `clusterName`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd_endpoints: Vec<String>,
    /// Name of an EtcdCluster in the same namespace, instead of `etcdEndpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// S3, ABS, GCS or Local. OSS is refused by name: it speaks the API of S3.
    #[serde(default)]
    pub storage_type: String,
    /// When, and how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_policy: Option<BackupPolicy>,
    /// Where.
    #[serde(flatten)]
    pub stores: Stores,
    /// Secret with `etcd-client.crt`, `etcd-client.key` and `etcd-client-ca.crt` for members that speak TLS.
    #[serde(default, rename = "clientTLSSecret", skip_serializing_if = "String::is_empty")]
    pub client_tls_secret: String,
    /// Encrypt what is stored. Without it the store's own encryption is all there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
}

/// When, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupPolicy {
    /// A backup that is not done in so many seconds has failed. 0: no such bound, but one that stands still for 60 seconds has failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeout_in_second: i64,
    /// Seconds between backups, the first one at once. 0: one backup, or as `schedule` says.
    #[serde(skip_serializing_if = "is_zero")]
    pub backup_interval_in_second: i64,
    /// Times in cron's words and in UTC, such as `0 3 * * *`. Not beside backupIntervalInSecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Periodic backups of this object that are kept; older ones are deleted. 0: all.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_backups: i64,
}

const fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// What is known about a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdBackupStatus {
    /// Pending, Running, Succeeded, Retrying (the last try failed, the next follows at nextBackup) or Failed (until the spec changes).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The last try succeeded.
    pub succeeded: bool,
    /// Why the last try failed, under upstream's name.
    #[serde(rename = "Reason", skip_serializing_if = "String::is_empty")]
    pub reason_upstream: String,
    /// Why the last try failed, or what is waited for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// etcd version of the member that the last good backup is from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub etcd_version: String,
    /// Revision that the last good backup holds at least.
    #[serde(skip_serializing_if = "is_zero")]
    pub etcd_revision: i64,
    /// When the last good backup was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_date: Option<Time>,
    /// Generation of the object that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the last good backup is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// Size of the snapshot in bytes, before encryption.
    #[serde(skip_serializing_if = "is_zero")]
    pub size_bytes: i64,
    /// SHA-256 of its database: etcd's own, compared with what was read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// Id of the etcd cluster it is from.
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// Name of the key that the last good backup is encrypted with; it tells nothing of the key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub encryption_key: String,
    /// The member it was read from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Endpoints that could not be used, each with its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_endpoints: Vec<String>,
    /// Bytes of the running backup that were read so far.
    #[serde(skip_serializing_if = "is_zero")]
    pub progress_bytes: i64,
    /// When the last try began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,
    /// The time of the schedule that was last served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When the next backup begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_backup: Option<Time>,
    /// Tries that failed since the last good one.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// An upload in parts that is under way: taken back when the operator that began it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<Upload>,
    /// Why old backups could not be deleted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retention_reason: String,
}

/// An upload in parts.
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
        "message": "schedule and backupIntervalInSecond exclude each other",
    }]);
    stores::bound(spec);
    let mut rules = stores::rules("storageType");
    rules.push(json!({
        "rule": "(has(self.etcdEndpoints) && size(self.etcdEndpoints) > 0) != has(self.clusterName)",
        "message": "either etcdEndpoints or clusterName must say what is backed up",
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

//! `EtcdRestore`, with the JSON names of coreos/etcd-operator.

// Printer columns of the same type look alike to the lint.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::limits;
use super::schema::{any_object, rule, simplify};
use super::stores::{self, Encryption, Stores};

/// Error for `fromClaim` together with a field of a restore from a backup.
const ONE_SOURCE: &str = "spec.fromClaim: conflicts with the fields of a restore from a backup; remove \
 backupStorageType and its store, clusterTemplate, encryption, allowOtherCluster and skipSafetyBackup";
/// Fields of a restore from a backup, except `backupStorageType`.
const BACKUP_FIELDS: [&str; 9] = [
    "s3",
    "abs",
    "gcs",
    "oss",
    "local",
    "clusterTemplate",
    "encryption",
    "allowOtherCluster",
    "skipSafetyBackup",
];

/// Desired restore.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdRestore",
    plural = "etcdrestores",
    category = "all",
    namespaced,
    status = "EtcdRestoreStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Replaces the data of an etcd cluster with a snapshot or with the data of a surviving member.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.etcdCluster.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Succeeded", type_ = "boolean", json_path = ".status.succeeded"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreSpec {
    /// Target cluster.
    #[serde(default)]
    pub etcd_cluster: ClusterReference,
    /// Type of the store: S3, ABS, GCS or Local. OSS is rejected; use S3, whose API it implements. Required unless
    /// `fromClaim` is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub backup_storage_type: String,
    /// Name of a PersistentVolumeClaim of the cluster in the same namespace, used instead of a snapshot: the claim of
    /// a member that survived the quorum loss. Its data is copied; the claim is mounted read-only and is not deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_claim: Option<String>,
    /// Location of the snapshot.
    #[serde(flatten)]
    pub stores: Stores,
    /// Spec of the EtcdCluster to create if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub cluster_template: Option<Value>,
    /// Accept a snapshot whose cluster ID is neither the current nor a former ID of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_other_cluster: Option<bool>,
    /// Keys of an encrypted snapshot; the safety backup is encrypted too. If set, an unencrypted snapshot
    /// is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Skip the safety backup of the data to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_safety_backup: Option<bool>,
}

/// Target cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClusterReference {
    /// Name of the EtcdCluster, in the same namespace.
    pub name: String,
}

impl EtcdRestoreSpec {
    /// The claim to restore from, if the source is one.
    /// An error where two sources are given, or the name is empty.
    pub(crate) fn source_claim(&self) -> Result<Option<&str>, String> {
        let Some(claim) = self.from_claim.as_deref() else { return Ok(None) };
        let backup = self.stores != Stores::default()
            || !self.backup_storage_type.is_empty()
            || self.cluster_template.is_some()
            || self.encryption.is_some()
            || self.allow_other_cluster.is_some()
            || self.skip_safety_backup.is_some();
        match claim {
            _ if backup => Err(ONE_SOURCE.to_owned()),
            "" => Err("spec.fromClaim: empty, expected the name of a PersistentVolumeClaim".to_owned()),
            claim => Ok(Some(claim)),
        }
    }
}

/// Observed state of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdRestoreStatus {
    /// Pending, Downloading, Verified, Stopping, Seeding, Scaling, Succeeded or Failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Whether all members are healthy and the data is readable.
    pub succeeded: bool,
    /// Pending prerequisite, or the cause of the failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Generation of the object observed by this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The snapshot, after its verification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotStatus>,
    /// The claim of `spec.fromClaim`, recorded before any change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimStatus>,
    /// Location of the safety backup of the previous data, or the reason for its absence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub safety_backup: String,
    /// UID of the EtcdCluster being restored; a later EtcdCluster of the same name is a different cluster.
    #[serde(rename = "clusterUID", skip_serializing_if = "String::is_empty")]
    pub cluster_uid: String,
    /// ID of the etcd cluster before the restore.
    #[serde(rename = "formerClusterID", skip_serializing_if = "String::is_empty")]
    pub former_cluster_id: String,
    /// Name of the first member of the new etcd cluster, recorded before its pod is created.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub seed_member: String,
    /// ID of the new etcd cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// Revision read from the restored cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_revision: Option<i64>,
    /// Start time of the restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Completion time of the restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Multipart upload of the safety backup in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<super::backup::Upload>,
}

/// A verified snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotStatus {
    /// Size in bytes.
    pub size_bytes: i64,
    /// SHA-256 of its database.
    pub sha256: String,
    /// Minimum revision of the snapshot; absent if the backup does not record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Source etcd version; empty if the backup does not record it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub etcd_version: String,
    /// ID of the source etcd cluster; empty if the backup does not record it.
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
}

/// Source claim of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// Name.
    pub name: String,
    /// UID; a later claim of the same name is not used.
    pub uid: String,
    /// Latest revision of its data, known after etcd starts from a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// The definition of `etcdrestores.etcd.database.coreos.com`.
///
/// # Panics
/// Never: the definition is made from constants, and a test makes it.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut value = serde_json::to_value(EtcdRestore::crd()).expect("a CRD made by kube serializes");
    let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    simplify(schema, 0);
    schema["required"] = json!(["spec"]);
    schema["x-kubernetes-validations"] = rule(&[limits::object_name()]);
    let spec = &mut schema["properties"]["spec"];
    spec["required"] = json!(["etcdCluster"]);
    spec["properties"]["backupStorageType"]["enum"] = json!(["S3", "ABS", "GCS", "OSS", "Local"]);
    let cluster = &mut spec["properties"]["etcdCluster"];
    cluster["required"] = json!(["name"]);
    limits::cluster_reference(&mut cluster["properties"]["name"]);
    stores::bound(spec);
    limits::claim_reference(&mut spec["properties"]["fromClaim"]);
    let mut rules = stores::rules("backupStorageType");
    for rule in &mut rules {
        let unless = format!("!has(self.backupStorageType) || {}", rule["rule"].as_str().unwrap_or_default());
        rule["rule"] = unless.into();
    }
    rules.push(json!({
        "rule": "has(self.backupStorageType) != has(self.fromClaim)",
        "message": "spec: expected exactly one source, backupStorageType or fromClaim",
    }));
    let others: Vec<String> = BACKUP_FIELDS.iter().map(|field| format!("has(self.{field})")).collect();
    rules.push(json!({
        "rule": format!("!has(self.fromClaim) || !({})", others.join(" || ")),
        "message": ONE_SOURCE,
    }));
    rules.push(json!({
        "rule": "self == oldSelf",
        "message": "spec is immutable; create another EtcdRestore",
    }));
    spec["x-kubernetes-validations"] = json!(rules);
    serde_json::from_value(value).expect("a CRD stays one when keywords of its schema are changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_coreos_is_read() {
        let restore: EtcdRestore = serde_json::from_value(json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore", "metadata": { "name": "example-etcd-cluster" },
            "spec": { "etcdCluster": { "name": "example-etcd-cluster" }, "backupStorageType": "S3",
                      "s3": { "path": "bucket/etcd.backup", "awsSecret": "aws", "endpoint": "", "forcePathStyle": false } },
        }))
        .unwrap();
        assert_eq!(restore.spec.etcd_cluster.name, "example-etcd-cluster");
        assert_eq!(restore.spec.stores.s3.unwrap().path, "bucket/etcd.backup");
    }

    #[test]
    fn a_claim_is_a_source_of_its_own() {
        let spec = |more: Value| -> EtcdRestoreSpec {
            let mut spec = json!({ "etcdCluster": { "name": "orders" }, "fromClaim": "orders-bcdfghjklm" });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(spec).unwrap()
        };
        assert_eq!(spec(json!({})).source_claim(), Ok(Some("orders-bcdfghjklm")));
        assert_eq!(EtcdRestoreSpec::default().source_claim(), Ok(None));
        assert!(spec(json!({ "fromClaim": "" })).source_claim().unwrap_err().starts_with("spec.fromClaim"));
        for (field, value) in BACKUP_FIELDS.iter().map(|field| (*field, json!({}))) {
            let value =
                if field.starts_with("allow") || field.starts_with("skip") { json!(true) } else { value };
            let refused = spec(json!({ field: value })).source_claim().unwrap_err();
            assert!(refused.starts_with("spec.fromClaim"), "{field}: {refused}");
        }
        let refused = spec(json!({ "backupStorageType": "S3" })).source_claim().unwrap_err();
        assert!(refused.starts_with("spec.fromClaim"), "{refused}");
    }

    #[test]
    fn the_schema_is_structural_and_the_spec_cannot_be_changed() {
        let crd = serde_json::to_value(crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        super::super::schema::tests::assert_structural(schema, "");
        let rules = schema["properties"]["spec"]["x-kubernetes-validations"].as_array().unwrap();
        assert!(rules.iter().any(|rule| rule["rule"] == "self == oldSelf"));
    }
}

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

/// The restore that is wanted.
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
    doc = "Puts a snapshot into an etcd cluster, in place of what the cluster holds.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.etcdCluster.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Succeeded", type_ = "boolean", json_path = ".status.succeeded"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreSpec {
    /// The cluster that gets the data.
    #[serde(default)]
    pub etcd_cluster: ClusterReference,
    /// S3, ABS, GCS or Local. OSS is refused by name: it speaks the API of S3.
    #[serde(default)]
    pub backup_storage_type: String,
    /// Where the snapshot is.
    #[serde(flatten)]
    pub stores: Stores,
    /// Spec of the EtcdCluster that is created when there is none of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub cluster_template: Option<Value>,
    /// Take a snapshot whose cluster id is not one that this cluster has or had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_other_cluster: Option<bool>,
    /// The keys of a snapshot that is encrypted; what is backed up before the restore is encrypted too. With it, a snapshot that is
    /// not encrypted is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Do not back up what the cluster holds before it is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_safety_backup: Option<bool>,
}

/// The cluster that gets the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClusterReference {
    /// Name of the EtcdCluster, in the same namespace.
    pub name: String,
}

/// What is known about a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdRestoreStatus {
    /// Pending, Downloading, Verified, Stopping, Seeding, Scaling, Succeeded or Failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// All members are healthy and the data is readable.
    pub succeeded: bool,
    /// What is waited for, or why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Generation of the object that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The snapshot, once it was read whole and found good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotStatus>,
    /// Where the data that the cluster held before was backed up, or why it was not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub safety_backup: String,
    /// Uid of the EtcdCluster that is being restored: another one of the same name is another one.
    #[serde(rename = "clusterUID", skip_serializing_if = "String::is_empty")]
    pub cluster_uid: String,
    /// Id of the etcd cluster before.
    #[serde(rename = "formerClusterID", skip_serializing_if = "String::is_empty")]
    pub former_cluster_id: String,
    /// Name of the first member of the new etcd cluster, written before its pod is made.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub seed_member: String,
    /// Id of the new etcd cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// Revision that was read from the restored cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_revision: Option<i64>,
    /// When the work began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// An upload in parts of the safety backup that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<super::backup::Upload>,
}

/// A snapshot that was read whole and found good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotStatus {
    /// Size in bytes.
    pub size_bytes: i64,
    /// SHA-256 of its database.
    pub sha256: String,
    /// Revision that it holds at least; none when the backup does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// etcd version it is from; empty when the backup does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub etcd_version: String,
    /// Id of the etcd cluster it is from; empty when the backup does not say.
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
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
    spec["required"] = json!(["etcdCluster", "backupStorageType"]);
    spec["properties"]["backupStorageType"]["enum"] = json!(["S3", "ABS", "GCS", "OSS", "Local"]);
    let cluster = &mut spec["properties"]["etcdCluster"];
    cluster["required"] = json!(["name"]);
    limits::cluster_reference(&mut cluster["properties"]["name"]);
    stores::bound(spec);
    let mut rules = stores::rules("backupStorageType");
    rules.push(json!({
        "rule": "self == oldSelf",
        "message": "a restore is done once, as it was written; create another EtcdRestore",
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
    fn the_schema_is_structural_and_the_spec_cannot_be_changed() {
        let crd = serde_json::to_value(crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        super::super::schema::tests::assert_structural(schema, "");
        let rules = schema["properties"]["spec"]["x-kubernetes-validations"].as_array().unwrap();
        assert!(rules.iter().any(|rule| rule["rule"] == "self == oldSelf"));
    }
}

//! Where snapshots are kept: the part of `EtcdBackup` and `EtcdRestore` that is the same, under upstream's names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The stores, by `storageType`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stores {
    /// S3 and S3-compatible stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,
    /// Azure Blob Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abs: Option<Abs>,
    /// Google Cloud Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcs: Option<Gcs>,
    /// Alibaba Cloud OSS. Not supported under this name; OSS implements the S3 API: use storageType S3 with its
    /// endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oss: Option<Oss>,
    /// A directory mounted into the operator (flag --backup-dir).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<Local>,
}

/// S3 and S3-compatible stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct S3 {
    /// Bucket, a slash and the key: `<bucket>/<key>`.
    pub path: String,
    /// Secret with the files `credentials` and `config` (profile default) of the AWS tools, and `ca.crt` for an
    /// endpoint with a private certificate authority. Default: environment, web identity or the role of the node, in
    /// this order.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub aws_secret: String,
    /// URL of the server; empty for AWS.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Use path-style URLs: the bucket in the path instead of the host name.
    pub force_path_style: bool,
}

/// Azure Blob Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Abs {
    /// Container, a slash and the name: `<container>/<name>`.
    pub path: String,
    /// Secret with `storage-account`, `storage-key` and, unless it is AzurePublicCloud, `cloud`.
    pub abs_secret: String,
    /// URL of the account (`https://<account>.blob.example.org`) outside of the Azure clouds; empty for the Azure
    /// clouds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
}

/// Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Gcs {
    /// Bucket, a slash and the name: `<bucket>/<name>`.
    pub path: String,
    /// Secret with `credentials.json` or `access-token`. Default: the credentials of the environment.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gcp_secret: String,
    /// URL of the server; empty for Google Cloud.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
}

/// Alibaba Cloud OSS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Oss {
    /// Bucket, a slash and the key.
    pub path: String,
    /// Secret with `accessKeyID` and `accessKeySecret`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oss_secret: String,
    /// URL of the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
}

/// A directory mounted into the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Local {
    /// `<directory>/<file>`, below the backup directory of the operator for the namespace of the object.
    pub path: String,
}

/// Encryption of backups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Encryption {
    /// Secret with one or more keys of 32 bytes, raw or in base64.
    pub secret: String,
    /// Entry of the Secret used for encryption. Default: `key`. Other entries decrypt older backups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Bounds of the stores that a type cannot express.
pub(super) fn bound(spec: &mut Value) {
    let properties = &mut spec["properties"];
    for store in ["s3", "abs", "gcs", "oss", "local"] {
        properties[store]["required"] = json!(["path"]);
        let path = &mut properties[store]["properties"]["path"];
        path["pattern"] = json!("^[^/]+/.*[^/]$");
        path["maxLength"] = json!(900);
    }
    let encryption = &mut properties["encryption"];
    encryption["required"] = json!(["secret"]);
    for text in ["secret", "key"] {
        encryption["properties"][text]["minLength"] = json!(1);
        encryption["properties"][text]["maxLength"] = json!(253);
    }
}

/// Rules in CEL: the block of the chosen store is there.
pub(super) fn rules(field: &str) -> Vec<Value> {
    [("S3", "s3"), ("ABS", "abs"), ("GCS", "gcs"), ("OSS", "oss"), ("Local", "local")]
        .iter()
        .map(|(kind, block)| {
            json!({
                "rule": format!("self.{field} != '{kind}' || has(self.{block})"),
                "message": format!("spec.{block}: missing, required when spec.{field} is {kind}"),
            })
        })
        .collect()
}

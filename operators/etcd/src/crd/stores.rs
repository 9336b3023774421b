//! Where snapshots are kept: the part of `EtcdBackup` and `EtcdRestore` that is the same, under upstream's names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The stores, by `storageType`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stores {
    /// S3 and what speaks its API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,
    /// Azure Blob Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abs: Option<Abs>,
    /// Google Cloud Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcs: Option<Gcs>,
    /// Alibaba Cloud OSS. Not served under this name: OSS speaks the API of S3, use storageType S3 with its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oss: Option<Oss>,
    /// A folder that is mounted into the operator (flag --backup-dir).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<Local>,
}

/// S3 and what speaks its API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct S3 {
    /// Bucket, a slash and the key: `<bucket>/<key>`.
    pub path: String,
    /// Secret with the files `credentials` and `config` (profile default) of the AWS tools, and `ca.crt` where the endpoint's
    /// authority is not a public one. Without it: environment, web identity or the node's role, in this order.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub aws_secret: String,
    /// URL of the server; empty for AWS.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// The bucket in the path of URLs, not in their host.
    pub force_path_style: bool,
}

/// Azure Blob Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Abs {
    /// Container, a slash and the name: `<container>/<name>`.
    pub path: String,
    /// Secret with `storage-account`, `storage-key` and, where it is not AzurePublicCloud, `cloud`.
    pub abs_secret: String,
    /// URL of the account (`https://<account>.blob.example.org`) where it is in none of Azure's clouds; empty for those.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
}

/// Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Gcs {
    /// Bucket, a slash and the name: `<bucket>/<name>`.
    pub path: String,
    /// Secret with `credentials.json` or `access-token`. Without it: the environment's credentials.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gcp_secret: String,
    /// URL of the server; empty for Google's.
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

/// A folder that is mounted into the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Local {
    /// Folder, a slash and the file: `<folder>/<file>`, below the operator's folder for the namespace of the object.
    pub path: String,
}

/// Encryption of what is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Encryption {
    /// Secret with one or more keys of 32 bytes, raw or in base64.
    pub secret: String,
    /// The entry of the Secret to encrypt with; `key` where none is named. The other entries are for reading what was encrypted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Bounds of the stores that a type cannot say.
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
                "message": format!("spec.{block} must say where, since spec.{field} is {kind}"),
            })
        })
        .collect()
}

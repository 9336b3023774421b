//! Sources of certificates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AutoTls;

/// Source of certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TlsPolicy {
    /// Externally issued certificates in Secrets.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticTls>,
    /// Certificates issued and renewed by the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoTls>,
}

/// Names of Secrets with certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticTls {
    /// Secrets of the members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberSecrets>,
    /// Secret with the client certificate of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_secret: Option<String>,
}

/// Secrets of the members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberSecrets {
    /// Peer certificate, used between members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_secret: Option<String>,
    /// Server certificate, used towards clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_secret: Option<String>,
}

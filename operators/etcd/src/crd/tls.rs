//! Where certificates come from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AutoTls;

/// Where certificates come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TlsPolicy {
    /// Certificates that somebody else issues, in Secrets.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticTls>,
    /// Certificates that the operator issues and renews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoTls>,
}

/// Names of the Secrets that hold certificates.
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
    /// Certificates between members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_secret: Option<String>,
    /// Certificates towards clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_secret: Option<String>,
}

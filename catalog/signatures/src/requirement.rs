//! Who must have signed an image.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An accepted signer: a key or an identity. Exactly one of `key` and `identity` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Public key in PEM (`-----BEGIN PUBLIC KEY-----`): ECDSA P-256 or P-384, Ed25519, or RSA with 2048 to 8192 bits.
    /// `cosign generate-key-pair` writes one to `cosign.pub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Identity in the signing certificate, issued by a certificate authority of the trusted root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Content of a Sigstore `trusted_root.json`: the certificate authorities, logs and timestamp authorities to trust.
    /// Where it lists transparency logs, an entry of one of them is required. Defaults to the public Sigstore instance
    /// for `identity`, and to no log for `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_root: Option<String>,
}

/// Identity of a signer, as its certificate has it. One of `subject` and `subjectRegexp`, and one of `issuer` and
/// `issuerRegexp` are required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// OpenID Connect issuer that authenticated the signer, such as `https://token.actions.githubusercontent.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Regular expression that the whole issuer matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_regexp: Option<String>,
    /// Email address or URI of the signer, such as
    /// `https://github.com/ORG/REPO/.github/workflows/release.yml@refs/heads/main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Regular expression that the whole subject matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_regexp: Option<String>,
}

//! A parsed requirement, ready to be compared with signatures.

use regex::{Regex, RegexBuilder};
use sigstore_verify::{
    SubjectAltName, Verifier as Sigstore,
    crypto::{KeyAlgorithm, VerificationKey, sha256},
    trust_root::{SigstoreInstance, TrustedRoot},
    types::DerPublicKey,
};

use crate::{Identity, Requirement, provider};

/// Maximum size of a trusted root. That of the public instance has 12 KiB.
const MOST_ROOT_BYTES: usize = 1 << 20;
/// Maximum size of a key or a pattern.
const MOST_TEXT_BYTES: usize = 16 << 10;
/// Maximum size of a compiled pattern.
const MOST_PATTERN_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidRequirement {
    pub field: &'static str,
    /// What is wrong, and what is expected.
    pub reason: String,
}

fn invalid<T>(field: &'static str, reason: impl Into<String>) -> Result<T, InvalidRequirement> {
    Err(InvalidRequirement { field, reason: reason.into() })
}

/// The required signer.
#[derive(Debug)]
pub(crate) enum RequiredSigner {
    Key(Key),
    Identity { issuer: Match, subject: Match },
}

#[derive(Debug)]
pub(crate) struct Key {
    pub der: DerPublicKey,
    pub algorithm: KeyAlgorithm,
    /// `sha256:…` of the key's DER.
    pub fingerprint: String,
    /// The fingerprint in the format of bundles.
    pub hint: String,
}

/// The trusted authorities.
pub(crate) struct Trust {
    pub sigstore: Sigstore,
    /// Whether there are transparency logs, so that an entry is required.
    pub logs: bool,
    /// Whether there are certificate transparency logs, so that a proof is required.
    pub certificate_logs: bool,
}

impl RequiredSigner {
    pub fn read(requirement: &Requirement) -> Result<Self, InvalidRequirement> {
        match (&requirement.key, &requirement.identity) {
            (Some(key), None) => Key::read(key).map(Self::Key),
            (None, Some(identity)) => {
                let Identity { issuer, issuer_regexp, subject, subject_regexp } = identity;
                Ok(Self::Identity {
                    issuer: Match::read(
                        ["identity.issuer", "identity.issuerRegexp"],
                        issuer.as_deref(),
                        issuer_regexp.as_deref(),
                    )?,
                    subject: Match::read(
                        ["identity.subject", "identity.subjectRegexp"],
                        subject.as_deref(),
                        subject_regexp.as_deref(),
                    )?,
                })
            }
            (None, None) => invalid("key", "expected a key or an identity"),
            (Some(_), Some(_)) => invalid("key", "expected a key or an identity, not both"),
        }
    }
}

impl Key {
    fn read(pem: &str) -> Result<Self, InvalidRequirement> {
        const FIELD: &str = "key";
        const EXPECTED: &str = "expected a PEM public key, starting with -----BEGIN PUBLIC KEY-----";
        if pem.len() > MOST_TEXT_BYTES {
            return invalid(FIELD, format!("longer than {MOST_TEXT_BYTES} bytes, {EXPECTED}"));
        }
        if pem.contains("PRIVATE KEY") {
            return invalid(FIELD, format!("found a private key, which must stay secret; {EXPECTED}"));
        }
        let Ok(der) = DerPublicKey::from_pem(pem) else { return invalid(FIELD, EXPECTED) };
        let usable = VerificationKey::from_spki(&der).and_then(|_| KeyAlgorithm::from_spki(&der));
        let algorithm = match usable {
            Ok(
                algorithm @ (KeyAlgorithm::EcdsaP256
                | KeyAlgorithm::EcdsaP384
                | KeyAlgorithm::Ed25519
                | KeyAlgorithm::Rsa),
            ) => algorithm,
            _ => {
                let supported = "ECDSA P-256, ECDSA P-384, Ed25519 or RSA with 2048 to 8192 bits";
                return invalid(FIELD, format!("unsupported key type, expected {supported}"));
            }
        };
        let fingerprint = sha256(der.as_bytes());
        Ok(Self {
            algorithm,
            fingerprint: format!("sha256:{}", fingerprint.to_hex()),
            hint: fingerprint.to_base64(),
            der,
        })
    }
}

/// A text that must match as a whole.
#[derive(Debug)]
pub(crate) enum Match {
    Exact(String),
    Pattern { regex: Regex, text: String },
}

impl Match {
    fn read(
        fields: [&'static str; 2],
        exact: Option<&str>,
        pattern: Option<&str>,
    ) -> Result<Self, InvalidRequirement> {
        let [field, pattern_field] = fields;
        match (exact, pattern) {
            (Some(text), None) if text.trim().is_empty() => {
                invalid(field, "empty, expected a string to match")
            }
            (Some(text), None) => Ok(Self::Exact(text.to_owned())),
            (None, Some(text)) => Self::pattern(pattern_field, text),
            (None, None) => invalid(field, format!("missing, expected this field or {pattern_field}")),
            (Some(_), Some(_)) => invalid(field, format!("expected this field or {pattern_field}, not both")),
        }
    }

    fn pattern(field: &'static str, text: &str) -> Result<Self, InvalidRequirement> {
        if text.len() > MOST_TEXT_BYTES {
            return invalid(field, format!("longer than {MOST_TEXT_BYTES} bytes"));
        }
        let compile = |text: &str| RegexBuilder::new(text).size_limit(MOST_PATTERN_BYTES).build();
        // Compiled alone first: `a)|(?:b` would escape from the group that anchors it.
        let regex = compile(text).and_then(|_| compile(&format!("^(?:{text})$")));
        match regex {
            Ok(regex) if regex.is_match("") => {
                invalid(field, "matches the empty string, expected a more specific pattern")
            }
            Ok(regex) => Ok(Self::Pattern { regex, text: text.to_owned() }),
            Err(error) => {
                let error = error.to_string();
                let last = error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
                invalid(field, format!("not a regular expression: {last}"))
            }
        }
    }

    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == text,
            Self::Pattern { regex, .. } => regex.is_match(text),
        }
    }

    pub fn shown(&self) -> String {
        match self {
            Self::Exact(text) => text.clone(),
            Self::Pattern { text, .. } => format!("/{text}/"),
        }
    }
}

/// The subject of a certificate, unless a name of one kind is in the field of another.
pub(crate) fn subject(name: &SubjectAltName) -> Option<&str> {
    match name {
        SubjectAltName::Email(name) if name.contains('@') && !name.contains("://") => Some(name),
        SubjectAltName::Uri(name) if name.contains("://") => Some(name),
        _ => None,
    }
}

impl Trust {
    /// The trusted root of a requirement, or its default.
    pub fn read(requirement: &Requirement) -> Result<Option<Self>, InvalidRequirement> {
        const FIELD: &str = "trustedRoot";
        provider::install();
        let root = match &requirement.trusted_root {
            Some(text) if text.len() > MOST_ROOT_BYTES => {
                return invalid(FIELD, format!("longer than {MOST_ROOT_BYTES} bytes"));
            }
            Some(text) => TrustedRoot::from_json(text),
            None if requirement.identity.is_some() => {
                TrustedRoot::from_embedded(SigstoreInstance::PublicGood)
            }
            None => return Ok(None),
        };
        let root = match root {
            Ok(root) => root,
            Err(error) => {
                return invalid(
                    FIELD,
                    format!("expected the content of a Sigstore trusted_root.json: {error}"),
                );
            }
        };
        let (logs, certificate_logs) = (!root.tlogs.is_empty(), !root.ctlogs.is_empty());
        if requirement.identity.is_some() && root.certificate_authorities.is_empty() {
            return invalid(FIELD, "no certificate authority, expected one for an identity");
        }
        if requirement.identity.is_some() && !logs && root.timestamp_authorities.is_empty() {
            let reason = "no transparency log and no timestamp authority, expected one for an identity";
            return invalid(FIELD, reason);
        }
        if requirement.key.is_some() && !logs {
            return invalid(
                FIELD,
                "no transparency log, expected one; omit this field to verify only the key",
            );
        }
        match Sigstore::new(&root) {
            Ok(sigstore) => Ok(Some(Self { sigstore, logs, certificate_logs })),
            Err(error) => invalid(FIELD, format!("invalid: {error}")),
        }
    }
}

//! Why an image does not count as signed, with messages for users.

use std::fmt;

use serde::Serialize;

use crate::Format;

/// Why a signature does not count. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum Reason {
    NotSigned,
    /// The image has an attestation, which is a statement about it and not its signature.
    NotASignature,
    /// Made with another key, or changed since.
    WrongKey,
    /// Made by another subject.
    WrongIdentity,
    /// The subject was authenticated by another issuer.
    WrongIssuer,
    /// A valid signature of another image.
    OtherImage,
    /// The certificate was not valid when the signature was made.
    CertificateNotValid,
    /// The certificate is not from an authority of the trusted root, or not for code signing.
    CertificateNotTrusted,
    /// No log or timestamp authority of the trusted root proves when the signature was made.
    LogEntryMissing,
    /// The log entry, its proof or the timestamp is wrong.
    LogEntryInvalid,
    /// The signature does not match the signed content.
    SignatureInvalid,
    /// Not in the expected format, or too large.
    Malformed,
    /// In an unsupported format, or by an unsupported algorithm.
    Unsupported,
}

impl Reason {
    /// The name, for conditions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSigned => "NotSigned",
            Self::NotASignature => "NotASignature",
            Self::WrongKey => "WrongKey",
            Self::WrongIdentity => "WrongIdentity",
            Self::WrongIssuer => "WrongIssuer",
            Self::OtherImage => "OtherImage",
            Self::CertificateNotValid => "CertificateNotValid",
            Self::CertificateNotTrusted => "CertificateNotTrusted",
            Self::LogEntryMissing => "LogEntryMissing",
            Self::LogEntryInvalid => "LogEntryInvalid",
            Self::SignatureInvalid => "SignatureInvalid",
            Self::Malformed => "Malformed",
            Self::Unsupported => "Unsupported",
        }
    }

    /// A hint for users.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::NotSigned => {
                "sign the image with `cosign sign IMAGE@DIGEST`; for a mirrored image, also copy its \
                 signatures"
            }
            Self::NotASignature => "sign the image with `cosign sign IMAGE@DIGEST`",
            Self::WrongKey => "compare the public key with that of the image's publisher",
            Self::WrongIdentity => {
                "compare the required subject with the one above; forks and other workflows have different \
                 subjects"
            }
            Self::WrongIssuer => "compare the required issuer with the one above",
            Self::OtherImage => {
                "do not use the image: its signature belongs to other content; request a signature from \
                 its publisher"
            }
            Self::CertificateNotValid => {
                "sign the image again: the certificate must be valid at the time of the log entry"
            }
            Self::CertificateNotTrusted => "use the current trusted root of the signing Sigstore instance",
            Self::LogEntryMissing => {
                "sign with a transparency log, or use a trusted root without logs for a Sigstore instance \
                 without a log"
            }
            Self::LogEntryInvalid => {
                "use a trusted root with the log and the timestamp authority of the signature"
            }
            Self::SignatureInvalid | Self::Malformed => {
                "do not use the image: its signature is corrupted or modified; request a new signature \
                 from its publisher"
            }
            Self::Unsupported => "sign with an ECDSA P-256 key (`cosign generate-key-pair`)",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub format: Format,
    /// Machine-readable.
    pub reason: Reason,
    /// For users.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(format: Format, reason: Reason, message: impl fmt::Display) -> Self {
        // Untrusted content is quoted, truncated to fit a status.
        let mut message = message.to_string();
        if let Some((at, _)) = message.char_indices().nth(MOST_CHARACTERS) {
            message.truncate(at);
            message.push('…');
        }
        Self { format, reason, message }
    }
}

const MOST_CHARACTERS: usize = 500;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct NotVerified {
    /// Of several rejected signatures, the reason of the one that came closest.
    pub reason: Reason,
    /// The same for users.
    pub message: String,
    /// Each signature in the order of discovery.
    pub refusals: Vec<Refusal>,
}

impl NotVerified {
    pub(crate) fn of(refusals: Vec<Refusal>) -> Self {
        // The first of equal ones.
        let closest = refusals.iter().rev().max_by_key(|refusal| closeness(refusal.reason));
        let (reason, message) = match closest {
            None => (Reason::NotSigned, "not signed: no signature found".to_owned()),
            Some(only) if refusals.len() == 1 => (only.reason, only.message.clone()),
            Some(closest) => (
                closest.reason,
                format!("none of {} signatures meets the requirement: {}", refusals.len(), closest.message),
            ),
        };
        Self { reason, message, refusals }
    }
}

/// How far verification came.
fn closeness(reason: Reason) -> u8 {
    match reason {
        Reason::NotSigned => 0,
        Reason::NotASignature => 1,
        Reason::Malformed | Reason::Unsupported => 2,
        Reason::WrongKey => 3,
        Reason::SignatureInvalid => 4,
        Reason::OtherImage => 5,
        Reason::CertificateNotTrusted => 6,
        Reason::LogEntryMissing | Reason::LogEntryInvalid => 7,
        Reason::CertificateNotValid => 8,
        Reason::WrongIssuer => 9,
        Reason::WrongIdentity => 10,
    }
}

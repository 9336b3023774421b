//! Why an image does not count as signed, in words that a person can act on.

use std::fmt;

use serde::Serialize;

use crate::Format;

/// Why a signature does not count. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum Reason {
    /// The image has no signature.
    NotSigned,
    /// What is attached to the image is an attestation, which states something about it and is not its signature.
    NotASignature,
    /// Made with another key, or changed since.
    WrongKey,
    /// Made by another subject.
    WrongIdentity,
    /// Made by a subject that another issuer authenticated.
    WrongIssuer,
    /// A valid signature of another image.
    OtherImage,
    /// The certificate was not valid when the signature was made.
    CertificateNotValid,
    /// The certificate is not from an authority of the trusted root, or not for signing code.
    CertificateNotTrusted,
    /// No log or timestamp authority of the trusted root proves when the signature was made.
    LogEntryMissing,
    /// The log entry, its proof or the timestamp is wrong.
    LogEntryInvalid,
    /// The signature does not fit what is signed.
    SignatureInvalid,
    /// Not in the format that it should have, or too large.
    Malformed,
    /// In a format, or by an algorithm, that is not verified here.
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

    /// What a user can do.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::NotSigned => {
                "sign the image with `cosign sign IMAGE@DIGEST`; for a mirrored image, copy its signatures as well"
            }
            Self::NotASignature => "sign the image with `cosign sign IMAGE@DIGEST`",
            Self::WrongKey => "check that the public key is that of the image's publisher",
            Self::WrongIdentity => {
                "check the required subject against the one above; a fork or another workflow has another one"
            }
            Self::WrongIssuer => "check the required issuer against the one above",
            Self::OtherImage => {
                "do not use the image: its signature was made for other content; ask its publisher for a signature"
            }
            Self::CertificateNotValid => {
                "sign the image again: the certificate must be valid when the log records it"
            }
            Self::CertificateNotTrusted => {
                "check that the trusted root is that of the Sigstore instance that signed, and that it is up to date"
            }
            Self::LogEntryMissing => {
                "sign with a transparency log, or require a trusted root that lists none if yours has no log"
            }
            Self::LogEntryInvalid => {
                "check that the trusted root lists the log and the timestamp authority that were used to sign"
            }
            Self::SignatureInvalid | Self::Malformed => {
                "do not use the image: its signature was damaged or changed; ask its publisher to sign again"
            }
            Self::Unsupported => "sign with an ECDSA P-256 key, which `cosign generate-key-pair` makes",
        }
    }
}

/// One signature that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The format that it is in.
    pub format: Format,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(format: Format, reason: Reason, message: impl fmt::Display) -> Self {
        // What strangers wrote is quoted; no more of it than fits a status.
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

/// An image that is not signed as it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct NotVerified {
    /// Why: of several signatures that do not count, the reason of the one that came closest.
    pub reason: Reason,
    /// The same for people.
    pub message: String,
    /// Each signature that was found, in the order in which it was.
    pub refusals: Vec<Refusal>,
}

impl NotVerified {
    pub(crate) fn of(refusals: Vec<Refusal>) -> Self {
        // Of equal ones the first.
        let closest = refusals.iter().rev().max_by_key(|refusal| closeness(refusal.reason));
        let (reason, message) = match closest {
            None => (Reason::NotSigned, "not signed: no signature was found".to_owned()),
            Some(only) if refusals.len() == 1 => (only.reason, only.message.clone()),
            Some(closest) => {
                (closest.reason, format!("none of {} signatures counts: {}", refusals.len(), closest.message))
            }
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

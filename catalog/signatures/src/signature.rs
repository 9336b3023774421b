//! Signatures as registries have them.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

/// Signatures of one image that are looked at. Images have one or a few.
pub const MOST_SIGNATURES: usize = 64;

/// Bytes of one signature that are looked at. Real ones have 1 to 10 KiB.
pub const MOST_BYTES: usize = 1 << 20;

/// The two formats of cosign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Format {
    /// Simple signing, below the tag `sha256-….sig`: up to cosign 2.
    SimpleSigning,
    /// Sigstore bundle, as a referrer of the image: since cosign 3.
    Bundle,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SimpleSigning => "simple signing",
            Self::Bundle => "bundle",
        })
    }
}

/// One signature that a registry has for an image; nothing of it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// A layer of the image with the tag `sha256-….sig`.
    Simple {
        /// What is signed: the content of the layer.
        payload: Vec<u8>,
        /// The annotations of the layer: the signature itself, and the certificate and the log entry where it has them.
        annotations: BTreeMap<String, String>,
    },
    /// A Sigstore bundle.
    Bundle {
        /// The bundle.
        json: Vec<u8>,
    },
}

impl Signature {
    /// The format that it is in.
    #[must_use]
    pub fn format(&self) -> Format {
        match self {
            Self::Simple { .. } => Format::SimpleSigning,
            Self::Bundle { .. } => Format::Bundle,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Simple { payload, annotations } => {
                annotations.iter().fold(payload.len(), |sum, (key, value)| sum + key.len() + value.len())
            }
            Self::Bundle { json } => json.len(),
        }
    }
}

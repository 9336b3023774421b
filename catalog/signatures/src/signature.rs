//! Signatures as stored in registries.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// Maximum number of signatures of one image that are read. Images have one or a few.
pub const MOST_SIGNATURES: usize = 64;

/// Maximum size of one signature. Real ones have 1 to 10 KiB.
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

/// An unverified signature of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signature {
    /// A layer of the image with the tag `sha256-….sig`.
    Simple {
        /// The signed content of the layer.
        #[serde(with = "base64_text")]
        payload: Vec<u8>,
        /// The annotations of the layer: the signature, and optionally the certificate and the log entry.
        annotations: BTreeMap<String, String>,
    },
    Bundle {
        #[serde(with = "base64_text")]
        json: Vec<u8>,
    },
}

impl Signature {
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

/// Bytes as base64 in JSON.
mod base64_text {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        BASE64_STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

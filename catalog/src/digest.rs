//! The digest of a catalog's content.

use sha2::{Digest, Sha256};

use crate::model::StoredDocument;

/// `sha256:…` over the documents in their fixed order. File names, the order of files and documents,
/// formatting, key order, and YAML or JSON do not change it.
pub(crate) fn of(documents: &[StoredDocument]) -> String {
    let mut hasher = Sha256::new();
    for document in documents {
        hasher.update(document.json.as_bytes());
        hasher.update(b"\n");
    }
    format!("sha256:{}", hex(&hasher.finalize()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

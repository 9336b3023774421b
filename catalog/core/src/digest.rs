//! The digest of a catalog's content.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::model::Group;

/// `sha256:…` over the packages and the digests of their canonical texts. It does not depend on file names,
/// the order of files and documents, formatting, key order, or YAML versus JSON.
pub(crate) fn of(groups: &BTreeMap<String, Group>) -> String {
    let mut hasher = Sha256::new();
    for (name, group) in groups {
        hasher.update(name.as_bytes());
        hasher.update(b"\n");
        hasher.update(group.digest.as_bytes());
        hasher.update(b"\n");
    }
    format!("sha256:{}", hex(&hasher.finalize()))
}

/// Bytes in lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

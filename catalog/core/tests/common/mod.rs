//! The location of the real data.

use std::path::{Path, PathBuf};

/// A file or directory of it; prints a message where it is missing.
pub fn data(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("OLM_SHARED_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there (set OLM_SHARED_DATA)", path.display());
    None
}

//! Access to the recorded data.

#![allow(dead_code)] // each test uses a part

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The directory of shared data, or `None` with a printed line that names the skipped test.
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

/// Subdirectories, by name.
pub fn folders(dir: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

pub fn json_lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

//! Damaged files of a member. The end-to-end tests use it too.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::Result;

/// Overwrites the beginning of every log and database below a folder; returns their number.
pub fn damage(folder: &Path) -> Result<usize> {
    let mut damaged = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            damaged += damage(&path)?;
        } else if path.extension().is_some_and(|e| e == "wal") || path.ends_with("db") {
            let file = std::fs::File::options().write(true).open(&path)?;
            file.write_all_at(&[0xa5; 16384], 0)?;
            damaged += 1;
        }
    }
    Ok(damaged)
}

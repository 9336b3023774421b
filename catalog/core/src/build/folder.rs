//! Directories of an untrusted checkout.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::BuildError;

/// Limit for hand-written files next to bundles (`ci.yaml`, `package.yaml`, a template): the largest real
/// template has 0.3 MB.
const LARGEST_FILE: u64 = 16 << 20;

/// Directories and files in a directory, by name. Hidden ones are left out, and so are symbolic links: a
/// checkout must not lead out of itself.
pub(super) struct Listing {
    pub folders: Vec<PathBuf>,
    pub files: Vec<PathBuf>,
}

pub(super) fn list(dir: &Path) -> Result<Listing, BuildError> {
    let unreadable = |source| BuildError::Read { path: dir.to_owned(), source };
    let mut listing = Listing { folders: Vec::new(), files: Vec::new() };
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            listing.folders.push(entry.path());
        } else if kind.is_file() {
            listing.files.push(entry.path());
        }
    }
    listing.folders.sort();
    listing.files.sort();
    Ok(listing)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    let unreadable = |source| BuildError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(unreadable(std::io::Error::other(format!("larger than {LARGEST_FILE} bytes"))));
    }
    Ok(bytes)
}

/// The last part of a path.
pub(super) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether a file has an extension of YAML or JSON.
pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

//! Layout of a directory.

use std::path::{Path, PathBuf};

use super::folder::{self, Listing};
use super::{BuildError, manifests};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Packages of bundles, `NAME/VERSION/{manifests,metadata}`: the directories of the packages. A package
    /// may also be in the package-manifest format or have its own catalog template.
    Packages(Vec<PathBuf>),
    /// One bundle: `manifests` and `metadata`.
    Bundle(PathBuf),
    /// None of the above: a file-based catalog, or empty.
    Catalog,
}

impl Layout {
    /// Inspects names in a directory, three levels deep, never file contents.
    /// # Errors
    /// [`BuildError::Read`] when the directory cannot be listed.
    pub fn detect(dir: &Path) -> Result<Self, BuildError> {
        if is_bundle(dir) {
            return Ok(Self::Bundle(dir.to_owned()));
        }
        let listing = folder::list(dir)?;
        if let Some(operators) = listing.folders.iter().find(|path| folder::name(path) == "operators") {
            let listing = folder::list(operators)?;
            if !packages(&listing).is_empty() {
                // All of them, so that one without bundles is reported.
                return Ok(Self::Packages(listing.folders));
            }
        }
        if is_package(&listing) {
            return Ok(Self::Packages(vec![dir.to_owned()]));
        }
        let packages = packages(&listing);
        Ok(if packages.is_empty() { Self::Catalog } else { Self::Packages(packages) })
    }
}

/// `manifests` and `metadata`, or one of them: a bundle with a missing part still counts as one.
pub(super) fn is_bundle(dir: &Path) -> bool {
    dir.join("manifests").is_dir() || dir.join("metadata").is_dir()
}

fn is_package(listing: &Listing) -> bool {
    listing.folders.iter().any(|version| is_bundle(version)) || manifests::is_package(listing)
}

fn packages(listing: &Listing) -> Vec<PathBuf> {
    let folders = listing.folders.iter();
    // One that cannot be listed is kept: reading it reports the error.
    folders.filter(|path| folder::list(path).map_or(true, |listing| is_package(&listing))).cloned().collect()
}

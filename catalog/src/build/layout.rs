//! What kind of folder it is.

use std::path::{Path, PathBuf};

use super::folder::{self, Listing};
use super::{BuildError, manifests};

/// What a folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Packages of bundles, `NAME/VERSION/{manifests,metadata}`: these are the folders of the packages.
    /// A package may also be in the package-manifest format or bring a template of its own catalog.
    Packages(Vec<PathBuf>),
    /// One bundle: `manifests` and `metadata`.
    Bundle(PathBuf),
    /// Nothing of that: a file-based catalog, or nothing at all.
    Catalog,
}

impl Layout {
    /// Looks at the names in a folder, three levels deep, never into a file.
    ///
    /// # Errors
    /// [`BuildError::Read`] when the folder cannot be listed.
    pub fn detect(dir: &Path) -> Result<Self, BuildError> {
        if is_bundle(dir) {
            return Ok(Self::Bundle(dir.to_owned()));
        }
        let listing = folder::list(dir)?;
        if let Some(operators) = listing.folders.iter().find(|path| folder::name(path) == "operators") {
            let listing = folder::list(operators)?;
            if !packages(&listing).is_empty() {
                // All of them, so that one without bundles is told.
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

/// `manifests` and `metadata`, or one of them: a bundle with a part missing is still meant as one.
pub(super) fn is_bundle(dir: &Path) -> bool {
    dir.join("manifests").is_dir() || dir.join("metadata").is_dir()
}

fn is_package(listing: &Listing) -> bool {
    listing.folders.iter().any(|version| is_bundle(version)) || manifests::is_package(listing)
}

fn packages(listing: &Listing) -> Vec<PathBuf> {
    let folders = listing.folders.iter();
    // One that cannot be listed is kept: the reason is told when it is read.
    folders.filter(|path| folder::list(path).map_or(true, |listing| is_package(&listing))).cloned().collect()
}

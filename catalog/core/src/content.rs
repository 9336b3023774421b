//! The texts of a catalog's packages, in memory or on disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::group::Group;
use crate::model::Package;

/// Storage of the texts.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// By name of the package.
    Memory(BTreeMap<String, Arc<String>>),
    /// By digest.
    Disk(Arc<StoreFiles>),
    /// The catalog was only checked.
    Nowhere,
}

#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The catalog was only loaded for a check.
    #[error("content of package {package} not stored: the catalog was only checked")]
    NotKept { package: String },
    #[error(
        "failed to read package {package} from {path}: {source}; the next refresh of the catalog reads it \
         again"
    )]
    Read { package: String, path: String, source: io::Error },
    /// The file differs from what was written.
    #[error(
        "failed to read package {package} from {path}: file corrupted and set aside; the next refresh of \
         the catalog reads it again"
    )]
    Damaged { package: String, path: String },
}

/// Total text size of the cached packages.
const CACHE_BYTES: usize = 8 << 20;

/// The most recently read packages.
#[derive(Debug, Default)]
pub(crate) struct PackageCache(Mutex<Vec<(Arc<Package>, usize)>>);

impl PackageCache {
    pub fn get(&self, name: &str) -> Option<Arc<Package>> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = cached.iter().position(|(package, _)| package.name == name)?;
        let found = cached.remove(position);
        let package = Arc::clone(&found.0);
        cached.push(found);
        Some(package)
    }

    pub fn insert(&self, package: &Arc<Package>, bytes: usize) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.push((Arc::clone(package), bytes));
        while cached.len() > 1 && cached.iter().map(|(_, bytes)| bytes).sum::<usize>() > CACHE_BYTES {
            cached.remove(0);
        }
    }
}

/// The packages of a store. Clones of a catalog's content keep the lock of the store.
#[derive(Debug)]
pub(crate) struct StoreFiles {
    root: PathBuf,
    _lock: File,
}

impl StoreFiles {
    pub fn new(root: &Path, lock: File) -> Self {
        Self { root: root.to_owned(), _lock: lock }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.root.join("packages").join(digest)
    }

    /// Whether a package's file exists, with the right length.
    pub fn has(&self, group: &Group) -> bool {
        fs::metadata(self.path(&group.digest)).is_ok_and(|file| file.len() == group.bytes)
    }

    pub fn read(&self, package: &str, group: &Group) -> Result<Arc<String>, ContentError> {
        let path = self.path(&group.digest);
        let shown = || path.display().to_string();
        let text = fs::read(&path).map_err(|source| ContentError::Read {
            package: package.to_owned(),
            path: shown(),
            source,
        })?;
        let whole = text.len() as u64 == group.bytes && crc32fast::hash(&text) == group.checksum;
        match String::from_utf8(text) {
            Ok(text) if whole => Ok(Arc::new(text)),
            _ => {
                // Removed, so that the next refresh does not reuse it.
                _ = fs::remove_file(&path);
                Err(ContentError::Damaged { package: package.to_owned(), path: shown() })
            }
        }
    }

    pub fn write(&self, digest: &str, text: &str) -> Result<(), (PathBuf, io::Error)> {
        let path = self.path(digest);
        if fs::metadata(&path).is_ok_and(|file| file.len() == text.len() as u64) {
            return Ok(());
        }
        // Written under another name first: a killed process leaves no truncated package.
        let partial = path.with_extension(PARTIAL);
        let write = || create(&partial)?.write_all(text.as_bytes());
        let written = write().and_then(|()| fs::rename(&partial, &path));
        written.map_err(|error| (path, error))
    }
}

/// Catalogs may be private: only the owner reads the files of a store.
pub(crate) const MODE: u32 = 0o600;

pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(true).write(true).mode(MODE).open(path)
}

/// Extension of a file that is being written.
pub(crate) const PARTIAL: &str = "partial";

pub(crate) fn is_partial(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == PARTIAL)
}

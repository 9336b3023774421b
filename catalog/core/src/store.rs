//! Catalogs on disk: packages by the digest of their content, and for each catalog an index that names them.
//!
//! ```text
//! packages/DIGEST      the documents of a package, canonical JSON, one a line; immutable
//! catalogs/KEY.json    the index of a catalog; replaced as a whole, by renaming
//! lock                 held by the process that uses the store
//! ```
//!
//! A killed process leaves the old index or the new one, never a partial one. A file damaged by power loss is
//! detected by its checksum when it is read, and is read anew from its source at the next refresh.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::catalog::Catalog;
use crate::content::{Content, MODE, PARTIAL, StoreFiles, create, is_partial};
use crate::group::Group;
use crate::hex::hex;
use crate::load::{self, Files, TextStorage};
use crate::problem::Problem;

/// Incremented when the format changes; catalogs with an older index are then read anew.
const VERSION: u32 = 2;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process uses it.
    #[error("catalog store {path} is in use by another process; use a separate directory for each")]
    Used { path: PathBuf },
    /// A stored catalog would be replaced by one without usable content.
    #[error("{origin} contains no valid package{}", problem.as_ref().map(|problem| format!("; {problem}")).unwrap_or_default())]
    Unusable {
        /// Source of the catalog.
        origin: String,
        /// Its first problem.
        problem: Option<Box<Problem>>,
    },
    #[error("failed to {what} {path} of the catalog store: {source}")]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

/// Catalogs on disk. Cheap to clone; one process at a time.
#[derive(Debug, Clone)]
pub struct Store {
    disk: Arc<StoreFiles>,
    /// The last catalog of each key. Locked during a refresh: one at a time.
    catalogs: Arc<Mutex<BTreeMap<String, Weak<Catalog>>>>,
    /// The catalogs in use; garbage collection keeps their packages.
    used: Arc<Mutex<Vec<Weak<Catalog>>>>,
}

/// Result of a refresh.
#[derive(Debug)]
pub struct Refreshed {
    pub catalog: Arc<Catalog>,
    /// Whether its content differs from before.
    pub changed: bool,
    /// Packages that were read and checked; all others are unchanged.
    pub reread: usize,
}

#[derive(Serialize, Deserialize)]
struct Index {
    version: u32,
    key: String,
    origin: String,
    digest: String,
    problems: Vec<Problem>,
    groups: BTreeMap<String, Group>,
}

impl Store {
    /// Opens a store, or creates it.
    /// # Errors
    /// When the directory cannot be created or written to, or another process uses it.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        for folder in ["packages", "catalogs"] {
            let path = root.join(folder);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(failed("make", &path))?;
        }
        let path = root.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).mode(MODE).open(&path);
        let lock = lock.map_err(failed("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::Used { path: root.to_owned() }),
            Err(fs::TryLockError::Error(source)) => {
                return Err(StoreError::Io { what: "lock", path, source });
            }
        }
        // Leftovers of a killed process.
        for folder in ["packages", "catalogs"] {
            for path in files_in(&root.join(folder))?.iter().filter(|path| is_partial(path)) {
                fs::remove_file(path).map_err(failed("remove", path))?;
            }
        }
        Ok(Self::of(root, lock))
    }

    /// Opens a store that other processes read at the same time; `None` when there is none, or one of them
    /// writes it.
    /// # Errors
    /// When the lock cannot be opened.
    pub fn open_shared(root: &Path) -> Result<Option<Self>, StoreError> {
        let path = root.join("lock");
        let lock = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed("open", &path))?,
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(Some(Self::of(root, lock))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(source)) => Err(StoreError::Io { what: "lock", path, source }),
        }
    }

    fn of(root: &Path, lock: File) -> Self {
        let disk = Arc::new(StoreFiles::new(root, lock));
        Self { disk, catalogs: Arc::default(), used: Arc::default() }
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        self.disk.root()
    }

    /// The last stored catalog: only its index is read. A malformed index counts as missing: the next refresh
    /// writes it anew.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<Arc<Catalog>>, StoreError> {
        let mut catalogs = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner);
        self.current(&mut catalogs, key)
    }

    /// The same, unless one of its packages is missing or truncated.
    /// # Errors
    /// The file cannot be read.
    pub fn get_whole(&self, key: &str) -> Result<Option<Arc<Catalog>>, StoreError> {
        let catalog = self.get(key)?;
        Ok(catalog.filter(|catalog| catalog.groups.values().all(|group| self.disk.has(group))))
    }

    fn current(
        &self,
        catalogs: &mut BTreeMap<String, Weak<Catalog>>,
        key: &str,
    ) -> Result<Option<Arc<Catalog>>, StoreError> {
        if let Some(catalog) = catalogs.get(key).and_then(Weak::upgrade) {
            return Ok(Some(catalog));
        }
        let path = self.index(key);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Io { what: "read", path, source }),
        };
        let index = match serde_json::from_slice::<Index>(&text) {
            Ok(index) if index.version == VERSION && index.key == key => index,
            Ok(_) => return Ok(None),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "index of the catalog store corrupted, rebuilding it");
                return Ok(None);
            }
        };
        let Index { origin, digest, problems, groups, .. } = index;
        Ok(Some(self.hand_out(catalogs, key, origin, digest, problems, groups)))
    }

    fn hand_out(
        &self,
        catalogs: &mut BTreeMap<String, Weak<Catalog>>,
        key: &str,
        origin: String,
        digest: String,
        problems: Vec<Problem>,
        groups: BTreeMap<String, Group>,
    ) -> Arc<Catalog> {
        let content = Content::Disk(Arc::clone(&self.disk));
        let catalog = Arc::new(Catalog { origin, digest, problems, groups, content, ..Catalog::default() });
        catalogs.insert(key.to_owned(), Arc::downgrade(&catalog));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|catalog| catalog.strong_count() > 0);
        used.push(Arc::downgrade(&catalog));
        catalog
    }

    /// Reads a directory into the store. Unchanged packages are neither parsed nor checked nor written again.
    /// The catalog under `key` stays the old one until the new one is complete, and also when the new one has
    /// no usable content.
    /// # Errors
    /// When the store cannot be written, or the content would empty the catalog. The catalog's problems have
    /// all other defects of the content.
    pub fn refresh_dir(&self, key: &str, origin: &str, dir: &Path) -> Result<Refreshed, StoreError> {
        self.refresh(key, origin, Files::of_dir(dir, true))
    }

    /// The same for a directory or a file, with places as [`Catalog::load_dir`] and [`Catalog::load_file`]
    /// name them.
    /// # Errors
    /// As [`Self::refresh_dir`].
    pub fn refresh_path(&self, key: &str, origin: &str, path: &Path) -> Result<Refreshed, StoreError> {
        let files = if path.is_file() { Files::of_file(path) } else { Files::of_dir(path, false) };
        self.refresh(key, origin, files)
    }

    fn refresh(&self, key: &str, origin: &str, files: Files<'_>) -> Result<Refreshed, StoreError> {
        let mut catalogs = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.current(&mut catalogs, key)?;
        let reusable = |name: &str| old.as_ref()?.groups.get(name).filter(|group| self.disk.has(group));
        let loaded = load::load(files, reusable, &TextStorage::Disk(&self.disk));
        if let Some((path, source)) = loaded.failure {
            return Err(StoreError::Io { what: "write", path, source });
        }
        let same = |old: &&Arc<Catalog>| {
            old.digest == loaded.digest
                && old.problems == loaded.problems
                && old.origin == origin
                && loaded.reread == 0
        };
        let before = old.as_ref().map(|old| old.digest.clone());
        if let Some(old) = old.as_ref().filter(same) {
            return Ok(Refreshed { catalog: Arc::clone(old), changed: false, reread: 0 });
        }
        let usable = loaded.groups.values().any(|group| group.summary.is_some());
        if !usable && old.is_some_and(|old| !old.is_empty()) {
            let problem = loaded.problems.into_iter().next().map(Box::new);
            return Err(StoreError::Unusable { origin: origin.to_owned(), problem });
        }
        let index = Index {
            version: VERSION,
            key: key.to_owned(),
            origin: origin.to_owned(),
            digest: loaded.digest,
            problems: loaded.problems,
            groups: loaded.groups,
        };
        self.commit(&index)?;
        let changed = before.is_none_or(|before| before != index.digest);
        let Index { origin, digest, problems, groups, .. } = index;
        let catalog = self.hand_out(&mut catalogs, key, origin, digest, problems, groups);
        drop(catalogs);
        self.collect_garbage()?;
        Ok(Refreshed { catalog, changed, reread: loaded.reread })
    }

    /// Removes a catalog and the packages that only it uses. Current users keep it.
    /// # Errors
    /// When the files cannot be removed.
    pub fn remove(&self, key: &str) -> Result<(), StoreError> {
        let mut catalogs = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner);
        catalogs.remove(key);
        let path = self.index(key);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::Io { what: "remove", path, source });
            }
            _ => {}
        }
        drop(catalogs);
        self.collect_garbage().map(drop)
    }

    /// Removes packages that no index names and no catalog in use needs; returns their number.
    /// # Errors
    /// When the directories cannot be read or a file cannot be removed. Nothing is removed while an index is
    /// unreadable: its packages are unknown.
    pub fn collect_garbage(&self) -> Result<usize, StoreError> {
        // The lock blocks writers of packages.
        let _catalogs = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut needed = BTreeSet::new();
        let folder = self.root().join("catalogs");
        for path in files_in(&folder)? {
            let text = fs::read(&path).map_err(failed("read", &path))?;
            // A malformed index is written anew, and needs no packages.
            if let Ok(index) = serde_json::from_slice::<Index>(&text) {
                needed.extend(index.groups.into_values().map(|group| group.digest));
            }
        }
        for catalog in self.used.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(catalog) = catalog.upgrade() {
                needed.extend(catalog.groups.values().map(|group| group.digest.clone()));
            }
        }
        let mut removed = 0;
        for path in files_in(&self.root().join("packages"))? {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if !needed.contains(&name) {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Keys contain characters that file names may not.
    fn index(&self, key: &str) -> PathBuf {
        self.root().join("catalogs").join(format!("{}.json", &hex(&Sha256::digest(key.as_bytes()))[..32]))
    }

    fn commit(&self, index: &Index) -> Result<(), StoreError> {
        let path = self.index(&index.key);
        let partial = path.with_extension(PARTIAL);
        let text = serde_json::to_vec(index).map_err(|error| StoreError::Io {
            what: "write",
            path: path.clone(),
            source: error.into(),
        })?;
        let write = || -> io::Result<()> {
            let mut file = create(&partial)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            File::open(self.root().join("catalogs"))?.sync_all()
        };
        write().map_err(|source| StoreError::Io { what: "write", path, source })
    }
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    Ok(entries.map_err(failed("read", folder))?.iter().map(fs::DirEntry::path).collect())
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;

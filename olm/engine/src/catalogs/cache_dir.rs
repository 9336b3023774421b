//! The manager's folder: catalogs, bundles of images, and records of their sources.
//!
//! ```text
//! store/           the catalogs ([`olm_catalog::Store`])
//! sources/KEY.json the source of a CatalogSource's catalog, so that a restart serves it and continues to poll
//! work/KEY         fetches in progress; removed at a restart
//! bundles/         bundles of images
//! ```

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use olm_catalog::{Store, StoreError, hex};
use olm_catalog_sources::Revision;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Key;

#[derive(Debug, thiserror::Error)]
pub enum CacheDirError {
    /// It failed to be created or opened.
    #[error("failed to {what} {path}: {source}; set --cache-dir to a writable folder")]
    Io {
        /// The operation that failed.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The source that a catalog was made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub namespace: String,
    pub name: String,
    /// UID of the CatalogSource: one that was deleted and recreated under the same name is another one.
    pub uid: String,
    /// Hash of the part of the spec that locates the content.
    pub identity: String,
    pub revision: Option<Revision>,
    pub resolved: Option<String>,
    pub last_success: Option<Timestamp>,
    /// The signer, where a signature is required.
    #[serde(default)]
    pub signer: Option<String>,
    /// Parts of the source that are not in the catalog.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Size of the files that were read.
    #[serde(default)]
    pub bytes: u64,
}

#[derive(Debug)]
pub struct CacheDir {
    root: PathBuf,
    store: Store,
    /// Removed on drop, when no folder was configured.
    _temporary: Option<tempfile::TempDir>,
}

impl CacheDir {
    /// Opens the folder, or a temporary one that is removed with this process.
    pub fn open(root: Option<&Path>) -> Result<Self, CacheDirError> {
        let io = |what, path: &Path| {
            let path = path.to_owned();
            move |source| CacheDirError::Io { what, path, source }
        };
        let temporary = match root {
            Some(_) => None,
            None => {
                let made = tempfile::Builder::new().prefix("olm-cache-").tempdir();
                Some(made.map_err(io("create a folder in", &std::env::temp_dir()))?)
            }
        };
        let root = root.or(temporary.as_ref().map(tempfile::TempDir::path)).unwrap_or(Path::new("."));
        let store = Store::open(&root.join("store"))?;
        // The store's lock is held, so no other process uses the folder.
        let work = root.join("work");
        match fs::remove_dir_all(&work) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("empty", &work)(error)),
            _ => {}
        }
        for folder in ["sources", "work", "bundles"] {
            let path = root.join(folder);
            fs::create_dir_all(&path).map_err(io("make", &path))?;
        }
        Ok(Self { root: root.to_owned(), store, _temporary: temporary })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn bundles(&self) -> PathBuf {
        self.root.join("bundles")
    }

    /// Where a CatalogSource's content is fetched to. Each run has its own folder: the previous run may
    /// still be ending.
    pub fn work(&self, key: &Key, run: u64) -> PathBuf {
        self.root.join("work").join(format!("{}-{run}", file_name(key)))
    }

    pub fn record(&self, key: &Key) -> Option<Record> {
        self.read(&self.path(key)).filter(|record| (&record.namespace, &record.name) == (&key.0, &key.1))
    }

    /// A damaged record counts as absent: the content is fetched again.
    fn read(&self, path: &Path) -> Option<Record> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Every CatalogSource that has a record.
    pub fn keys(&self) -> Vec<Key> {
        let Ok(entries) = fs::read_dir(self.root.join("sources")) else { return Vec::new() };
        let records = entries.flatten().filter_map(|entry| self.read(&entry.path()));
        records.map(|record| (record.namespace, record.name)).collect()
    }

    /// Written atomically.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let key = (record.namespace.clone(), record.name.clone());
        let mut file = tempfile::NamedTempFile::new_in(self.root.join("work"))?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.persist(self.path(&key)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes the record of a CatalogSource and its catalog.
    pub fn remove(&self, key: &Key) {
        let path = self.path(key);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
            _ => self.store.remove(&store_key(key)).map_err(|error| error.to_string()),
        };
        if let Err(error) = removed {
            tracing::warn!(namespace = key.0, name = key.1, error, "failed to remove a deleted catalog");
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join("sources").join(format!("{}.json", file_name(key)))
    }
}

/// The key of a CatalogSource in the store.
pub fn store_key((namespace, name): &Key) -> String {
    format!("{namespace}/{name}")
}

/// Namespaces have no dots, so no two CatalogSources share a file. Long names are cut to the limit of file
/// systems.
fn file_name(key: &Key) -> String {
    let name = format!("{}.{}", key.0, key.1);
    if name.len() <= 128 { name } else { hex(&Sha256::digest(name.as_bytes())) }
}

#[cfg(test)]
pub fn temporary() -> std::sync::Arc<CacheDir> {
    std::sync::Arc::new(CacheDir::open(None).expect("a temporary folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        ("olm".into(), "community".into())
    }

    #[test]
    fn what_was_written_is_there_after_a_restart() {
        // given a catalog in a folder
        let folder = tempfile::tempdir().unwrap();
        let record = Record { namespace: "olm".into(), name: "community".into(), ..Record::default() };
        {
            let cache_dir = CacheDir::open(Some(folder.path())).unwrap();
            cache_dir.write(&record).unwrap();
            fs::create_dir(cache_dir.work(&key(), 1)).unwrap();
            // and the folder is in use: a second open is refused
            assert!(matches!(CacheDir::open(Some(folder.path())), Err(CacheDirError::Store(_))));
        }
        // when it is opened again
        let cache_dir = CacheDir::open(Some(folder.path())).unwrap();
        // then the record is there, and the unfinished fetch is not
        assert_eq!(cache_dir.record(&key()), Some(record));
        assert_eq!(cache_dir.keys(), [key()]);
        assert!(!cache_dir.work(&key(), 1).exists());
        // when it is removed, then nothing is left
        cache_dir.remove(&key());
        assert_eq!(cache_dir.record(&key()), None);
        assert!(cache_dir.keys().is_empty());
    }

    #[test]
    fn a_damaged_record_counts_as_none() {
        let cache_dir = temporary();
        fs::write(cache_dir.path(&key()), "{").unwrap();
        assert_eq!(cache_dir.record(&key()), None);
    }

    #[test]
    fn an_unwritable_folder_is_reported_with_a_fix() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = CacheDir::open(Some(file.path())).unwrap_err().to_string();
        assert!(error.contains(&file.path().display().to_string()), "{error}");
    }
}

//! The manager's own catalogs: the last good content of each CatalogSource.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use jiff::Timestamp;
use olm_catalog::Catalog;
use tokio::sync::watch;

use super::{CatalogVisibility, IndexEntry, Key, LoadedCatalog};

/// The state of one CatalogSource after its last read.
#[derive(Debug, Clone, Default)]
pub struct CatalogState {
    /// The last good content; `None` when there never was any.
    pub loaded: Option<LoadedCatalog>,
    pub problem: Option<Problem>,
    /// When the source was last read or found unchanged.
    pub last_success: Option<Timestamp>,
    /// Size of the files that were read.
    pub bytes: u64,
}

/// Why a CatalogSource is unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Upstream's value for `status.reason`.
    pub reason: &'static str,
    /// The specific cause, for the condition.
    pub code: &'static str,
    pub message: String,
}

impl Problem {
    pub fn new(reason: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self { reason, code, message: message.into() }
    }
}

/// Last good content by CatalogSource. Readers get a snapshot and never wait for a load.
#[derive(Debug)]
pub struct LoadedCatalogs {
    entries: RwLock<BTreeMap<Key, CatalogState>>,
    /// Counts changes of content.
    changes: watch::Sender<u64>,
}

impl Default for LoadedCatalogs {
    fn default() -> Self {
        Self { entries: RwLock::default(), changes: watch::Sender::new(0) }
    }
}

impl LoadedCatalogs {
    pub fn get(&self, namespace: &str, name: &str) -> Option<CatalogState> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The content alone, for serving.
    pub fn content(&self, namespace: &str, name: &str) -> Option<Arc<Catalog>> {
        self.get(namespace, name)?.loaded.map(|loaded| loaded.catalog)
    }

    /// Replaces the state of a CatalogSource. Watchers are notified only when the content, the priority or
    /// its health changed.
    pub fn insert(&self, namespace: &str, name: &str, entry: CatalogState) {
        let key = (namespace.to_owned(), name.to_owned());
        let mark = |entry: &CatalogState| {
            let content = entry.loaded.as_ref().map(|l| (l.catalog.digest.clone(), l.priority));
            (content, entry.problem.clone())
        };
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let same = entries.get(&key).is_some_and(|old| mark(old) == mark(&entry));
        entries.insert(key, entry);
        drop(entries);
        if !same {
            self.changes.send_modify(|n| *n += 1);
        }
    }

    pub fn keys(&self) -> Vec<Key> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    pub fn all(&self) -> BTreeMap<Key, CatalogState> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn remove(&self, namespace: &str, name: &str) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let removed = entries.remove(&(namespace.to_owned(), name.to_owned()));
        drop(entries);
        if removed.is_some() {
            self.changes.send_modify(|n| *n += 1);
        }
    }

    /// Notifies when content changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The catalogs that a namespace may use, best first.
    pub fn within(&self, visibility: &CatalogVisibility<'_>) -> Vec<LoadedCatalog> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<LoadedCatalog> = entries
            .iter()
            .filter(|((namespace, _), _)| visibility.reaches(namespace))
            .filter_map(|(_, entry)| entry.loaded.clone())
            .collect();
        super::sort(&mut out);
        out
    }

    /// The index that is served at `/catalogs`.
    pub fn index(&self) -> Vec<IndexEntry> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let line = |((namespace, name), entry): (&Key, &CatalogState)| {
            let loaded = entry.loaded.as_ref()?;
            Some(IndexEntry {
                namespace: namespace.clone(),
                name: name.clone(),
                display_name: loaded.display_name.clone(),
                publisher: loaded.publisher.clone(),
                priority: loaded.priority,
                digest: loaded.catalog.digest.clone(),
                image: loaded.image.clone(),
                packages: loaded.catalog.len(),
                problems: loaded.catalog.problems.len(),
                stale: entry.problem.as_ref().map(|p| p.message.clone()).unwrap_or_default(),
            })
        };
        entries.iter().filter_map(line).collect()
    }
}

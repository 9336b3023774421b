//! Reads of sources: which are due, which are running, and the last result of each.
//!
//! Every CatalogSource has at most one running read, in its own task: one that hangs does not block the
//! others. A read whose source is no longer requested is cancelled.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use olm_api::catalog_source::ConfigMapReference;
use olm_catalog::Catalog;
use olm_engine::catalogs::{Access, CacheDir, Key, Problem, Record, Refresh, store_key};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    fetch::{FetchResult, Job},
    interval::{back_off, jittered},
    source::RequestedSource,
};
use crate::metrics::Metrics;

/// Concurrent reads. Writing to the catalog cache, which takes memory and cores, is serialised there; the rest
/// mostly waits for registries, so a few that hang leave room for the others.
const CONCURRENT_READS: usize = 16;

pub(crate) struct Jobs {
    tracks: Mutex<BTreeMap<Key, Track>>,
    slots: Semaphore,
    cache_dir: Arc<CacheDir>,
    refresh: Arc<Refresh>,
    metrics: Arc<Metrics>,
    /// Cancelled when the controller ends.
    stop: CancellationToken,
}

/// The state of one CatalogSource.
#[derive(Default)]
struct Track {
    /// The source of the content.
    record: Record,
    catalog: Option<Arc<Catalog>>,
    config_map: Option<ConfigMapReference>,
    /// Of the running or last read.
    identity: String,
    every: Option<Duration>,
    /// The value of the annotation at the running or last read.
    refresh: String,
    /// Counts the reads: the result of a cancelled one is discarded.
    run: u64,
    running: Option<DropGuard>,
    failures: u32,
    /// When the next read is due; `None` is only when the spec changes.
    due: Option<Instant>,
    problem: Option<Problem>,
    last_read: Option<Timestamp>,
}

/// The state of one CatalogSource, for its status and its readers.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) catalog: Option<Arc<Catalog>>,
    pub(super) problem: Option<Problem>,
    pub(super) running: bool,
    /// The content comes from an earlier spec.
    pub(super) outdated: bool,
    pub(super) resolved: Option<String>,
    /// The signer, where a signature is required.
    pub(super) signer: Option<String>,
    pub(super) config_map: Option<ConfigMapReference>,
    pub(super) notes: Vec<String>,
    pub(super) bytes: u64,
    pub(super) last_read: Option<Timestamp>,
    pub(super) last_success: Option<Timestamp>,
    pub(super) due: Option<Duration>,
}

pub(super) struct Request {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) requested: RequestedSource,
    pub(super) secrets: Vec<String>,
    pub(super) every: Option<Duration>,
    /// The value of the annotation that requests a read.
    pub(super) refresh: String,
    pub(super) client: kube::Client,
    pub(super) access: Access,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}

impl Jobs {
    pub(crate) fn new(cache_dir: Arc<CacheDir>, refresh: Arc<Refresh>, metrics: Arc<Metrics>) -> Self {
        Self {
            tracks: Mutex::default(),
            slots: Semaphore::new(CONCURRENT_READS),
            cache_dir,
            refresh,
            metrics,
            stop: CancellationToken::new(),
        }
    }

    fn tracks(&self) -> MutexGuard<'_, BTreeMap<Key, Track>> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// The state of a CatalogSource; starts a read when one is due.
    pub(super) async fn observe(self: &Arc<Self>, request: Request) -> View {
        self.restore(&request.key, &request.uid).await;
        let damaged = self.refresh.take(&request.key);
        let now = Instant::now();
        let identity = request.requested.identity(&request.secrets);
        let mut tracks = self.tracks();
        let track = tracks.entry(request.key.clone()).or_default();
        let at_once = track.refresh(request.refresh) || damaged;
        let begin = track.turn_to(&identity, request.every, at_once, now);
        if begin {
            let previous = track.previous(damaged);
            track.run += 1;
            let stop = self.stop.child_token();
            let cancelled = stop.clone();
            track.running = Some(stop.drop_guard());
            let job = Job {
                requested: request.requested,
                key: request.key,
                run: track.run,
                client: request.client,
                access: request.access,
                cache_dir: Arc::clone(&self.cache_dir),
                previous,
            };
            let jobs = Arc::clone(self);
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = cancelled.cancelled() => jobs.clean_up(&job.key),
                    () = jobs.run(&job) => {}
                }
            });
        }
        track.view(now)
    }

    /// A CatalogSource that is unreadable; earlier content is kept.
    pub(super) async fn refuse(&self, key: &Key, uid: &str, problem: Problem) -> View {
        self.restore(key, uid).await;
        let mut tracks = self.tracks();
        let track = tracks.entry(key.clone()).or_default();
        track.running = None;
        track.run += 1;
        track.identity = String::new();
        track.due = None;
        track.problem = Some(problem);
        track.view(Instant::now())
    }

    /// A CatalogSource whose content is available without a read.
    pub(super) fn preloaded(&self, key: &Key, uid: &str, identity: String, catalog: Arc<Catalog>) -> View {
        let mut tracks = self.tracks();
        let track = tracks.entry(key.clone()).or_default();
        let last_success = track.record.last_success.filter(|_| track.identity == identity);
        let record = Record {
            namespace: key.0.clone(),
            name: key.1.clone(),
            uid: uid.to_owned(),
            identity: identity.clone(),
            last_success: last_success.or(Some(Timestamp::now())),
            ..Record::default()
        };
        *track = Track { record, identity, catalog: Some(catalog), run: track.run + 1, ..Track::default() };
        track.view(Instant::now())
    }

    /// Removes the state of a deleted CatalogSource.
    pub(super) fn forget(&self, key: &Key) {
        self.tracks().remove(key);
        self.cache_dir.remove(key);
    }

    /// Every CatalogSource with a state, in memory or on disk.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut keys = self.cache_dir.keys();
        keys.extend(self.tracks().keys().cloned());
        keys.sort();
        keys.dedup();
        keys
    }

    /// After a restart: stored content is served before the first read ends.
    async fn restore(&self, key: &Key, uid: &str) {
        match self.tracks().get(key).map(|track| track.record.uid.clone()) {
            Some(known) if known == uid => return,
            // Deleted and recreated without an event: another CatalogSource.
            Some(known) if !known.is_empty() => self.forget(key),
            _ => {}
        }
        let (cache_dir, stored_key, requested) = (Arc::clone(&self.cache_dir), key.clone(), uid.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let record = cache_dir.record(&stored_key)?;
            if record.uid != requested {
                cache_dir.remove(&stored_key);
                return None;
            }
            match cache_dir.store().get(&store_key(&stored_key)) {
                Ok(catalog) => Some((record, catalog?)),
                Err(error) => {
                    tracing::warn!(%error, "failed to read a cached catalog; fetching it again");
                    None
                }
            }
        });
        let restored = read.await.ok().flatten().filter(|(_, catalog)| !catalog.is_empty());
        let mut tracks = self.tracks();
        let track = tracks.entry(key.clone()).or_default();
        match restored {
            Some((record, catalog)) => {
                tracing::info!(namespace = key.0, name = key.1, "serving a catalog from the cache");
                (track.record, track.catalog) = (record, Some(catalog));
            }
            None => {
                track.record = Record {
                    namespace: key.0.clone(),
                    name: key.1.clone(),
                    uid: uid.to_owned(),
                    ..Record::default()
                };
            }
        }
    }

    async fn run(&self, job: &Job) {
        // The semaphore is never closed.
        let Ok(_slot) = self.slots.acquire().await else { return };
        let started = Instant::now();
        let result = job.run().await;
        self.metrics
            .fetched(result.as_ref().map_or_else(|problem| problem.code, |_| "ok"), started.elapsed());
        if let Err(problem) = &result {
            let (namespace, name) = &job.key;
            tracing::warn!(
                namespace,
                name,
                reason = problem.code,
                problem.message,
                "failed to read a catalog"
            );
        }
        let record = {
            let mut tracks = self.tracks();
            let track = tracks.get_mut(&job.key).filter(|track| track.run == job.run);
            track.and_then(|track| track.record_result(result, Instant::now(), rand::random()))
        };
        if let Some(record) = record
            && let Err(error) = self.cache_dir.write(&record)
        {
            tracing::warn!(%error, "failed to record the source of a catalog; a restart fetches it again");
        }
        self.clean_up(&job.key);
        self.refresh.wake();
    }

    /// Also removes what was stored for a CatalogSource that was deleted meanwhile.
    fn clean_up(&self, key: &Key) {
        if !self.tracks().contains_key(key) {
            self.cache_dir.remove(key);
        }
    }
}

impl Track {
    /// Whether a read is requested. It must be newer than the request; one that is running may be older.
    fn refresh(&mut self, requested: String) -> bool {
        let news = self.refresh != requested;
        if news {
            self.refresh = requested;
            self.running = None;
            self.failures = 0;
        }
        news
    }

    /// Switches to the requested source; returns whether to start a read.
    fn turn_to(&mut self, identity: &str, every: Option<Duration>, at_once: bool, now: Instant) -> bool {
        if self.identity != identity {
            self.identity = identity.to_owned();
            self.running = None;
            self.failures = 0;
            self.problem = None;
            self.due = Some(now);
        } else if self.every != every && self.failures == 0 && self.running.is_none() {
            self.due = every.map(|every| now + jittered(every, rand::random()));
        }
        self.every = every;
        if at_once {
            self.due = Some(now);
        }
        self.running.is_none() && self.due.is_some_and(|due| due <= now)
    }

    /// The revision that need not be read again.
    fn previous(&self, damaged: bool) -> Option<olm_catalog_sources::Revision> {
        let same = self.catalog.is_some() && self.record.identity == self.identity && !damaged;
        self.record.revision.clone().filter(|_| same)
    }

    /// Stores the result of a read; returns the record to write when content was read.
    fn record_result(
        &mut self,
        result: Result<FetchResult, Problem>,
        now: Instant,
        random: f64,
    ) -> Option<Record> {
        self.running = None;
        let time = Timestamp::now();
        self.last_read = Some(time);
        let got = match result {
            Ok(got) => got,
            Err(problem) => {
                self.failures = self.failures.saturating_add(1);
                self.problem = Some(problem);
                self.due = Some(now + back_off(self.failures, random));
                return None;
            }
        };
        self.failures = 0;
        self.problem = None;
        self.due = self.every.map(|every| now + jittered(every, random));
        self.record.last_success = Some(time);
        self.config_map = got.config_map.or(self.config_map.take());
        self.record.resolved = got.resolved.or(self.record.resolved.take());
        self.record.signer = got.signer;
        let news = got.catalog.is_some() || self.record.revision != got.revision;
        self.record.revision = got.revision;
        if let Some(catalog) = got.catalog {
            self.catalog = Some(catalog);
            self.record.identity.clone_from(&self.identity);
            self.record.notes = got.notes;
            self.record.bytes = got.bytes;
        }
        news.then(|| self.record.clone())
    }

    fn view(&self, now: Instant) -> View {
        let Record { resolved, signer, notes, bytes, last_success, .. } = self.record.clone();
        let outdated = self.catalog.is_some() && self.record.identity != self.identity;
        View {
            catalog: self.catalog.clone(),
            problem: self.problem.clone(),
            running: self.running.is_some(),
            outdated,
            resolved,
            signer: signer.filter(|_| !outdated),
            config_map: self.config_map.clone(),
            notes,
            bytes,
            last_read: self.last_read,
            last_success,
            // A running read wakes the controller when it ends.
            due: self.due.filter(|_| self.running.is_none()).map(|due| due.saturating_duration_since(now)),
        }
    }
}

#[cfg(test)]
mod tests;

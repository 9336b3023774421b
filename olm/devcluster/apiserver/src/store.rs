//! Stores objects: in memory, ordered by key, with a log on disk.
//!
//! A write is a compare-and-swap on one object. It gets the next resourceVersion, goes to the log, and
//! becomes visible (to readers and watches alike) only when the log has written it to disk. Concurrent writes
//! share one transaction. Without a data directory there is no log and a write is visible at once.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};

use super::{
    log::{Log, LogError, Record},
    meta,
};

/// Number of events per resource in the history for reconnecting watches.
const HISTORY: usize = 1024;

/// Key of an object: resource (`apps/deployments`, `/pods`), namespace (empty for cluster scope), name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub(crate) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// A change that a watch reports.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub rv: u64,
    /// The state before; `None` for a new object.
    pub old: Option<Arc<Value>>,
    /// The state after; `None` for a deleted object.
    pub new: Option<Arc<Value>>,
    /// The object of a `DELETED` event: the last state with the resourceVersion of the deletion.
    pub last: Option<Arc<Value>>,
}

/// A failed write.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum WriteError {
    /// The object differs from the writer's state: read again.
    #[error("the object was modified concurrently")]
    Raced,
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A page of a list.
pub(crate) struct Page {
    pub items: Vec<Arc<Value>>,
    /// Whether further objects follow.
    pub more: bool,
    pub rv: u64,
}

type Objects = BTreeMap<(String, String), Arc<Value>>;

struct Table {
    objects: Objects,
    history: VecDeque<Event>,
    /// Events up to this resourceVersion are dropped from the history.
    floor: u64,
    changed: watch::Sender<u64>,
}

impl Table {
    fn new(floor: u64) -> Self {
        Self { objects: Objects::new(), history: VecDeque::new(), floor, changed: watch::channel(floor).0 }
    }

    /// Makes a write visible.
    fn apply(&mut self, key: &Key, rv: u64, new: Option<Arc<Value>>) {
        let at = (key.namespace.clone(), key.name.clone());
        let old = match &new {
            Some(value) => self.objects.insert(at, value.clone()),
            None => self.objects.remove(&at),
        };
        let last = match (&new, &old) {
            (None, Some(old)) => {
                let mut last = Value::clone(old);
                meta::metadata(&mut last).insert("resourceVersion".to_owned(), rv.to_string().into());
                Some(Arc::new(last))
            }
            _ => None,
        };
        if self.history.len() == HISTORY
            && let Some(forgotten) = self.history.pop_front()
        {
            self.floor = forgotten.rv;
        }
        self.history.push_back(Event { rv, old, new, last });
        self.changed.send_replace(rv);
    }
}

#[derive(Default)]
struct State {
    tables: HashMap<String, Table>,
    /// The last assigned resourceVersion.
    assigned: u64,
    /// The last visible resourceVersion.
    visible: u64,
    /// resourceVersion at the start of this process: watches cannot begin before it.
    began: u64,
    /// Objects with a pending write.
    pending: HashMap<Key, Arc<Notify>>,
}

impl State {
    fn table(&mut self, resource: &str) -> &mut Table {
        if !self.tables.contains_key(resource) {
            self.tables.insert(resource.to_owned(), Table::new(self.began));
        }
        self.tables.get_mut(resource).expect("inserted above")
    }
}

pub(crate) struct Store {
    state: Arc<Mutex<State>>,
    log: Option<Log>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // No code under the lock can leave the state inconsistent, so a poisoned lock is usable.
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A pending write.
pub(crate) struct Pending {
    key: Key,
    rv: u64,
    value: Option<Arc<Value>>,
    reply: oneshot::Sender<Result<(), LogError>>,
}

impl Pending {
    pub(crate) fn record(&self) -> Record<'_> {
        Record { key: &self.key, rv: self.rv, value: self.value.as_deref() }
    }
}

impl Store {
    /// Opens the store; `None` stores everything in memory only.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, LogError> {
        let state = Arc::new(Mutex::new(State::default()));
        let log = match path {
            None => None,
            Some(path) => {
                let (database, rv, objects) = Log::load(path)?;
                let mut guard = lock(&state);
                (guard.assigned, guard.visible, guard.began) = (rv, rv, rv);
                for (key, value) in objects {
                    let at = (key.namespace, key.name);
                    guard.table(&key.resource).objects.insert(at, Arc::new(value));
                }
                drop(guard);
                let state = state.clone();
                let complete_batch = move |batch: Vec<Pending>, result: Result<(), LogError>| {
                    complete_batch(&state, batch, &result)
                };
                Some(Log::start(path, database, complete_batch)?)
            }
        };
        Ok(Self { state, log })
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        let state = lock(&self.state);
        state.tables.get(&key.resource)?.objects.get(&(key.namespace.clone(), key.name.clone())).cloned()
    }

    /// The visible resourceVersion.
    pub(crate) fn revision(&self) -> u64 {
        lock(&self.state).visible
    }

    /// All objects of a resource, or those of one namespace.
    pub(crate) fn list(&self, resource: &str, namespace: &str) -> Page {
        self.list_after(resource, namespace, None, usize::MAX)
    }

    /// As `list`, beginning after an object, up to a number of objects.
    pub(crate) fn list_after(
        &self,
        resource: &str,
        namespace: &str,
        after: Option<&(String, String)>,
        limit: usize,
    ) -> Page {
        let state = lock(&self.state);
        let rv = state.visible;
        let Some(table) = state.tables.get(resource) else {
            return Page { items: Vec::new(), more: false, rv };
        };
        let start = match after {
            Some(key) => Bound::Excluded(key.clone()),
            None => Bound::Included((namespace.to_owned(), String::new())),
        };
        let mut all = table
            .objects
            .range((start, Bound::Unbounded))
            .take_while(|((ns, _), _)| namespace.is_empty() || ns == namespace);
        let items = all.by_ref().take(limit).map(|(_, object)| object.clone()).collect();
        Page { items, more: all.next().is_some(), rv }
    }

    /// Number of objects of a resource, or of one namespace of it.
    pub(crate) fn count(&self, resource: &str, namespace: &str) -> usize {
        let state = lock(&self.state);
        let Some(table) = state.tables.get(resource) else { return 0 };
        if namespace.is_empty() {
            return table.objects.len();
        }
        let from = (namespace.to_owned(), String::new());
        table.objects.range(from..).take_while(|((ns, _), _)| ns == namespace).count()
    }

    /// Whether a resource has no objects.
    pub(crate) fn is_empty(&self, resource: &str) -> bool {
        lock(&self.state).tables.get(resource).is_none_or(|t| t.objects.is_empty())
    }

    /// Replaces (`Some`), creates (`expected` is `None`) or deletes (`None`) an object if it is unchanged
    /// since the caller read it.
    pub(crate) async fn write(
        &self,
        key: &Key,
        expected: Option<&Arc<Value>>,
        new: Option<Value>,
    ) -> Result<(Option<Arc<Value>>, u64), WriteError> {
        let wait = {
            let mut state = lock(&self.state);
            if let Some(pending) = state.pending.get(key) {
                Err(pending.clone().notified_owned())
            } else {
                let at = (key.namespace.clone(), key.name.clone());
                let current = state.tables.get(&key.resource).and_then(|t| t.objects.get(&at));
                let same = match (current, expected) {
                    (None, None) => true,
                    (Some(current), Some(expected)) => Arc::ptr_eq(current, expected),
                    _ => false,
                };
                if !same || (current.is_none() && new.is_none()) {
                    return Err(WriteError::Raced);
                }
                state.assigned += 1;
                let rv = state.assigned;
                let value = new.map(|mut value| {
                    meta::metadata(&mut value).insert("resourceVersion".to_owned(), rv.to_string().into());
                    Arc::new(value)
                });
                let Some(log) = &self.log else {
                    state.table(&key.resource).apply(key, rv, value.clone());
                    state.visible = rv;
                    return Ok((value, rv));
                };
                let (reply, answer) = oneshot::channel();
                // Sent under the lock, so that the log receives writes in the order of their resourceVersion.
                log.send(Pending { key: key.clone(), rv, value: value.clone(), reply })?;
                state.pending.insert(key.clone(), Arc::new(Notify::new()));
                Ok((answer, value, rv))
            }
        };
        match wait {
            // Another write of the same object is pending, so the caller's state is about to be outdated.
            Err(settled) => {
                settled.await;
                Err(WriteError::Raced)
            }
            Ok((answer, value, rv)) => {
                answer.await.map_err(|_| LogError::Stopped)??;
                Ok((value, rv))
            }
        }
    }

    /// Subscribes to the changes of a resource: the value is the resourceVersion of the last one.
    pub(crate) fn subscribe(&self, resource: &str) -> watch::Receiver<u64> {
        lock(&self.state).table(resource).changed.subscribe()
    }

    /// Events after `rv` and the resourceVersion up to which they are complete; `Err` is the start of the
    /// history.
    pub(crate) fn events_after(&self, resource: &str, rv: u64) -> Result<(Vec<Event>, u64), u64> {
        let mut state = lock(&self.state);
        let visible = state.visible;
        let table = state.table(resource);
        if rv < table.floor {
            return Err(table.floor);
        }
        let start = table.history.partition_point(|event| event.rv <= rv);
        Ok((table.history.range(start..).cloned().collect(), visible))
    }

    /// Objects and a subscription that starts exactly after them.
    pub(crate) fn list_and_subscribe(&self, resource: &str, namespace: &str) -> (Page, watch::Receiver<u64>) {
        let receiver = self.subscribe(resource);
        (self.list(resource, namespace), receiver)
    }

    /// Ends all watches of a resource that is no longer served and drops its history.
    pub(crate) fn close(&self, resource: &str) {
        let mut state = lock(&self.state);
        let visible = state.visible;
        let table = state.table(resource);
        table.history.clear();
        table.floor = visible;
        // Dropping the old sender ends the watches.
        table.changed = watch::channel(visible).0;
    }

    /// Waits until everything acknowledged or pending is on disk, and closes the log.
    pub(crate) fn shutdown(&self) {
        if let Some(log) = &self.log {
            log.stop();
        }
    }
}

/// Runs on the log's thread after a batch was written or refused.
fn complete_batch(state: &Mutex<State>, batch: Vec<Pending>, result: &Result<(), LogError>) {
    let mut guard = lock(state);
    let mut done = Vec::with_capacity(batch.len());
    for Pending { key, rv, value, reply } in batch {
        if result.is_ok() {
            guard.table(&key.resource).apply(&key, rv, value);
            guard.visible = rv;
        }
        done.push((guard.pending.remove(&key), reply));
    }
    drop(guard);
    for (waiting, reply) in done {
        if let Some(waiting) = waiting {
            waiting.notify_waiters();
        }
        // The client may have disconnected; its write stands.
        let _ = reply.send(result.clone());
    }
}

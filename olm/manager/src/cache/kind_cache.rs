//! All objects of one kind, from one watch that all controllers share.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
};

use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        reflector::ObjectRef,
        watcher::{self, Event, watcher},
    },
};
use olm_client::patient;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{
    cached::Cached,
    table::{ObjectTable, version},
};
use crate::runner::{Controller, Key, Objects, key};

/// Number of recent deletions that are kept, so that the late response of a concurrent write does not restore
/// a deleted object. Far more than there are concurrent writes.
const RECENT_DELETIONS: usize = 1_024;

/// The objects of a kind. They come from the watch and from the responses of our own writes
/// ([`Self::store_written`]); of two states of an object the later one stays. A change is stored before it is
/// announced.
pub(crate) struct KindCache<K: Cached> {
    table: Arc<RwLock<ObjectTable<K>>>,
    feed: Mutex<Feed<K>>,
    synced: watch::Sender<bool>,
    selected: watcher::Config,
    trim: fn(&mut K),
    /// Whether a kind that the API server does not serve counts as empty.
    optional: bool,
}

/// The mutable part.
struct Feed<K: Cached> {
    /// A list that is being read.
    list: Option<ObjectTable<K>>,
    /// Receivers of changes after the first list: new, changed and deleted objects.
    subscribers: Vec<mpsc::UnboundedSender<Arc<K>>>,
    /// Receivers of the keys of all objects, and then of changes.
    controllers: Vec<mpsc::UnboundedSender<Key>>,
    /// The most recent deletions, with their resource versions.
    deleted: VecDeque<(String, String, u64)>,
}

impl<K: Cached> Feed<K> {
    fn notify(&mut self, object: &Arc<K>) {
        self.subscribers.retain(|subscriber| subscriber.send(Arc::clone(object)).is_ok());
    }

    fn enqueue(&mut self, namespace: &str, name: &str) {
        let key = key(namespace, name);
        self.controllers.retain(|controller| controller.send(Arc::clone(&key)).is_ok());
    }

    fn deleted_later(&self, object: &K) -> bool {
        let Some(version) = version(object) else { return false };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        self.deleted.iter().any(|(ns, n, went)| *ns == namespace && *n == name && *went >= version)
    }
}

impl<K: Cached> KindCache<K> {
    /// The objects that `selected` selects. `trim` removes unused fields; `keys` are additional lookup keys.
    pub(crate) fn new(selected: watcher::Config, trim: fn(&mut K), keys: fn(&K) -> Vec<String>) -> Self {
        Self {
            table: Arc::new(RwLock::new(ObjectTable::new(keys))),
            feed: Mutex::new(Feed {
                list: None,
                subscribers: Vec::new(),
                controllers: Vec::new(),
                deleted: VecDeque::new(),
            }),
            synced: watch::Sender::new(false),
            selected,
            trim,
            optional: false,
        }
    }

    /// For a kind that the API server may not serve: then there are no objects of it.
    pub(crate) fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Follows the objects until it is dropped.
    pub(crate) async fn follow(&self, api: Api<K>) {
        let mut events = std::pin::pin!(patient(watcher(api, self.selected.clone())));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event),
                Err(watcher::Error::InitialListFailed(kube::Error::Api(status)))
                    if self.optional && status.is_not_found() =>
                {
                    self.take(Event::Init);
                    self.take(Event::InitDone);
                }
                Err(error) => {
                    tracing::warn!(kind = &*K::kind(&()), %error, "watch failed, retrying")
                }
            }
        }
    }

    pub(super) fn take(&self, event: Event<K>) {
        let mut feed = self.feed();
        match event {
            Event::Init => feed.list = Some(self.table().another()),
            Event::InitApply(object) => {
                let object = self.trimmed(object);
                if let Some(list) = &mut feed.list {
                    list.insert(&object);
                }
            }
            Event::InitDone => self.listed(&mut feed),
            Event::Apply(object) => self.insert(&mut feed, object),
            Event::Delete(object) => self.remove(&mut feed, &object),
        }
    }

    /// Replaces the known objects by a complete list. Unchanged objects are not announced, however often they
    /// are listed.
    fn listed(&self, feed: &mut Feed<K>) {
        let Some(list) = feed.list.take() else { return };
        let before =
            std::mem::replace(&mut *self.table.write().unwrap_or_else(PoisonError::into_inner), list);
        let first = !*self.synced.borrow();
        let table = self.table();
        let mut places: Vec<_> = table.places().collect();
        places.sort_by_key(|(namespace, name)| K::sort_key(namespace, name));
        // The objects of the first list are announced to controllers alone, by their keys.
        for (namespace, name) in places {
            let (now, known) = (table.version(namespace, name), before.version(namespace, name));
            if now.is_some() && now == known {
                continue;
            }
            if first {
                feed.enqueue(namespace, name);
            } else if let Some(object) = table.get(namespace, name) {
                feed.notify(&object);
                feed.enqueue(namespace, name);
            }
        }
        for (namespace, name) in before.places().filter(|(namespace, name)| !table.has(namespace, name)) {
            if let Some(object) = before.get(namespace, name) {
                feed.notify(&object);
            }
        }
        drop(table);
        self.synced.send_replace(true);
    }

    fn insert(&self, feed: &mut Feed<K>, object: K) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let known = self.table().version(&namespace, &name);
        // It contains nothing new.
        if version(&object).zip(known).is_some_and(|(new, known)| new <= known) {
            return;
        }
        let object = self.trimmed(object);
        self.table.write().unwrap_or_else(PoisonError::into_inner).insert(&object);
        feed.notify(&object);
        feed.enqueue(&namespace, &name);
    }

    fn remove(&self, feed: &mut Feed<K>, object: &K) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        if let Some(version) = version(object) {
            feed.deleted.push_back((namespace.clone(), name.clone(), version));
            if feed.deleted.len() > RECENT_DELETIONS {
                feed.deleted.pop_front();
            }
        }
        let kept = self.get(&namespace, &name);
        // It was recreated under the same name meanwhile.
        let replaced = kept.as_ref().is_some_and(|kept| {
            kept.uid() != object.uid()
                && version(kept.as_ref()).zip(version(object)).is_some_and(|(k, o)| k > o)
        });
        let Some(kept) = kept.filter(|_| !replaced) else { return };
        self.table.write().unwrap_or_else(PoisonError::into_inner).remove(&namespace, &name);
        feed.notify(&kept);
    }

    fn trimmed(&self, mut object: K) -> Arc<K> {
        object.meta_mut().managed_fields = None;
        (self.trim)(&mut object);
        Arc::new(object)
    }

    /// Stores the response of a write, so that no controller, the writer first, uses an older state or waits
    /// for the watch.
    pub(crate) fn store_written(&self, object: K) {
        let mut feed = self.feed();
        if !feed.deleted_later(&object) {
            self.insert(&mut feed, object);
        }
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.table().get(namespace, name)
    }

    pub(crate) fn has(&self, namespace: &str, name: &str) -> bool {
        self.table().has(namespace, name)
    }

    /// The objects of a namespace, by name.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.table().in_namespace(namespace)
    }

    /// The objects with this key.
    pub(crate) fn keyed(&self, key: &str) -> Vec<Arc<K>> {
        let table = self.table();
        table.keyed(key).filter_map(|(namespace, name)| table.get(namespace, name)).collect()
    }

    /// References to the objects with this key.
    pub(crate) fn references_keyed(&self, key: &str) -> Vec<ObjectRef<K>> {
        self.table().keyed(key).map(|(namespace, name)| reference(namespace, name)).collect()
    }

    /// References to the objects of a namespace.
    pub(crate) fn references_in(&self, namespace: &str) -> Vec<ObjectRef<K>> {
        self.table().names(namespace).map(|name| reference(namespace, name)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table().places().next().is_none()
    }

    /// References to all objects.
    pub(crate) fn references(&self) -> Vec<ObjectRef<K>> {
        self.table().places().map(|(namespace, name)| reference(namespace, name)).collect()
    }

    /// The state of each object, by namespace and name.
    pub(crate) fn briefs(&self, mut visit: impl FnMut(&str, &str, &K::Brief)) {
        self.table().briefs().for_each(|(namespace, name, brief)| visit(namespace, name, brief));
    }

    /// Visits all objects, one at a time.
    pub(crate) fn each(&self, mut visit: impl FnMut(&K)) {
        self.table().all().for_each(|object| visit(&object));
    }

    /// All objects. For kinds with few objects.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.table().all().collect()
    }

    pub(crate) fn controller(&self) -> Controller<K> {
        Controller::new(Arc::clone(&self.table) as Arc<dyn Objects<K>>, self.keys())
    }

    /// The keys of all objects, and then of new and changed ones.
    fn keys(&self) -> impl Stream<Item = Key> + Send + 'static + use<K> {
        let (to, keys) = mpsc::unbounded_channel();
        let mut feed = self.feed();
        for (namespace, name) in self.table().places() {
            // The receiver is in this function.
            let _ = to.send(key(namespace, name));
        }
        feed.controllers.push(to);
        UnboundedReceiverStream::new(keys)
    }

    /// Maps changes and deletions of these objects to objects of other kinds, for
    /// [`Controller::reconcile_on`]. Objects that exist at the start of the manager trigger nothing: the
    /// other controllers reconcile all of theirs then.
    pub(crate) fn wakes<T, I>(
        &self,
        to: impl Fn(&K) -> I + Send + 'static,
    ) -> impl Stream<Item = ObjectRef<T>> + Send + 'static
    where
        T: Resource<DynamicType = ()> + 'static,
        I: IntoIterator<Item = ObjectRef<T>>,
        I::IntoIter: Send + 'static,
    {
        self.changes().flat_map(move |object| stream::iter(to(&object)))
    }

    /// Changes from now on, without the first list.
    fn changes(&self) -> impl Stream<Item = Arc<K>> + Send + 'static + use<K> {
        let (sender, changes) = mpsc::unbounded_channel();
        self.feed().subscribers.push(sender);
        UnboundedReceiverStream::new(changes)
    }

    /// Returns when the cluster has been read once.
    pub(crate) async fn synced(&self) {
        // The sender is `self`, so it is not dropped.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    fn feed(&self) -> MutexGuard<'_, Feed<K>> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> RwLockReadGuard<'_, ObjectTable<K>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reference<K: Cached>(namespace: &str, name: &str) -> ObjectRef<K> {
    let reference = ObjectRef::new(name);
    if namespace.is_empty() { reference } else { reference.within(namespace) }
}

impl<K: Cached> Objects<K> for RwLock<ObjectTable<K>> {
    fn find(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let table = self.read().unwrap_or_else(PoisonError::into_inner);
        if namespace.is_empty() {
            return table.get(namespace, name);
        }
        // A reconciliation of it also reads the neighbouring objects.
        let named = |object: &Arc<K>| object.meta().name.as_deref() == Some(name);
        table.in_namespace(namespace).into_iter().find(named)
    }

    fn keys(&self) -> Vec<Key> {
        let table = self.read().unwrap_or_else(PoisonError::into_inner);
        table.places().map(|(namespace, name)| key(namespace, name)).collect()
    }
}

#[cfg(test)]
mod tests;

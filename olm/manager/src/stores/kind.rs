//! All objects of one kind, as one watch tells them to everybody.

use std::{
    collections::VecDeque,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
};

use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        reflector::{ObjectRef, Store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::index::Index;

/// Deletions that are remembered, so that the answer to a write that was under way meanwhile brings nothing back. Far more than
/// there are writes at a time.
const REMEMBERED: usize = 1_024;

/// What can be kept.
pub(crate) trait Kept:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kept for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// An object that is new, or another than before, or gone.
#[derive(Debug, Clone)]
struct Change<K> {
    object: Arc<K>,
    gone: bool,
}

/// The objects of a kind. There are two ways in: the watch, and the answers to our own writes ([`Self::wrote`]); of two states of
/// an object the later one stays, whichever way it came. Whoever hears of a change finds it here.
pub(crate) struct Kind<K: Kept> {
    store: Store<K>,
    feed: Mutex<Feed<K>>,
    index: RwLock<Index<K>>,
    /// Not by `Store::wait_until_ready`: kube keeps one waker a store, and that is the controller's.
    filled: watch::Sender<bool>,
    selected: watcher::Config,
    trim: fn(&mut K),
}

/// The side that changes.
struct Feed<K: Kept> {
    writer: Writer<K>,
    listeners: Vec<Listener<K>>,
    /// The objects that went last, with the version in which they did.
    gone: VecDeque<(String, String, u64)>,
}

struct Listener<K> {
    to: mpsc::UnboundedSender<Change<K>>,
    hears: Hears,
}

/// What a listener is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hears {
    /// Everything that is there, and then what changes.
    Everything,
    /// What changes once the cluster has been seen.
    News,
}

impl<K: Kept> Feed<K> {
    fn tell(&mut self, object: &Arc<K>, gone: bool) {
        self.tell_if(object, gone, |_| true);
    }

    fn tell_if(&mut self, object: &Arc<K>, gone: bool, wanted: impl Fn(Hears) -> bool) {
        let told = |listener: &Listener<K>| {
            !wanted(listener.hears) || listener.to.send(Change { object: Arc::clone(object), gone }).is_ok()
        };
        self.listeners.retain(told);
    }

    fn went_later(&self, object: &K) -> bool {
        let Some(version) = version(object) else { return false };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        self.gone.iter().any(|(ns, n, went)| *ns == namespace && *n == name && *went >= version)
    }
}

/// Versions of resources can be compared, since the API promises so.
fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

/// Whether `object` tells nothing that `kept` does not.
fn is_known<K: Resource>(object: &K, kept: &K) -> bool {
    version(object).zip(version(kept)).is_some_and(|(new, old)| new <= old)
}

impl<K: Kept> Kind<K> {
    /// Those that `selected` says. `trim` takes from each what nobody reads; by `keys` it can be found, beside its name.
    pub(crate) fn new(selected: watcher::Config, trim: fn(&mut K), keys: fn(&K) -> Vec<String>) -> Self {
        let writer = Writer::default();
        Self {
            store: writer.as_reader(),
            feed: Mutex::new(Feed { writer, listeners: Vec::new(), gone: VecDeque::new() }),
            index: RwLock::new(Index::new(keys)),
            filled: watch::Sender::new(false),
            selected,
            trim,
        }
    }

    /// Follows the objects until it is dropped.
    pub(crate) async fn follow(&self, api: Api<K>) {
        let mut events = std::pin::pin!(watcher(api, self.selected.clone()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event),
                Err(error) => {
                    tracing::warn!(kind = &*K::kind(&()), %error, "watch failed; it is tried again")
                }
            }
        }
    }

    pub(super) fn take(&self, event: Event<K>) {
        let mut feed = self.feed();
        match event {
            Event::Init => feed.writer.apply_watcher_event(&Event::Init),
            Event::InitApply(mut object) => {
                self.trimmed(&mut object);
                feed.writer.apply_watcher_event(&Event::InitApply(object));
            }
            Event::InitDone => self.listed(&mut feed),
            Event::Apply(object) => self.put(&mut feed, object),
            Event::Delete(object) => self.remove(&mut feed, &object),
        }
    }

    /// A whole list takes the place of what was known. What is the same is no news, however often it is listed.
    fn listed(&self, feed: &mut Feed<K>) {
        feed.writer.apply_watcher_event(&Event::InitDone);
        let now = self.store.state();
        let before = {
            let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
            let next = Index::of(&now, index.keys());
            std::mem::replace(&mut *index, next)
        };
        let first = !*self.filled.borrow();
        for object in &now {
            let known = before.get(&object.namespace().unwrap_or_default(), &object.name_any());
            if known.is_none_or(|known| known.resource_version() != object.resource_version()) {
                feed.tell_if(object, false, |hears| !first || hears == Hears::Everything);
            }
        }
        let index = self.index();
        for object in before.all() {
            if index.get(&object.namespace().unwrap_or_default(), &object.name_any()).is_none() {
                feed.tell(&object, true);
            }
        }
        drop(index);
        self.filled.send_replace(true);
    }

    fn put(&self, feed: &mut Feed<K>, mut object: K) {
        let reference = ObjectRef::from_obj(&object);
        if self.store.get(&reference).is_some_and(|kept| is_known(&object, &kept)) {
            return;
        }
        self.trimmed(&mut object);
        feed.writer.apply_watcher_event(&Event::Apply(object));
        let Some(object) = self.store.get(&reference) else { return };
        self.index.write().unwrap_or_else(PoisonError::into_inner).insert(&object);
        feed.tell(&object, false);
    }

    fn remove(&self, feed: &mut Feed<K>, object: &K) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        if let Some(version) = version(object) {
            feed.gone.push_back((namespace.clone(), name.clone(), version));
            if feed.gone.len() > REMEMBERED {
                feed.gone.pop_front();
            }
        }
        let kept = self.store.get(&ObjectRef::from_obj(object));
        // Another of that name was made meanwhile.
        let replaced = kept.as_ref().is_some_and(|kept| {
            kept.uid() != object.uid()
                && version(kept.as_ref()).zip(version(object)).is_some_and(|(k, o)| k > o)
        });
        let Some(kept) = kept.filter(|_| !replaced) else { return };
        feed.writer.apply_watcher_event(&Event::Delete(object.clone()));
        self.index.write().unwrap_or_else(PoisonError::into_inner).remove(&namespace, &name);
        feed.tell(&kept, true);
    }

    fn trimmed(&self, object: &mut K) {
        object.meta_mut().managed_fields = None;
        (self.trim)(object);
    }

    /// Takes in what the API server answered to a write: nobody, the writer first, works on an older state any more, and nobody
    /// waits for the watch.
    pub(crate) fn wrote(&self, object: K) {
        let mut feed = self.feed();
        if !feed.went_later(&object) {
            self.put(&mut feed, object);
        }
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.index().get(namespace, name).cloned()
    }

    /// Those of a namespace, by name.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.index().in_namespace(namespace)
    }

    /// Those that have this key.
    pub(crate) fn keyed(&self, key: &str) -> Vec<Arc<K>> {
        self.index().keyed(key)
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.index().all()
    }

    /// As kube's controllers read it.
    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// A controller of these objects.
    pub(crate) fn controller(&self) -> Controller<K> {
        let there = |change: &Change<K>| std::future::ready(!change.gone);
        let objects = self
            .changes(Hears::Everything)
            .filter(there)
            .map(|change| ObjectRef::from_obj(change.object.as_ref()));
        Controller::for_stream(stream::pending(), self.store()).reconcile_on(objects)
    }

    /// What changes of these objects, and their deletion, mean for others: for `Controller::reconcile_on`. Of what is there when the
    /// manager starts nothing is told: the others are looked at then anyway, each by its own controller.
    pub(crate) fn wakes<T, I>(
        &self,
        whom: impl Fn(&K) -> I + Send + 'static,
    ) -> impl Stream<Item = ObjectRef<T>> + Send + 'static
    where
        T: Resource<DynamicType = ()> + 'static,
        I: IntoIterator<Item = ObjectRef<T>>,
        I::IntoIter: Send + 'static,
    {
        self.changes(Hears::News).flat_map(move |change| stream::iter(whom(&change.object)))
    }

    /// What is there, where that is asked for, and from then on all that changes.
    fn changes(&self, hears: Hears) -> impl Stream<Item = Change<K>> + Send + 'static + use<K> {
        let (to, changes) = mpsc::unbounded_channel();
        let mut feed = self.feed();
        if hears == Hears::Everything {
            for object in self.all() {
                // Its other end is in this function.
                let _ = to.send(Change { object, gone: false });
            }
        }
        feed.listeners.push(Listener { to, hears });
        UnboundedReceiverStream::new(changes)
    }

    /// Returns when the cluster has been seen once.
    pub(crate) async fn filled(&self) {
        // The sender is `self`: it is there.
        let _ = self.filled.subscribe().wait_for(|filled| *filled).await;
    }

    fn feed(&self) -> MutexGuard<'_, Feed<K>> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self) -> RwLockReadGuard<'_, Index<K>> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

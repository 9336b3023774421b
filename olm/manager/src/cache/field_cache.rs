//! Caches a few fields of objects instead of the objects.
//!
//! A cluster with many operators has tens of thousands of roles, accounts and Deployments. A decision needs a
//! few bytes of each; whole objects, as in kube's stores, are fifty times that.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    runtime::watcher::{self, Event},
};
use olm_api::names;
use olm_engine::ownership::{OwnerKey, out_of_reach};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;

/// Number of recent deletions that are kept, so that the late response of a concurrent write does not restore
/// a deleted object. Far more than there are concurrent writes.
const RECENT_DELETIONS: usize = 1_024;

/// An object that is new or deleted, or whose relevant fields changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectChange {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The owner that its labels name.
    pub(crate) owner: Option<OwnerKey>,
    pub(crate) deleted: bool,
    /// Operators whose component label it has.
    pub(crate) components: Vec<String>,
}

/// The cached fields of the objects of a kind.
#[derive(Debug)]
pub(crate) struct FieldCache<V> {
    state: Mutex<State<V>>,
    synced: watch::Sender<bool>,
}

impl<V> Default for FieldCache<V> {
    fn default() -> Self {
        Self { state: Mutex::default(), synced: watch::Sender::new(false) }
    }
}

type Spaces<V> = HashMap<Box<str>, BTreeMap<Box<str>, Entry<V>>>;

#[derive(Debug)]
struct State<V> {
    /// By namespace; cluster-wide objects are in the one without a name.
    spaces: Spaces<V>,
    /// The most recent deletions, with their resource versions.
    deleted: VecDeque<(String, String, u64)>,
    subscribers: Vec<mpsc::UnboundedSender<ObjectChange>>,
    /// Owners out of reach of garbage collection, from the first list.
    unreachable: BTreeSet<OwnerKey>,
}

impl<V> Default for State<V> {
    fn default() -> Self {
        Self {
            spaces: HashMap::new(),
            deleted: VecDeque::new(),
            subscribers: Vec::new(),
            unreachable: BTreeSet::new(),
        }
    }
}

#[derive(Debug)]
struct Entry<V> {
    version: u64,
    value: V,
}

impl<V> State<V> {
    fn get(&self, namespace: &str, name: &str) -> Option<&Entry<V>> {
        self.spaces.get(namespace)?.get(name)
    }

    fn notify(&mut self, change: &ObjectChange) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

impl<V: Clone + PartialEq> FieldCache<V> {
    /// Follows a watch to its end; `read` extracts the cached fields of each object.
    pub(crate) async fn follow<K: Resource<DynamicType = ()> + Send>(
        &self,
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
        read: impl Fn(&K) -> V,
    ) {
        let mut events = std::pin::pin!(olm_client::patient(events));
        let (mut list, mut unreachable) = (Spaces::new(), BTreeSet::new());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => (list, unreachable) = (Spaces::new(), BTreeSet::new()),
                Ok(Event::InitApply(object)) => {
                    unreachable.extend(
                        OwnerKey::of(object.meta()).filter(|owner| out_of_reach(object.meta(), owner)),
                    );
                    let (namespace, name) = place(object.meta());
                    let entry = Entry { version: version(object.meta()), value: read(&object) };
                    list.entry(namespace.into()).or_default().insert(name.into(), entry);
                }
                Ok(Event::InitDone) => {
                    self.listed(std::mem::take(&mut list), std::mem::take(&mut unreachable))
                }
                Ok(Event::Apply(object)) => self.insert(object.meta(), read(&object)),
                Ok(Event::Delete(object)) => self.remove(object.meta()),
                Err(error) => {
                    tracing::warn!(kind = &*K::kind(&()), %error, "watch failed, retrying")
                }
            }
        }
    }

    /// Replaces the known objects by a complete list.
    fn listed(&self, list: Spaces<V>, unreachable: BTreeSet<OwnerKey>) {
        let mut state = self.state();
        if !*self.synced.borrow() {
            state.unreachable = unreachable;
        }
        let before = std::mem::replace(&mut state.spaces, list);
        // Objects that exist at the start of the manager are reconciled anyway.
        if self.synced.send_replace(true) {
            let mut news = Vec::new();
            for (namespace, name, entry) in flat(&before) {
                let now = state.get(namespace, name);
                if now.is_none_or(|now| now.value != entry.value) {
                    news.push(ObjectChange { deleted: now.is_none(), ..change_of(namespace, name) });
                }
            }
            for (namespace, name, _) in flat(&state.spaces) {
                if before.get(namespace).is_none_or(|space| !space.contains_key(name)) {
                    news.push(change_of(namespace, name));
                }
            }
            news.iter().for_each(|change| state.notify(change));
        }
    }

    /// Stores an object from a watch or from the response of a write; the later state stays.
    pub(crate) fn insert(&self, metadata: &ObjectMeta, value: V) {
        let (namespace, name) = place(metadata);
        let version = version(metadata);
        let mut state = self.state();
        let old = state.get(namespace, name);
        let went = |(ns, n, went): &(String, String, u64)| ns == namespace && n == name && *went >= version;
        if old.is_some_and(|old| old.version >= version) || state.deleted.iter().any(went) {
            return;
        }
        let same = old.is_some_and(|old| old.value == value);
        let space = state.spaces.entry(namespace.into()).or_default();
        space.insert(name.into(), Entry { version, value });
        if !same {
            state.notify(&changed(metadata));
        }
    }

    fn remove(&self, metadata: &ObjectMeta) {
        let (namespace, name) = place(metadata);
        let version = version(metadata);
        let mut state = self.state();
        state.deleted.push_back((namespace.to_owned(), name.to_owned(), version));
        if state.deleted.len() > RECENT_DELETIONS {
            state.deleted.pop_front();
        }
        // It was recreated under the same name meanwhile.
        if state.get(namespace, name).is_some_and(|kept| kept.version > version) {
            return;
        }
        if let Some(space) = state.spaces.get_mut(namespace) {
            space.remove(name);
            if space.is_empty() {
                state.spaces.remove(namespace);
            }
        }
        state.notify(&ObjectChange { deleted: true, ..changed(metadata) });
    }

    /// The cached fields of one object; `None` when it does not exist or is not known yet. Cluster-wide
    /// objects are in the namespace without a name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<V> {
        self.state().get(namespace, name).map(|entry| entry.value.clone())
    }

    /// The objects of a namespace, by name.
    pub(crate) fn within(&self, namespace: &str) -> Vec<(String, V)> {
        let state = self.state();
        let space = state.spaces.get(namespace).into_iter().flatten();
        space.map(|(name, entry)| (name.to_string(), entry.value.clone())).collect()
    }

    /// All changes from now on. For changes found by a list after an interrupted watch, the owner is unknown.
    pub(crate) fn changes(&self) -> impl Stream<Item = ObjectChange> + Send + 'static + use<V> {
        let (subscriber, changes) = mpsc::unbounded_channel();
        self.state().subscribers.push(subscriber);
        UnboundedReceiverStream::new(changes)
    }

    /// The owners out of reach of garbage collection that labels named in the first list. Available once.
    pub(crate) fn unreachable_owners(&self) -> BTreeSet<OwnerKey> {
        std::mem::take(&mut self.state().unreachable)
    }

    /// Returns when the cluster has been read once.
    pub(crate) async fn synced(&self) {
        // The sender is `self`, so it is not dropped.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn flat<V>(spaces: &Spaces<V>) -> impl Iterator<Item = (&str, &str, &Entry<V>)> {
    spaces.iter().flat_map(|(namespace, space)| {
        space.iter().map(move |(name, entry)| (namespace.as_ref(), name.as_ref(), entry))
    })
}

fn place(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// The API guarantees that resource versions are comparable.
fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn change_of(namespace: &str, name: &str) -> ObjectChange {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    ObjectChange { namespace, name, owner: None, deleted: false, components: Vec::new() }
}

fn changed(metadata: &ObjectMeta) -> ObjectChange {
    let (namespace, name) = place(metadata);
    ObjectChange {
        owner: OwnerKey::of(metadata),
        components: components(metadata),
        ..change_of(namespace, name)
    }
}

/// The Operators whose component label an object has.
pub(crate) fn components(metadata: &ObjectMeta) -> Vec<String> {
    let keys = metadata.labels.iter().flat_map(|labels| labels.keys());
    keys.filter_map(|key| key.strip_prefix(names::LABEL_COMPONENT_PREFIX)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;

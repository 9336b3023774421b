//! One watch per kind, shared by all controllers.
//!
//! A [`Cache`] holds the objects of one kind as of the last watch event, and calls its listeners for every
//! change, with the object before and after. The result of a write can be inserted at once
//! ([`Cache::assume`]), so that the controller that wrote it does not decide on the state before it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::{self, Debug, Display},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, Instant},
};

use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Namespace (empty for cluster-scoped objects) and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Called with an object before and after a change; `None` stands for "does not exist".
pub(crate) type Listener<K> = Box<dyn Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync>;

/// A kind that a [`Cache`] can hold.
pub(crate) trait Cacheable:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Cacheable for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

/// How long a created object is visible without confirmation by the watch.
const ASSUMED_FOR: Duration = Duration::from_secs(30);
/// Limit of [`State::deleted_uids`].
const REMEMBERED: usize = 1024;

/// The objects of one kind.
pub(crate) struct Cache<K> {
    state: RwLock<State<K>>,
    /// Whether the first list was read.
    ready: watch::Sender<bool>,
}

struct State<K> {
    objects: HashMap<Key, Arc<K>>,
    /// Objects known from a write alone, and since when.
    assumed: HashMap<Key, Instant>,
    /// Objects that the watch deleted: a write that finished late must not insert them again.
    deleted_uids: HashSet<String>,
    /// The same, oldest first.
    deletion_order: VecDeque<String>,
}

impl<K: Cacheable> Cache<K> {
    pub(crate) fn new() -> Arc<Self> {
        let state = State {
            objects: HashMap::new(),
            assumed: HashMap::new(),
            deleted_uids: HashSet::new(),
            deletion_order: VecDeque::new(),
        };
        Arc::new(Self { state: RwLock::new(state), ready: watch::Sender::new(false) })
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        let state = self.read();
        state.objects.get(key).filter(|_| state.is_current(key)).cloned()
    }

    pub(crate) fn list(&self, namespace: &str) -> Vec<Arc<K>> {
        let state = self.read();
        let mut objects: Vec<(&Key, &Arc<K>)> = state
            .objects
            .iter()
            .filter(|(key, _)| key.namespace == namespace && state.is_current(key))
            .collect();
        objects.sort_by(|a, b| a.0.cmp(b.0));
        objects.into_iter().map(|(_, object)| object.clone()).collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        let state = self.read();
        state
            .objects
            .iter()
            .filter(|(key, _)| state.is_current(key))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Waits for the first list.
    pub(crate) async fn ready(&self) {
        // The sender lives as long as this cache.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Inserts the result of a write, unless the watch reported a newer version, a later object of the same name,
    /// or the deletion. Listeners are not called.
    pub(crate) fn assume(&self, object: K) {
        let key = Key::of(&object);
        let mut state = self.write();
        if object.uid().is_some_and(|uid| state.deleted_uids.contains(&uid)) {
            return;
        }
        if let Some(known) = state.objects.get(&key)
            && (known.uid() != object.uid() || version(known.as_ref()) >= version(&object))
        {
            return;
        }
        if !state.objects.contains_key(&key) {
            state.assumed.insert(key.clone(), Instant::now());
        }
        state.objects.insert(key, Arc::new(object));
    }

    /// Watches until `shutdown` and calls `listeners` for every change.
    pub(crate) async fn run(
        self: Arc<Self>,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        listeners: Vec<Listener<K>>,
        shutdown: CancellationToken,
    ) {
        let stream = watcher(api, config).default_backoff().take_until(shutdown.cancelled_owned());
        tokio::pin!(stream);
        let mut listed: Option<HashMap<Key, Arc<K>>> = None;
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Init) => listed = Some(HashMap::new()),
                Ok(watcher::Event::InitApply(object)) => {
                    if let (Some(listed), Some(object)) = (listed.as_mut(), readable(object)) {
                        listed.insert(Key::of(&object), Arc::new(object));
                    }
                }
                Ok(watcher::Event::InitDone) => {
                    let changes = self.write().replace(listed.take().unwrap_or_default());
                    notify(&listeners, &changes);
                    self.ready.send_replace(true);
                }
                Ok(watcher::Event::Apply(object)) => {
                    if let Some(object) = readable(object) {
                        let change = self.write().put(object);
                        notify(&listeners, &[change]);
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    let change = self.write().remove(&Key::of(&object), object.uid());
                    notify(&listeners, &[change]);
                }
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "watch failed, restarting");
                }
            }
        }
    }
}

type Change<K> = (Option<Arc<K>>, Option<Arc<K>>);

fn notify<K>(listeners: &[Listener<K>], changes: &[Change<K>]) {
    for (old, new) in changes {
        for listener in listeners {
            listener(old.as_ref(), new.as_ref());
        }
    }
}

/// The object; a malformed one is logged and left out, as it must not end the watch.
fn readable<K: Resource<DynamicType = ()>>(guard: DeserializeGuard<K>) -> Option<K> {
    match guard.0 {
        Ok(object) => Some(object),
        Err(invalid) => {
            let name = invalid.metadata.name.unwrap_or_default();
            tracing::warn!(kind = %K::kind(&()), %name, error = %invalid.error, "ignoring an unreadable object");
            None
        }
    }
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl<K: Resource> State<K> {
    fn is_current(&self, key: &Key) -> bool {
        self.assumed.get(key).is_none_or(|since| since.elapsed() < ASSUMED_FOR)
    }

    fn put(&mut self, object: K) -> Change<K> {
        let key = Key::of(&object);
        self.assumed.remove(&key);
        let object = Arc::new(object);
        let old = self.objects.insert(key, object.clone());
        (old, Some(object))
    }

    fn remove(&mut self, key: &Key, uid: Option<String>) -> Change<K> {
        if let Some(uid) = uid
            && self.deleted_uids.insert(uid.clone())
        {
            self.deletion_order.push_back(uid);
            if self.deletion_order.len() > REMEMBERED
                && let Some(oldest) = self.deletion_order.pop_front()
            {
                self.deleted_uids.remove(&oldest);
            }
        }
        self.assumed.remove(key);
        (self.objects.remove(key), None)
    }

    /// Replaces all objects by a fresh list. Recently assumed objects may be newer than the list and stay.
    fn replace(&mut self, listed: HashMap<Key, Arc<K>>) -> Vec<Change<K>> {
        let mut changes = Vec::new();
        let keys: Vec<Key> = self.objects.keys().cloned().collect();
        for key in keys {
            let may_be_newer = self.assumed.contains_key(&key) && self.is_current(&key);
            if !may_be_newer && !listed.contains_key(&key) {
                let uid = self.objects.get(&key).and_then(|object| object.meta().uid.clone());
                changes.push(self.remove(&key, uid));
            }
        }
        for (key, object) in listed {
            let known = self.objects.get(&key);
            if known.is_some_and(|known| version(known.as_ref()) > version(object.as_ref())) {
                continue;
            }
            self.assumed.remove(&key);
            let old = self.objects.insert(key, object.clone());
            changes.push((old, Some(object)));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.namespace = Some("n".to_owned());
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    #[test]
    fn assumed_objects_stay_until_the_watch_replaces_them() {
        let cache = Cache::<ConfigMap>::new();
        cache.assume(object("a", "1", 5));
        assert_eq!(cache.list("n").len(), 1);
        let key = Key::new("n", "a");
        cache.write().put(object("a", "1", 6));
        cache.assume(object("a", "1", 5));
        assert_eq!(
            cache.get(&key).and_then(|o| o.resource_version()).as_deref(),
            Some("6"),
            "older writes lose"
        );
        cache.write().remove(&key, Some("1".to_owned()));
        cache.assume(object("a", "1", 7));
        assert!(cache.get(&key).is_none(), "the dead stay dead");
    }

    #[test]
    fn a_new_list_removes_missing_objects() {
        let cache = Cache::<ConfigMap>::new();
        cache.write().put(object("a", "1", 1));
        cache.write().put(object("b", "2", 2));
        cache.assume(object("c", "3", 9));
        let fresh = [object("b", "2", 4)].map(|o| (Key::of(&o), Arc::new(o)));
        let changes = cache.write().replace(fresh.into_iter().collect());
        assert_eq!(changes.len(), 2);
        let names: Vec<String> = cache.list("n").iter().map(|o| o.name_any()).collect();
        assert_eq!(names, ["b", "c"], "what was assumed is newer than the list");
    }
}

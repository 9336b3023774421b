//! Objects by namespace and name, and by additional keys: a change of one object does not cost work for all.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use kube::{Resource, ResourceExt};

use super::{
    cached::Cached,
    compress::{Compressor, Packed},
};

type Keys<K> = fn(&K) -> Vec<String>;
type Place = (Arc<str>, Arc<str>);

/// Namespaces with their objects.
type Opened<K> = VecDeque<(Arc<str>, Vec<Arc<K>>)>;

/// Number of namespaces whose objects stay decompressed: a decision about an object reads all of its
/// namespace, and the next object of the namespace follows. Enough for all controllers, each with a few
/// namespaces at a time.
const OPENED: usize = 16;

/// The API guarantees that resource versions are comparable.
pub(super) fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

pub(super) struct ObjectTable<K: Cached> {
    /// In an order that is equal for all kinds: their controllers read the same namespaces at about the same
    /// time.
    spaces: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Entry<K>>>,
    keyed: HashMap<Arc<str>, BTreeSet<Place>>,
    keys: Keys<K>,
    compressor: Compressor,
    /// All stored specs, by a hash of their content.
    specs: HashMap<u64, Weak<K::Spec>>,
    /// The objects of the most recently read namespaces, the latest at the end.
    opened: Mutex<Opened<K>>,
}

struct Entry<K: Cached> {
    version: Option<u64>,
    keys: Box<[Arc<str>]>,
    brief: K::Brief,
    stored: Stored<K>,
}

enum Stored<K: Cached> {
    Whole(Arc<K>),
    Packed { spec: Arc<K::Spec>, rest: Packed },
}

impl<K: Cached> ObjectTable<K> {
    pub(super) fn new(keys: Keys<K>) -> Self {
        Self {
            spaces: BTreeMap::new(),
            keyed: HashMap::new(),
            keys,
            compressor: Compressor::default(),
            specs: HashMap::new(),
            opened: Mutex::default(),
        }
    }

    /// An empty table for the same kind.
    pub(super) fn another(&self) -> Self {
        Self::new(self.keys)
    }

    pub(super) fn insert(&mut self, object: &Arc<K>) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        self.remove(&namespace, &name);
        let space = match self.spaces.get_key_value(namespace.as_str()) {
            Some((space, _)) => Arc::clone(space),
            None => Arc::from(namespace),
        };
        let name: Arc<str> = name.into();
        let keys = (self.keys)(object).into_iter().map(|key| self.note(&key, &space, &name)).collect();
        let entry = Entry {
            version: version(object.as_ref()),
            keys,
            brief: object.brief(),
            stored: self.store(object),
        };
        self.spaces.entry(space).or_default().insert(name, entry);
    }

    fn note(&mut self, key: &str, space: &Arc<str>, name: &Arc<str>) -> Arc<str> {
        let key = match self.keyed.get_key_value(key) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::from(key),
        };
        let holders = self.keyed.entry(Arc::clone(&key)).or_default();
        holders.insert((Arc::clone(space), Arc::clone(name)));
        key
    }

    fn store(&mut self, object: &Arc<K>) -> Stored<K> {
        let packed = object.apart().and_then(|parts| Some((self.compressor.pack(&parts.rest)?, parts)));
        let Some((rest, parts)) = packed else { return Stored::Whole(Arc::clone(object)) };
        let mut hasher = DefaultHasher::new();
        parts.key.hash(&mut hasher);
        let key = hasher.finish();
        let same = self.specs.get(&key).and_then(Weak::upgrade).filter(|same| **same == *parts.spec);
        let spec = same.unwrap_or_else(|| {
            // Removes unused specs; doing so occasionally is enough.
            if self.specs.len().is_power_of_two() {
                self.specs.retain(|_, spec| spec.strong_count() > 0);
            }
            let spec = Arc::new(parts.spec.clone());
            self.specs.insert(key, Arc::downgrade(&spec));
            spec
        });
        let stored = Stored::Packed { spec, rest };
        debug_assert!(self.unpack(&stored).is_some(), "a packed object can be unpacked: {object:?}");
        stored
    }

    fn unpack(&self, stored: &Stored<K>) -> Option<Arc<K>> {
        match stored {
            Stored::Whole(object) => Some(Arc::clone(object)),
            Stored::Packed { spec, rest } => {
                let object = self.compressor.open(rest).and_then(|rest| K::together(spec, &rest));
                if object.is_none() {
                    // It was written here, by the same types that read it.
                    tracing::error!(kind = &*K::kind(&()), "failed to unpack a stored object");
                }
                object.map(Arc::new)
            }
        }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        self.opened().retain(|(space, _)| **space != *namespace);
        let Some(space) = self.spaces.get_key_value(namespace).map(|(space, _)| Arc::clone(space)) else {
            return;
        };
        let Some(objects) = self.spaces.get_mut(namespace) else { return };
        let Some((name, old)) = objects.remove_entry(name) else { return };
        if objects.is_empty() {
            self.spaces.remove(namespace);
        }
        let place = (space, name);
        for key in old.keys {
            if let Some(holders) = self.keyed.get_mut(&key) {
                holders.remove(&place);
                if holders.is_empty() {
                    self.keyed.remove(&key);
                }
            }
        }
    }

    fn entry(&self, namespace: &str, name: &str) -> Option<&Entry<K>> {
        self.spaces.get(namespace)?.get(name)
    }

    pub(super) fn has(&self, namespace: &str, name: &str) -> bool {
        self.entry(namespace, name).is_some()
    }

    pub(super) fn version(&self, namespace: &str, name: &str) -> Option<u64> {
        self.entry(namespace, name)?.version
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let entry = self.entry(namespace, name)?;
        let opened =
            self.opened().iter().find(|(space, _)| **space == *namespace).and_then(|(_, objects)| {
                objects.iter().find(|object| object.meta().name.as_deref() == Some(name)).cloned()
            });
        opened.or_else(|| self.unpack(&entry.stored))
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let Some((space, objects)) = self.spaces.get_key_value(namespace) else { return Vec::new() };
        let mut opened = self.opened();
        if let Some(at) = opened.iter().position(|(known, _)| known == space)
            && let Some(known) = opened.remove(at)
        {
            let objects = known.1.clone();
            opened.push_back(known);
            return objects;
        }
        let objects: Vec<Arc<K>> = objects.values().filter_map(|entry| self.unpack(&entry.stored)).collect();
        if opened.len() >= OPENED {
            opened.pop_front();
        }
        opened.push_back((Arc::clone(space), objects.clone()));
        objects
    }

    /// Namespaces and names of the objects with a key.
    pub(super) fn keyed(&self, key: &str) -> impl Iterator<Item = &Place> {
        self.keyed.get(key).into_iter().flatten()
    }

    /// Names of the objects of a namespace.
    pub(super) fn names(&self, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        self.spaces.get(namespace).into_iter().flat_map(BTreeMap::keys)
    }

    /// Namespaces and names of all objects.
    pub(super) fn places(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.spaces.iter().flat_map(|(space, objects)| objects.keys().map(move |name| (space, name)))
    }

    pub(super) fn briefs(&self) -> impl Iterator<Item = (&str, &str, &K::Brief)> {
        self.spaces.iter().flat_map(|(space, objects)| {
            objects.iter().map(move |(name, entry)| (space.as_ref(), name.as_ref(), &entry.brief))
        })
    }

    /// All objects, each decompressed temporarily.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<K>> {
        self.spaces.values().flat_map(BTreeMap::values).filter_map(|entry| self.unpack(&entry.stored))
    }

    #[cfg(test)]
    pub(super) fn specs(&self) -> usize {
        self.specs.values().filter(|spec| spec.strong_count() > 0).count()
    }

    fn opened(&self) -> MutexGuard<'_, Opened<K>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

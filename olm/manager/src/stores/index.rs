//! Objects by namespace and name, and by what else they are asked for: nothing that happens to one of them is work for all.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use kube::{Resource, ResourceExt};

type Keys<K> = fn(&K) -> Vec<String>;
/// Namespace and name.
type Name = (Box<str>, Box<str>);

pub(super) struct Index<K> {
    spaces: HashMap<Box<str>, BTreeMap<Box<str>, Arc<K>>>,
    keyed: HashMap<String, BTreeSet<Name>>,
    keys: Keys<K>,
}

impl<K: Resource<DynamicType = ()>> Index<K> {
    pub(super) fn new(keys: Keys<K>) -> Self {
        Self { spaces: HashMap::new(), keyed: HashMap::new(), keys }
    }

    pub(super) fn of(objects: &[Arc<K>], keys: Keys<K>) -> Self {
        let mut index = Self::new(keys);
        for object in objects {
            index.insert(object);
        }
        index
    }

    pub(super) fn keys(&self) -> Keys<K> {
        self.keys
    }

    pub(super) fn insert(&mut self, object: &Arc<K>) {
        let namespace = object.namespace().unwrap_or_default().into_boxed_str();
        let name = object.name_any().into_boxed_str();
        self.remove(&namespace, &name);
        for key in (self.keys)(object) {
            self.keyed.entry(key).or_default().insert((namespace.clone(), name.clone()));
        }
        self.spaces.entry(namespace).or_default().insert(name, Arc::clone(object));
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let old = space.remove(name);
        if space.is_empty() {
            self.spaces.remove(namespace);
        }
        let Some(old) = old else { return };
        let entry = (Box::from(namespace), Box::from(name));
        for key in (self.keys)(&old) {
            if let Some(holders) = self.keyed.get_mut(&key) {
                holders.remove(&entry);
                if holders.is_empty() {
                    self.keyed.remove(&key);
                }
            }
        }
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.spaces.get(namespace)?.get(name)
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.spaces.get(namespace).map(|space| space.values().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn keyed(&self, key: &str) -> Vec<Arc<K>> {
        let holders = self.keyed.get(key).into_iter().flatten();
        holders.filter_map(|(namespace, name)| self.get(namespace, name).cloned()).collect()
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.spaces.values().flat_map(BTreeMap::values).cloned().collect()
    }
}

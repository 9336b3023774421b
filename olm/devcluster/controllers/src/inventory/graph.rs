//! The ownership graph, and its queries for the garbage collector. Pure.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::ApiResource;

use super::Kind;

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// Identity of an object.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.resource.kind.to_lowercase();
        if self.namespace.is_empty() {
            write!(f, "{kind} {}", self.name)
        } else {
            write!(f, "{kind} {}/{}", self.namespace, self.name)
        }
    }
}

/// An object in the ownership graph.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: Identity,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) deleting: bool,
    pub(crate) finalizers: Vec<String>,
}

impl Node {
    pub(crate) fn new(id: Identity, meta: &ObjectMeta) -> Self {
        Self {
            id,
            owners: meta.owner_references.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        }
    }

    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }

    /// Foreground deletion: it waits for the deletion of its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has(FOREGROUND)
    }

    /// It waits for the release of its dependents.
    pub(crate) fn orphans_dependents(&self) -> bool {
        self.deleting && self.has(ORPHAN)
    }

    pub(crate) fn policy(&self) -> Policy {
        if self.has(ORPHAN) {
            Policy::Orphan
        } else if self.has(FOREGROUND) {
            Policy::Foreground
        } else {
            Policy::Background
        }
    }
}

/// Deletion propagation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// State of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It exists.
    Solid,
    /// It is being deleted and waits for the deletion of this object.
    Waiting,
    /// It does not exist.
    Absent,
    /// Not in the graph: the server must be queried.
    Unknown,
}

/// Action for an object with owners.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GarbageAction {
    Keep,
    /// Some owners exist; remove the references to these.
    Forget(Vec<String>),
    Delete(Policy),
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, HashSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Inserts an object; returns the owners that it no longer has.
    pub(crate) fn insert(&mut self, node: Node) -> Vec<String> {
        let uid = node.id.uid.clone();
        let new: HashSet<&String> = node.owners.iter().map(|owner| &owner.uid).collect();
        let old: Vec<String> = self
            .nodes
            .get(&uid)
            .map(|old| old.owners.iter().map(|o| o.uid.clone()).collect())
            .unwrap_or_default();
        let left: Vec<String> = old.into_iter().filter(|owner| !new.contains(owner)).collect();
        for owner in &left {
            self.unlink(owner, &uid);
        }
        for owner in new {
            self.dependents.entry(owner.clone()).or_default().insert(uid.clone());
        }
        self.nodes.insert(uid, node);
        left
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<Node> {
        let node = self.nodes.remove(uid)?;
        for owner in &node.owners {
            self.unlink(&owner.uid, uid);
        }
        Some(node)
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(set) = self.dependents.get_mut(owner) {
            set.remove(dependent);
            if set.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    pub(crate) fn dependents(&self, owner: &str) -> Vec<&Node> {
        let uids = self.dependents.get(owner);
        uids.into_iter().flatten().filter_map(|uid| self.nodes.get(uid)).collect()
    }

    /// Objects of a kind that are not in a list.
    pub(crate) fn others(&self, resource: &ApiResource, seen: &HashSet<String>) -> Vec<String> {
        let of_kind = |node: &&Node| {
            let mine = &node.id.kind.resource;
            mine.plural == resource.plural && mine.api_version == resource.api_version
        };
        self.nodes
            .values()
            .filter(of_kind)
            .map(|n| n.id.uid.clone())
            .filter(|uid| !seen.contains(uid))
            .collect()
    }

    /// Whether an object blocks the foreground deletion of its owner.
    pub(crate) fn blocks(node: &Node, owner: &str) -> bool {
        node.owners
            .iter()
            .any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
    }

    /// State of an owner of `node`.
    pub(crate) fn owner(&self, node: &Node, reference: &OwnerReference) -> Owner {
        let Some(owner) = self.nodes.get(&reference.uid) else { return Owner::Unknown };
        // A reference names an object of the same namespace or a cluster-scoped one; with the right uid but a
        // wrong name, kind or namespace it names a missing object.
        let same_place = owner.id.namespace.is_empty() || owner.id.namespace == node.id.namespace;
        let same_object = owner.id.name == reference.name && owner.id.kind.resource.kind == reference.kind;
        if !same_place || !same_object {
            return Owner::Unknown;
        }
        if owner.waits_for_dependents() && reference.block_owner_deletion == Some(true) {
            Owner::Waiting
        } else {
            Owner::Solid
        }
    }

    /// The action for an object, given the state of each of its owners.
    pub(crate) fn decide(&self, node: &Node, owners: &[(String, Owner)]) -> GarbageAction {
        let of = |wanted: Owner| {
            owners.iter().filter(move |(_, owner)| *owner == wanted).map(|(uid, _)| uid.clone())
        };
        if owners.is_empty() || of(Owner::Unknown).next().is_some() {
            return GarbageAction::Keep;
        }
        let absent: Vec<String> = of(Owner::Absent).collect();
        let waiting: Vec<String> = of(Owner::Waiting).collect();
        if of(Owner::Solid).next().is_some() {
            let forget: Vec<String> = absent.into_iter().chain(waiting).collect();
            return if forget.is_empty() { GarbageAction::Keep } else { GarbageAction::Forget(forget) };
        }
        if !waiting.is_empty() && !self.dependents(&node.id.uid).is_empty() {
            // The owner waits for this object, which in turn waits for its dependents.
            return GarbageAction::Delete(Policy::Foreground);
        }
        GarbageAction::Delete(node.policy())
    }
}

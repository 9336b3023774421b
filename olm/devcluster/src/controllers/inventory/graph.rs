//! Objects and their owners: pure bookkeeping, and the questions that the garbage collector asks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::ApiResource;

use super::Kind;

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// Which object this is.
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

/// An object, as far as ownership goes.
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

    /// It waits for its dependents to go.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has(FOREGROUND)
    }

    /// It waits for its dependents to be let go.
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

/// How to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// What is known about one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It exists.
    Solid,
    /// It is being deleted and waits for this object to go first.
    Waiting,
    /// It does not exist.
    Absent,
    /// Nobody here knows: the server must be asked.
    Unknown,
}

/// What to do about an object with owners.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Some owners are left; forget these.
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

    /// Puts an object in; returns the owners that it has no more.
    pub(crate) fn put(&mut self, node: Node) -> Vec<String> {
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

    /// Whether an object keeps its foreground-deleted owner from going.
    pub(crate) fn blocks(node: &Node, owner: &str) -> bool {
        node.owners
            .iter()
            .any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
    }

    /// What is known about an owner of `node`.
    pub(crate) fn owner(&self, node: &Node, reference: &OwnerReference) -> Owner {
        let Some(owner) = self.nodes.get(&reference.uid) else { return Owner::Unknown };
        // A reference names an object of its own namespace or of none; with the right uid but a wrong name, kind or
        // namespace it names something that does not exist.
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

    /// Decides about an object, given what is known about each of its owners.
    pub(crate) fn judge(&self, node: &Node, owners: &[(String, Owner)]) -> Verdict {
        let of = |wanted: Owner| {
            owners.iter().filter(move |(_, owner)| *owner == wanted).map(|(uid, _)| uid.clone())
        };
        if owners.is_empty() || of(Owner::Unknown).next().is_some() {
            return Verdict::Keep;
        }
        let absent: Vec<String> = of(Owner::Absent).collect();
        let waiting: Vec<String> = of(Owner::Waiting).collect();
        if of(Owner::Solid).next().is_some() {
            let forget: Vec<String> = absent.into_iter().chain(waiting).collect();
            return if forget.is_empty() { Verdict::Keep } else { Verdict::Forget(forget) };
        }
        if !waiting.is_empty() && !self.dependents(&node.id.uid).is_empty() {
            // The owner waits for this, so this waits for its own.
            return Verdict::Delete(Policy::Foreground);
        }
        Verdict::Delete(node.policy())
    }
}

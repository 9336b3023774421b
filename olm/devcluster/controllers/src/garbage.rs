//! The garbage collector: deletes objects that lost their last owner.
//!
//! * background: the owner is deleted at once, its dependents after it
//! * foreground: the owner waits (finalizer `foregroundDeletion`) for the dependents that block it
//! * orphan: the owner waits (finalizer `orphan`) until its references are removed from the dependents
//!
//! The API server sets the finalizers, this controller removes them.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::json;

use super::{
    error::{During, Error, unless_gone},
    events::Recorder,
    inventory::{
        Inventory, ObjectChange,
        graph::{FOREGROUND, GarbageAction, Graph, Node, ORPHAN, Owner, Policy},
    },
    queue::Queue,
};

/// Recheck interval of an object with an owner outside of the graph, whose deletion no watch reports.
const UNWATCHED_OWNER: Duration = Duration::from_secs(30);
/// Recheck interval of an owner whose dependents the watches have not reported yet.
const RECHECK_DEPENDENTS: Duration = Duration::from_millis(50);

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) queue: Arc<Queue<String>>,
    pub(crate) events: Recorder,
}

/// Objects to check after an event.
pub(crate) fn affected(graph: &Graph, change: &ObjectChange) -> Vec<String> {
    let node = &change.node;
    let owners = || node.owners.iter().map(|owner| &owner.uid).chain(&change.former_owners);
    let waiting_owners = owners().filter(|uid| graph.get(uid).is_some_and(Node::waits_for_dependents));
    let mut affected: Vec<String> = Vec::new();
    if change.removed {
        affected.extend(graph.dependents(&node.id.uid).iter().map(|dependent| dependent.id.uid.clone()));
        affected.extend(waiting_owners.cloned());
        return affected;
    }
    // It may have been the last blocking dependent of an owner.
    affected.extend(waiting_owners.filter(|uid| !Graph::blocks(node, uid)).cloned());
    let is_finishing = node.waits_for_dependents() || node.orphans_dependents();
    // A reference to another namespace is not valid.
    let owner_is_going = |owner: &OwnerReference| {
        let waits = graph.get(&owner.uid).is_none_or(Node::waits_for_dependents);
        waits || graph.owner(node, owner) == Owner::Unknown
    };
    if is_finishing || node.owners.iter().any(owner_is_going) {
        affected.push(node.id.uid.clone());
    }
    affected
}

impl Controller {
    pub(crate) async fn reconcile(&self, uid: String) -> Result<Option<Duration>, Error> {
        let Some(node) = self.inventory.graph().get(&uid).cloned() else { return Ok(None) };
        if node.orphans_dependents() {
            return self.orphan(&node).await.map(|()| None);
        }
        if node.waits_for_dependents() {
            return self.finish_foreground(&node).await;
        }
        if node.deleting || node.owners.is_empty() {
            return Ok(None);
        }
        self.collect(&node).await
    }

    async fn collect(&self, node: &Node) -> Result<Option<Duration>, Error> {
        // Decide on the stored object, not on the last watch event.
        let api = node.id.kind.api(&self.client, &node.id.namespace);
        let live = unless_gone(api.get(&node.id.name).await.during(|| format!("get {}", node.id)))?;
        let Some(live) = live.filter(|live| live.uid().as_deref() == Some(&node.id.uid)) else {
            return Ok(None);
        };
        let node = Node::new(node.id.clone(), live.meta());
        if node.deleting {
            return Ok(None);
        }
        let mut owners = Vec::new();
        let mut unwatched = false;
        for reference in &node.owners {
            let known = self.inventory.graph().owner(&node, reference);
            unwatched |= known == Owner::Unknown;
            let owner =
                if known == Owner::Unknown { self.query_owner(&node, reference).await? } else { known };
            let elsewhere = self.inventory.graph().get(&reference.uid).is_some();
            if owner == Owner::Absent && elsewhere {
                self.report_misplaced_owner(&node, reference);
            }
            owners.push((reference.uid.clone(), owner));
        }
        let verdict = self.inventory.graph().decide(&node, &owners);
        match verdict {
            GarbageAction::Keep if unwatched => return Ok(Some(UNWATCHED_OWNER)),
            GarbageAction::Keep => {}
            GarbageAction::Forget(gone) => self.remove_owners(&node, &gone, live.resource_version()).await?,
            GarbageAction::Delete(policy) => {
                let mut version = live.resource_version();
                if policy == Policy::Foreground && !node.waits_for_dependents() {
                    self.unblock(&node).await?;
                    version = None;
                }
                tracing::debug!(object = %node.id, ?policy, "owners are gone, deleting");
                let params = DeleteParams {
                    propagation_policy: Some(match policy {
                        Policy::Background => PropagationPolicy::Background,
                        Policy::Foreground => PropagationPolicy::Foreground,
                        Policy::Orphan => PropagationPolicy::Orphan,
                    }),
                    preconditions: Some(Preconditions {
                        uid: Some(node.id.uid.clone()),
                        resource_version: version,
                    }),
                    ..DeleteParams::default()
                };
                let result = api.delete(&node.id.name, &params).await;
                unless_gone(result.during(|| format!("delete {}", node.id)))?;
            }
        }
        Ok(None)
    }

    /// Queries the server for an owner outside of the graph.
    async fn query_owner(&self, node: &Node, reference: &OwnerReference) -> Result<Owner, Error> {
        let mut kind = self.inventory.find(&reference.api_version, &reference.kind);
        if kind.is_none() {
            self.inventory.discover().await?;
            kind = self.inventory.find(&reference.api_version, &reference.kind);
        }
        let Some(kind) = kind else { return Ok(Owner::Unknown) };
        if kind.namespaced && node.id.namespace.is_empty() {
            // Without a namespace the owner cannot be looked up: such a reference is an error, and an error
            // deletes nothing.
            self.report_misplaced_owner(node, reference);
            return Ok(Owner::Solid);
        }
        let namespace = if kind.namespaced { node.id.namespace.as_str() } else { "" };
        let api = kind.api(&self.client, namespace);
        let action = || format!("get {} {}", reference.kind, reference.name);
        let found = unless_gone(api.get(&reference.name).await.during(action))?;
        let exists = found.is_some_and(|found| found.uid().as_deref() == Some(&reference.uid));
        Ok(if exists { Owner::Solid } else { Owner::Absent })
    }

    /// Reports an owner in another namespace than the reference requires.
    fn report_misplaced_owner(&self, node: &Node, reference: &OwnerReference) {
        let id = &node.id;
        let regarding = ObjectReference {
            api_version: Some(id.kind.resource.api_version.clone()),
            kind: Some(id.kind.resource.kind.clone()),
            namespace: Some(id.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: Some(id.name.clone()),
            uid: Some(id.uid.clone()),
            ..ObjectReference::default()
        };
        let message = format!(
            "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
            reference.api_version, reference.kind, id.namespace, reference.name, reference.uid, id.namespace
        );
        self.events.record_reference(regarding, "Warning", "OwnerRefInvalidNamespace", message);
    }

    /// Breaks a deadlock of two objects that wait for each other: one of them stops blocking.
    async fn unblock(&self, node: &Node) -> Result<(), Error> {
        let waits = {
            let graph = self.inventory.graph();
            graph.dependents(&node.id.uid).iter().any(|dependent| dependent.waits_for_dependents())
        };
        if !waits {
            return Ok(());
        }
        let mut owners = node.owners.clone();
        for owner in &mut owners {
            owner.block_owner_deletion = Some(false);
        }
        self.patch(node, json!({ "metadata": { "uid": node.id.uid, "ownerReferences": owners } })).await
    }

    /// Removes owner references from an object.
    async fn remove_owners(
        &self,
        node: &Node,
        owners: &[String],
        version: Option<String>,
    ) -> Result<(), Error> {
        let left: Vec<&OwnerReference> =
            node.owners.iter().filter(|owner| !owners.contains(&owner.uid)).collect();
        let patch = json!({
            "metadata": { "uid": node.id.uid, "resourceVersion": version, "ownerReferences": left },
        });
        self.patch(node, patch).await
    }

    async fn patch(&self, node: &Node, mut patch: serde_json::Value) -> Result<(), Error> {
        if patch["metadata"]["resourceVersion"].is_null()
            && let Some(metadata) = patch["metadata"].as_object_mut()
        {
            metadata.shift_remove("resourceVersion");
        }
        let api = node.id.kind.api(&self.client, &node.id.namespace);
        let result = api.patch(&node.id.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        unless_gone(result.during(|| format!("patch {}", node.id))).map(|_| ())
    }

    async fn orphan(&self, node: &Node) -> Result<(), Error> {
        for dependent in self.inventory.find_dependents(node).await? {
            self.remove_owners(&dependent, std::slice::from_ref(&node.id.uid), None).await?;
        }
        self.remove_finalizer(node, ORPHAN).await
    }

    async fn finish_foreground(&self, node: &Node) -> Result<Option<Duration>, Error> {
        let blocks = |dependent: &Node| Graph::blocks(dependent, &node.id.uid);
        let known: Vec<Node> = self.inventory.graph().dependents(&node.id.uid).into_iter().cloned().collect();
        if known.iter().any(blocks) {
            for dependent in known.iter().filter(|dependent| !dependent.deleting) {
                self.queue.add(dependent.id.uid.clone());
            }
            return Ok(None);
        }
        // Watches of different kinds are not synchronized: a dependent may exist that is not in the graph
        // yet.
        if self.inventory.find_dependents(node).await?.iter().any(blocks) {
            return Ok(Some(RECHECK_DEPENDENTS));
        }
        self.remove_finalizer(node, FOREGROUND).await.map(|()| None)
    }

    async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<(), Error> {
        let api = node.id.kind.api(&self.client, &node.id.namespace);
        let live = unless_gone(api.get(&node.id.name).await.during(|| format!("get {}", node.id)))?;
        let Some(live) = live.filter(|live| live.uid().as_deref() == Some(&node.id.uid)) else {
            return Ok(());
        };
        let left: Vec<&String> = live.finalizers().iter().filter(|name| *name != finalizer).collect();
        let patch = json!({ "metadata": {
            "uid": node.id.uid, "resourceVersion": live.resource_version(), "finalizers": left,
        } });
        self.patch(node, patch).await
    }
}

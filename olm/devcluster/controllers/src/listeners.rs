//! Maps changes of objects to keys of queues.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::Resource;

use super::{
    Caches, Queues,
    cache::{Cache, Cacheable, Key, Listener},
    claim::{self, controller_of},
    disruption, endpoints, pods,
    queue::Queue,
    scheduler, volumes,
};

pub(super) fn add_itself<K: Resource + Send + Sync + 'static>(queue: &Arc<Queue<Key>>) -> Listener<K> {
    let queue = queue.clone();
    Box::new(move |old, new| {
        if let Some(object) = new.or(old) {
            queue.add(Key::of(&**object));
        }
    })
}

pub(super) fn add_namespace<K: Resource + Send + Sync + 'static>(queue: &Arc<Queue<Key>>) -> Listener<K> {
    let queue = queue.clone();
    Box::new(move |old, new| {
        if let Some(object) = new.or(old) {
            queue.add(Key::new("", object.meta().namespace.as_deref().unwrap_or_default()));
        }
    })
}

/// The controllers of the object, before and after.
pub(super) fn add_controller<K: Resource + Send + Sync + 'static>(
    queue: &Arc<Queue<Key>>,
    kind: &'static str,
) -> Listener<K> {
    let queue = queue.clone();
    Box::new(move |old, new| {
        for object in [old, new].into_iter().flatten() {
            if let Some(owner) = controller_of(&**object).filter(|owner| owner.kind == kind) {
                queue.add(Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name));
            }
        }
    })
}

/// Controllers that may adopt an object without one.
pub(super) fn orphans<K, O>(
    owners: Arc<Cache<O>>,
    queue: &Arc<Queue<Key>>,
    selector: fn(&O) -> &LabelSelector,
) -> Listener<K>
where
    K: Resource + Send + Sync + 'static,
    O: Cacheable,
{
    let queue = queue.clone();
    Box::new(move |_, new| {
        let Some(object) = new.filter(|object| controller_of(&***object).is_none()) else { return };
        for owner in owners.list(object.meta().namespace.as_deref().unwrap_or_default()) {
            if claim::selector(selector(&owner)).is_some_and(|selector| claim::matches(&selector, &**object))
            {
                queue.add(Key::of(&*owner));
            }
        }
    })
}

/// A Deployment with strategy Recreate waits for its old pods to end.
pub(super) fn recreate_waits(caches: &Caches, queues: &Queues) -> Listener<Pod> {
    let (sets, queue) = (caches.replica_sets.clone(), queues.deployments.clone());
    Box::new(move |old, new| {
        let Some(pod) = old.filter(|_| new.is_none_or(|pod| pods::is_finished(pod))) else { return };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let Some(set) = controller_of(&**pod).and_then(|owner| sets.get(&Key::new(namespace, &owner.name)))
        else {
            return;
        };
        if let Some(owner) = controller_of(&*set) {
            queue.add(Key::new(namespace, &owner.name));
        }
    })
}

/// Objects whose selectors match a changed pod before or after, if its `relevant` changed: the part that they
/// read.
fn selecting<O, F>(
    owners: Arc<Cache<O>>,
    queue: &Arc<Queue<Key>>,
    relevant: fn(&Pod) -> F,
    chooses: fn(&O, &Pod) -> bool,
) -> Listener<Pod>
where
    O: Cacheable,
    F: PartialEq + 'static,
{
    let queue = queue.clone();
    Box::new(move |old, new| {
        if old.map(|pod| relevant(pod)) == new.map(|pod| relevant(pod)) {
            return;
        }
        let Some(namespace) = new.or(old).and_then(|pod| pod.metadata.namespace.clone()) else { return };
        for owner in owners.list(&namespace) {
            if [old, new].into_iter().flatten().any(|pod| chooses(&owner, pod)) {
                queue.add(Key::of(&*owner));
            }
        }
    })
}

/// Services whose endpoints a pod's change affects.
pub(super) fn pod_services(caches: &Caches, queues: &Queues) -> Listener<Pod> {
    let relevant = |pod: &Pod| {
        let status = pod.status.as_ref();
        (
            pod.metadata.labels.clone(),
            pods::is_terminating(pod),
            pods::is_finished(pod),
            pods::is_ready(pod),
            status.and_then(|status| status.pod_ip.clone()),
            status.and_then(|status| status.pod_ips.clone()),
        )
    };
    selecting(caches.services.clone(), &queues.services, relevant, endpoints::selects)
}

/// Budgets that select a pod, before and after.
pub(super) fn pod_budgets(caches: &Caches, queues: &Queues) -> Listener<Pod> {
    let relevant = |pod: &Pod| (pod.metadata.labels.clone(), pods::is_terminating(pod), pods::is_ready(pod));
    selecting(caches.budgets.clone(), &queues.budgets, relevant, disruption::covers)
}

pub(super) fn unscheduled(queues: &Queues) -> Listener<Pod> {
    let queue = queues.unscheduled.clone();
    Box::new(move |_, new| {
        if let Some(pod) = new.filter(|pod| scheduler::is_waiting(pod)) {
            queue.add(Key::of(&**pod));
        }
    })
}

/// A budget depends on the replicas of the controllers.
pub(super) fn scaled<K>(caches: &Caches, queues: &Queues, replicas: fn(&K) -> Option<i32>) -> Listener<K>
where
    K: Resource + Send + Sync + 'static,
{
    let (budgets, queue) = (caches.budgets.clone(), queues.budgets.clone());
    Box::new(move |old, new| {
        if old.map(|old| replicas(old)) == new.map(|new| replicas(new)) {
            return;
        }
        let Some(object) = new.or(old) else { return };
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        budgets.list(namespace).iter().for_each(|budget| queue.add(Key::of(&**budget)));
    })
}

/// A claim that is being deleted waits for the pods that use it.
pub(super) fn pod_claims(queues: &Queues) -> Listener<Pod> {
    let queue = queues.claims.clone();
    Box::new(move |old, new| {
        let (Some(pod), None) = (old, new) else { return };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        volumes::claims_of(pod).into_iter().for_each(|claim| queue.add(Key::new(namespace, claim)));
    })
}

/// The volume of a claim, before and after: it may be bound now, or released.
pub(super) fn claim_volume(caches: &Caches, queues: &Queues) -> Listener<PersistentVolumeClaim> {
    let (all, queue) = (caches.volumes.clone(), queues.volumes.clone());
    Box::new(move |old, new| {
        for claim in [old, new].into_iter().flatten() {
            if let Some(name) = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) {
                queue.add(Key::new("", name));
            }
        }
        // A volume may have been provisioned for a claim that was deleted before it was bound.
        if let (Some(claim), None) = (old, new) {
            let owner = |volume: &PersistentVolume| volume.spec.as_ref()?.claim_ref.as_ref()?.uid.clone();
            let of_claim = all.all().into_iter().filter(|volume| owner(volume) == claim.metadata.uid);
            of_claim.for_each(|volume| queue.add(Key::of(&*volume)));
        }
    })
}

/// The pods that wait for a claim.
pub(super) fn claim_pods(caches: &Caches, queues: &Queues) -> Listener<PersistentVolumeClaim> {
    let (pods, queue) = (caches.pods.clone(), queues.unscheduled.clone());
    Box::new(move |old, new| {
        let Some(claim) = new.or(old) else { return };
        let key = Key::of(&**claim);
        for pod in pods.list(&key.namespace).iter().filter(|pod| scheduler::is_waiting(pod)) {
            if volumes::claims_of(pod).contains(&key.name.as_str()) {
                queue.add(Key::of(&**pod));
            }
        }
    })
}

/// Claims that a volume may bind to: its own, and the pending ones.
pub(super) fn volume_claims(caches: &Caches, queues: &Queues) -> Listener<PersistentVolume> {
    let (claims, queue) = (caches.claims.clone(), queues.claims.clone());
    Box::new(move |old, new| {
        for volume in [old, new].into_iter().flatten() {
            if let Some(owner) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
                let namespace = owner.namespace.as_deref().unwrap_or_default();
                queue.add(Key::new(namespace, owner.name.as_deref().unwrap_or_default()));
            } else {
                let waiting = claims.all().into_iter().filter(|claim| !volumes::is_bound(claim));
                waiting.for_each(|claim| queue.add(Key::of(&*claim)));
            }
        }
    })
}

/// A new or changed class affects the claims that wait for it.
pub(super) fn class_changed(caches: &Caches, queues: &Queues) -> Listener<StorageClass> {
    let (claims, queue) = (caches.claims.clone(), queues.claims.clone());
    Box::new(move |old, new| {
        let Some(name) = new.or(old).and_then(|class| class.metadata.name.as_deref()) else { return };
        for claim in claims.all() {
            if !volumes::is_bound(&claim) && volumes::class_of(&claim) == Some(name) {
                queue.add(Key::of(&*claim));
            }
        }
    })
}

/// An added, removed or changed node affects every pod that waits for it.
pub(super) fn node_changed(caches: &Caches, queues: &Queues) -> Listener<Node> {
    let (pods, queue) = (caches.pods.clone(), queues.unscheduled.clone());
    let relevant = |node: &Node| {
        let conditions =
            node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready").map(|c| (c.status, c.message));
        (ready, node.spec.as_ref().and_then(|spec| spec.unschedulable), node.metadata.labels.clone())
    };
    Box::new(move |old, new| {
        if let (Some(old), Some(new)) = (old, new)
            && relevant(old) == relevant(new)
        {
            return;
        }
        for pod in pods.all().iter().filter(|pod| scheduler::is_waiting(pod)) {
            queue.add(Key::of(&**pod));
        }
    })
}

//! The inputs of a decision as a short hash: an equal basis means an equal decision.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use kube::Resource;
use olm_api::Subscription;
use olm_plan::Policies;

use crate::{Snapshot, catalogs::LoadedCatalog};

/// The inputs of a decision about a Subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basis {
    pub objects: u64,
    pub catalogs: u64,
}

impl Basis {
    /// The versions of the objects of the namespace, and of all catalogs visible from it.
    pub fn of(subscription: &Subscription, snapshot: &Snapshot, catalogs: &[LoadedCatalog]) -> Self {
        let mut objects = DefaultHasher::new();
        versions(&snapshot.csvs, &mut objects);
        versions(&snapshot.groups, &mut objects);
        versions(&snapshot.conditions, &mut objects);
        snapshot.kubernetes.hash(&mut objects);
        let policies = snapshot.policies.known().into_iter().flat_map(Policies::iter);
        versions(&policies.map(Arc::clone).collect::<Vec<_>>(), &mut objects);
        // Only the spec of Subscriptions is an input; their results are in the versions of the other objects.
        for other in &snapshot.subscriptions {
            let meta = &other.metadata;
            (&meta.name, &meta.uid, meta.generation, &meta.annotations).hash(&mut objects);
        }
        subscription.metadata.name.hash(&mut objects);
        let mut whole = DefaultHasher::new();
        for catalog in catalogs {
            (&catalog.reference, &catalog.catalog.digest, catalog.priority).hash(&mut whole);
        }
        Self { objects: objects.finish(), catalogs: whole.finish() }
    }

    /// The basis with more objects.
    pub fn and<K: Resource>(self, objects: &[Arc<K>]) -> Self {
        let mut hasher = DefaultHasher::new();
        self.objects.hash(&mut hasher);
        versions(objects, &mut hasher);
        Self { objects: hasher.finish(), ..self }
    }
}

fn versions<K: Resource>(objects: &[Arc<K>], hasher: &mut DefaultHasher) {
    objects.len().hash(hasher);
    for object in objects {
        let meta = object.meta();
        (&meta.name, &meta.uid, &meta.resource_version).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use olm_api::{ClusterServiceVersion, ClusterServiceVersionSpec, SubscriptionSpec};

    use super::*;

    fn snapshot(versions: &[&str], channel: &str) -> (Arc<Subscription>, Snapshot) {
        let csv = |version: &&str| {
            let mut csv = ClusterServiceVersion::new("a.v1", ClusterServiceVersionSpec::default());
            csv.metadata.resource_version = Some((*version).to_owned());
            Arc::new(csv)
        };
        let mut subscription = Subscription::new("a", SubscriptionSpec::default());
        subscription.metadata.generation = Some(channel.len() as i64);
        let subscription = Arc::new(subscription);
        let snapshot = Snapshot {
            csvs: versions.iter().map(csv).collect(),
            subscriptions: vec![Arc::clone(&subscription)],
            ..Snapshot::default()
        };
        (subscription, snapshot)
    }

    #[test]
    fn it_is_another_when_something_is_and_not_when_nothing_is() {
        let of = |versions: &[&str], channel: &str| {
            let (subscription, snapshot) = snapshot(versions, channel);
            Basis::of(&subscription, &snapshot, &[])
        };
        let basis = of(&["1"], "stable");
        assert_eq!(basis, of(&["1"], "stable"));
        assert_ne!(basis, of(&["2"], "stable"));
        assert_ne!(basis, of(&[], "stable"));
        assert_ne!(basis, of(&["1"], "fast"));
        let (_, other) = snapshot(&["1"], "stable");
        assert_ne!(basis, basis.and(&other.csvs));
    }

    #[test]
    fn what_becomes_of_a_subscription_is_nothing_to_decide_on() {
        let (subscription, snapshot) = snapshot(&["1"], "stable");
        let before = Basis::of(&subscription, &snapshot, &[]);
        let mut later = Arc::unwrap_or_clone(subscription);
        later.metadata.resource_version = Some("9".into());
        later.status = Some(Default::default());
        let snapshot = Snapshot { subscriptions: vec![Arc::new(later.clone())], ..snapshot };
        assert_eq!(before, Basis::of(&later, &snapshot, &[]));
    }
}

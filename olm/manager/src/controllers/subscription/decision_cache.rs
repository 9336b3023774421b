//! Decisions that nothing is to be done for a Subscription, with their basis: while the basis is unchanged, the
//! decision is not repeated.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use olm_api::Subscription;
use olm_engine::{Basis, Snapshot, catalogs::LoadedCatalog};

use crate::context::SAFETY_NET;

/// How long a decision stays valid. All of its inputs are in the digests, except the kinds that the cluster
/// serves: CRDs are watched, aggregated APIs are not.
const LIFETIME: Duration = SAFETY_NET;

#[derive(Debug)]
struct Decision {
    basis: Basis,
    /// A digest of the catalog content that was read.
    packages: u64,
    at: Instant,
}

/// By namespace and name of the Subscription.
#[derive(Debug, Default)]
pub(super) struct DecisionCache {
    decisions: Mutex<HashMap<(String, String), Decision>>,
    /// Subscriptions whose decision a new kind would change.
    needs_kinds: Mutex<BTreeSet<(String, String)>>,
}

impl DecisionCache {
    /// Whether all inputs are unchanged since nothing was to be done.
    pub(super) async fn is_current(
        &self,
        subscription: &Subscription,
        basis: Basis,
        catalogs: &[LoadedCatalog],
        snapshot: &Snapshot,
    ) -> bool {
        let key = key(subscription);
        let Some((known, packages)) = self.known(&key, basis) else { return false };
        if known == basis.catalogs {
            return true;
        }
        // A new edition of a catalog leaves most packages unchanged.
        if olm_engine::catalog_content_hash(catalogs, subscription, snapshot).await != Some(packages) {
            return false;
        }
        if let Some(decision) = self.all().get_mut(&key) {
            decision.basis = basis;
        }
        true
    }

    fn known(&self, key: &(String, String), basis: Basis) -> Option<(u64, u64)> {
        let all = self.all();
        let decision = all.get(key)?;
        let same = decision.basis.objects == basis.objects && decision.at.elapsed() < LIFETIME;
        same.then_some((decision.basis.catalogs, decision.packages))
    }

    /// Records that nothing is to be done on this basis.
    pub(super) async fn insert(
        &self,
        subscription: &Subscription,
        basis: Basis,
        catalogs: &[LoadedCatalog],
        snapshot: &Snapshot,
    ) {
        if let Some(packages) = olm_engine::catalog_content_hash(catalogs, subscription, snapshot).await {
            let mut all = self.all();
            // Removes entries of deleted Subscriptions; doing so occasionally is enough.
            if all.len().is_power_of_two() {
                all.retain(|_, decision| decision.at.elapsed() < LIFETIME);
            }
            all.insert(key(subscription), Decision { basis, packages, at: Instant::now() });
        }
    }

    pub(super) fn remove(&self, subscription: &Subscription) {
        self.all().remove(&key(subscription));
        self.set_needs_kinds(subscription, false);
    }

    /// Records whether a new kind may change the decision.
    pub(super) fn set_needs_kinds(&self, subscription: &Subscription, kinds: bool) {
        let mut needs_kinds = self.needs_kinds.lock().unwrap_or_else(PoisonError::into_inner);
        match kinds {
            true => needs_kinds.insert(key(subscription)),
            false => needs_kinds.remove(&key(subscription)),
        };
    }

    /// A kind was added: removes the affected decisions, and returns the Subscriptions that still exist.
    pub(super) fn take_needing_kinds(
        &self,
        exists: impl Fn(&str, &str) -> bool,
    ) -> Vec<ObjectRef<Subscription>> {
        let mut needs_kinds = self.needs_kinds.lock().unwrap_or_else(PoisonError::into_inner);
        needs_kinds.retain(|(namespace, name)| exists(namespace, name));
        let mut all = self.all();
        let wake = |key: &(String, String)| {
            all.remove(key);
            ObjectRef::new(&key.1).within(&key.0)
        };
        needs_kinds.iter().map(wake).collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(String, String), Decision>> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(subscription: &Subscription) -> (String, String) {
    (subscription.namespace().unwrap_or_default(), subscription.name_any())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use olm_api::SubscriptionSpec;
    use olm_catalog::Catalog;
    use olm_resolver::CatalogRef;
    use olm_testing::catalog;

    use super::*;

    fn edition(packages: &[(&str, &str)]) -> Vec<LoadedCatalog> {
        let text: Vec<String> = packages.iter().map(|(name, version)| catalog(name, version)).collect();
        let catalog = Catalog::from_bytes("test", text.join("---\n").as_bytes());
        vec![LoadedCatalog::new(CatalogRef::new("olm", "test"), Arc::new(catalog))]
    }

    fn subscription() -> Subscription {
        let spec = SubscriptionSpec {
            name: "a".into(),
            source: "test".into(),
            source_namespace: "olm".into(),
            ..SubscriptionSpec::default()
        };
        let mut subscription = Subscription::new("a", spec);
        subscription.metadata.namespace = Some("ns".into());
        subscription
    }

    #[tokio::test]
    async fn a_kind_that_comes_is_news_to_those_that_need_one_and_are_there() {
        let (cache, mut other, snapshot) = (DecisionCache::default(), subscription(), Snapshot::default());
        other.metadata.name = Some("b".into());
        let catalogs = edition(&[("a", "1.0.0")]);
        for subscription in [&subscription(), &other] {
            let basis = Basis::of(subscription, &snapshot, &catalogs);
            cache.insert(subscription, basis, &catalogs, &snapshot).await;
        }
        let woken = |there: bool| cache.take_needing_kinds(|_, _| there).len();
        assert_eq!(woken(true), 0);
        cache.set_needs_kinds(&other, true);
        assert_eq!(woken(true), 1);
        // it is decided again, and the other is not
        let is_current = async |subscription: &Subscription| {
            let basis = Basis::of(subscription, &snapshot, &catalogs);
            cache.is_current(subscription, basis, &catalogs, &snapshot).await
        };
        assert!(is_current(&subscription()).await && !is_current(&other).await);
        // a deleted one is removed
        assert_eq!((woken(false), woken(true)), (0, 0));
    }

    #[tokio::test]
    async fn an_edition_with_another_version_of_something_else_is_nothing_new() {
        // given a Subscription without anything to do
        let (cache, subscription, snapshot) = (DecisionCache::default(), subscription(), Snapshot::default());
        let is_current = async |catalogs: &[LoadedCatalog]| {
            let basis = Basis::of(&subscription, &snapshot, catalogs);
            cache.is_current(&subscription, basis, catalogs, &snapshot).await
        };
        let first = edition(&[("a", "1.0.0"), ("b", "1.0.0")]);
        assert!(!is_current(&first).await);
        let basis = Basis::of(&subscription, &snapshot, &first);
        cache.insert(&subscription, basis, &first, &snapshot).await;
        assert!(is_current(&first).await);
        // when the catalog gets a new version of another package, and then of its own package
        let second = edition(&[("a", "1.0.0"), ("b", "2.0.0")]);
        assert_ne!(first[0].catalog.digest, second[0].catalog.digest);
        assert!(is_current(&second).await);
        assert!(!is_current(&edition(&[("a", "2.0.0"), ("b", "2.0.0")])).await);
        // when an object of the namespace changes, or it is removed
        let csv = olm_api::ClusterServiceVersion::new("a.v1.0.0", Default::default());
        let mut other = Snapshot::default();
        other.csvs.push(Arc::new(csv));
        let basis = Basis::of(&subscription, &other, &second);
        assert!(!cache.is_current(&subscription, basis, &second, &other).await);
        cache.remove(&subscription);
        assert!(!is_current(&second).await);
    }
}

//! Subscriptions about which nothing is to be done, and on what that was decided: as long as it is the same, it is not decided
//! again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kube::ResourceExt;
use olm_api::Subscription;

use crate::{
    catalogs::LoadedCatalog,
    context::SAFETY_NET,
    engine::{self, Basis, Snapshot},
};

/// How long a decision is relied on. Everything that it was made on is in the digests, but for the kinds that the cluster serves.
const RELIED_ON: Duration = SAFETY_NET;

#[derive(Debug)]
struct Decision {
    basis: Basis,
    /// Of the catalogs what was looked at.
    packages: u64,
    at: Instant,
}

/// By namespace and name of the Subscription.
#[derive(Debug, Default)]
pub(super) struct Settled(Mutex<HashMap<(String, String), Decision>>);

impl Settled {
    /// Whether nothing is different from when nothing was to be done.
    pub(super) async fn holds(
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
        // Another edition of a catalog, and most packages are in it as they were.
        if engine::extent(catalogs, subscription, snapshot).await != Some(packages) {
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
        let same = decision.basis.objects == basis.objects && decision.at.elapsed() < RELIED_ON;
        same.then_some((decision.basis.catalogs, decision.packages))
    }

    /// Nothing is to be done, on this basis.
    pub(super) async fn note(
        &self,
        subscription: &Subscription,
        basis: Basis,
        catalogs: &[LoadedCatalog],
        snapshot: &Snapshot,
    ) {
        if let Some(packages) = engine::extent(catalogs, subscription, snapshot).await {
            let mut all = self.all();
            // Of what is gone without a word; now and then suffices.
            if all.len().is_power_of_two() {
                all.retain(|_, decision| decision.at.elapsed() < RELIED_ON);
            }
            all.insert(key(subscription), Decision { basis, packages, at: Instant::now() });
        }
    }

    pub(super) fn forget(&self, subscription: &Subscription) {
        self.all().remove(&key(subscription));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(String, String), Decision>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    use super::*;
    use crate::testing::catalog;

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
    async fn an_edition_with_another_version_of_something_else_is_nothing_new() {
        // given a Subscription about which nothing was to be done
        let (settled, subscription, snapshot) = (Settled::default(), subscription(), Snapshot::default());
        let holds = async |catalogs: &[LoadedCatalog]| {
            let basis = Basis::of(&subscription, &snapshot, catalogs);
            settled.holds(&subscription, basis, catalogs, &snapshot).await
        };
        let first = edition(&[("a", "1.0.0"), ("b", "1.0.0")]);
        assert!(!holds(&first).await);
        let basis = Basis::of(&subscription, &snapshot, &first);
        settled.note(&subscription, basis, &first, &snapshot).await;
        assert!(holds(&first).await);
        // when the catalog comes with a new version of another package, and then with one of its own
        let second = edition(&[("a", "1.0.0"), ("b", "2.0.0")]);
        assert_ne!(first[0].catalog.digest, second[0].catalog.digest);
        assert!(holds(&second).await);
        assert!(!holds(&edition(&[("a", "2.0.0"), ("b", "2.0.0")])).await);
        // when something of the namespace is different, or it is forgotten
        let csv = olm_api::ClusterServiceVersion::new("a.v1.0.0", Default::default());
        let mut other = Snapshot::default();
        other.csvs.push(Arc::new(csv));
        let basis = Basis::of(&subscription, &other, &second);
        assert!(!settled.holds(&subscription, basis, &second, &other).await);
        settled.forget(&subscription);
        assert!(!holds(&second).await);
    }
}

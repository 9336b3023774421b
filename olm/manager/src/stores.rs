//! What the controllers know of the cluster at this moment, for whoever wants to look without asking the API server.

use std::sync::{Arc, OnceLock};

use kube::runtime::reflector::Store;
use olm_api::{ClusterServiceVersion, InstallPlan, Subscription};

/// A ClusterServiceVersion as it is kept in memory.
pub(crate) type Version = ClusterServiceVersion;

/// The stores of the controllers, once these run.
#[derive(Default)]
pub(crate) struct Stores {
    subscriptions: OnceLock<Store<Subscription>>,
    plans: OnceLock<Store<InstallPlan>>,
    versions: OnceLock<Store<Version>>,
}

impl Stores {
    pub(crate) fn set_subscriptions(&self, store: Store<Subscription>) {
        // Controllers start once in a process.
        let _ = self.subscriptions.set(store);
    }

    pub(crate) fn set_plans(&self, store: Store<InstallPlan>) {
        let _ = self.plans.set(store);
    }

    pub(crate) fn set_versions(&self, store: Store<Version>) {
        let _ = self.versions.set(store);
    }

    pub(crate) fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        self.subscriptions.get().map(Store::state).unwrap_or_default()
    }

    pub(crate) fn plans(&self) -> Vec<Arc<InstallPlan>> {
        self.plans.get().map(Store::state).unwrap_or_default()
    }

    pub(crate) fn versions(&self) -> Vec<Arc<Version>> {
        self.versions.get().map(Store::state).unwrap_or_default()
    }

    /// Returns when all of them have seen the cluster once.
    pub(crate) async fn synced(&self) {
        async fn ready<K>(store: &OnceLock<Store<K>>)
        where
            K: kube::runtime::reflector::Lookup + Clone + 'static,
            K::DynamicType: Eq + std::hash::Hash + Clone,
        {
            if let Some(store) = store.get() {
                // An error says that the controller is gone; then there is nothing to wait for.
                let _ = store.wait_until_ready().await;
            }
        }
        tokio::join!(ready(&self.subscriptions), ready(&self.plans), ready(&self.versions));
    }
}

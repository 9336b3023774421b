//! What the controllers know of the cluster at this moment, for whoever wants to look without asking the API server.

use std::{
    fmt::Debug,
    sync::{Arc, OnceLock},
};

use futures::{Stream, StreamExt};
use kube::{
    Api,
    runtime::{
        Controller, WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use olm_api::{ClusterServiceVersion, InstallPlan, Subscription};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

type Change<K> = watcher::Result<watcher::Event<K>>;

/// A ClusterServiceVersion as it is kept in memory.
pub(crate) type Version = ClusterServiceVersion;

/// The store of a controller, and whether it has seen the cluster.
///
/// `Store::wait_until_ready` is for one waiter, who is the controller: kube keeps one waker per store, so that of two tasks that
/// wait the first is never told.
pub(crate) struct Kept<K: kube::Resource<DynamicType = ()> + Clone + 'static> {
    pub(crate) store: Store<K>,
    filled: watch::Receiver<bool>,
}

/// A controller of all objects of a kind that `config` selects.
pub(crate) fn controller<K>(api: Api<K>, config: watcher::Config) -> (Controller<K>, Kept<K>)
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (changes, kept) = keep(watcher(api, config).default_backoff());
    (Controller::for_stream(changes.applied_objects(), kept.store.clone()), kept)
}

/// The changes, put into a store on their way.
fn keep<K>(changes: impl Stream<Item = Change<K>> + Send) -> (impl Stream<Item = Change<K>> + Send, Kept<K>)
where
    K: kube::Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let (seen, filled) = watch::channel(false);
    // Behind the reflector: whoever is told finds the objects.
    let changes = reflector::reflector(writer, changes).inspect(move |change| {
        if matches!(change, Ok(watcher::Event::InitDone)) {
            seen.send_replace(true);
        }
    });
    (changes, Kept { store, filled })
}

/// The stores of the controllers, once these run.
#[derive(Default)]
pub(crate) struct Stores {
    subscriptions: OnceLock<Kept<Subscription>>,
    plans: OnceLock<Kept<InstallPlan>>,
    versions: OnceLock<Kept<Version>>,
}

impl Stores {
    pub(crate) fn set_subscriptions(&self, kept: Kept<Subscription>) {
        // Controllers start once in a process.
        let _ = self.subscriptions.set(kept);
    }

    pub(crate) fn set_plans(&self, kept: Kept<InstallPlan>) {
        let _ = self.plans.set(kept);
    }

    pub(crate) fn set_versions(&self, kept: Kept<Version>) {
        let _ = self.versions.set(kept);
    }

    pub(crate) fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        state(&self.subscriptions)
    }

    pub(crate) fn plans(&self) -> Vec<Arc<InstallPlan>> {
        state(&self.plans)
    }

    pub(crate) fn versions(&self) -> Vec<Arc<Version>> {
        state(&self.versions)
    }

    /// Returns when all of them have seen the cluster once.
    pub(crate) async fn synced(&self) {
        tokio::join!(filled(&self.subscriptions), filled(&self.plans), filled(&self.versions));
    }
}

fn state<K: kube::Resource<DynamicType = ()> + Clone>(kept: &OnceLock<Kept<K>>) -> Vec<Arc<K>> {
    kept.get().map(|kept| kept.store.state()).unwrap_or_default()
}

async fn filled<K: kube::Resource<DynamicType = ()> + Clone>(kept: &OnceLock<Kept<K>>) {
    if let Some(kept) = kept.get() {
        // An error says that the controller is gone; then there is nothing to wait for.
        let _ = kept.filled.clone().wait_for(|seen| *seen).await;
    }
}

#[cfg(test)]
pub(crate) mod tests;

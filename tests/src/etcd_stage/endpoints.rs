//! The endpoints of a Service as a node's kube-proxy has them: from EndpointSlices, a moment later.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use tokio::task::JoinHandle;

/// Delay after which a kube-proxy has applied a change (its `minSyncPeriod`).
const FOLLOWS: Duration = Duration::from_secs(1);

/// The pods behind a Service of namespace `ns`, by name. Follows it until it is dropped.
pub struct Endpoints {
    known: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoints {
    #[must_use]
    pub fn follow(client: &Client, service: &str) -> Self {
        let known = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(watch(client.clone(), service.to_owned(), Arc::clone(&known)));
        Self { known, task }
    }

    /// The pods that get the next connections.
    #[must_use]
    pub fn now(&self) -> Vec<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn watch(client: Client, service: String, known: Arc<Mutex<Vec<String>>>) {
    let api = Api::<EndpointSlice>::namespaced(client, "ns");
    let config = watcher::Config::default().labels(&format!("kubernetes.io/service-name={service}"));
    let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
    let mut slices = BTreeMap::new();
    let (changes, mut delayed) =
        tokio::sync::mpsc::unbounded_channel::<(tokio::time::Instant, Vec<String>)>();
    let apply = async {
        while let Some((at, pods)) = delayed.recv().await {
            tokio::time::sleep_until(at).await;
            *known.lock().unwrap_or_else(PoisonError::into_inner) = pods;
        }
    };
    let observe = async {
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => slices.clear(),
                Ok(Some(Event::InitApply(slice) | Event::Apply(slice))) => {
                    slices.insert(slice.name_any(), slice);
                }
                Ok(Some(Event::Delete(slice))) => drop(slices.remove(&slice.name_any())),
                Ok(Some(Event::InitDone)) => {}
                // The watch restarts after an error.
                Err(_) => continue,
                Ok(None) => return,
            }
            let pods = chosen(slices.values());
            if changes.send((tokio::time::Instant::now() + FOLLOWS, pods)).is_err() {
                return;
            }
        }
    };
    tokio::join!(apply, observe);
}

/// The ready endpoints; without any, those that terminate and serve.
fn chosen<'a>(slices: impl Iterator<Item = &'a EndpointSlice> + Clone) -> Vec<String> {
    let pods = |chooses: fn(&EndpointConditions) -> bool| -> Vec<String> {
        let endpoints = slices.clone().flat_map(|slice| &slice.endpoints).flatten();
        let endpoints = endpoints.filter(|e| chooses(&e.conditions.clone().unwrap_or_default()));
        endpoints.filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.clone()).collect()
    };
    let ready = pods(|conditions| conditions.ready != Some(false));
    if ready.is_empty() { pods(|conditions| conditions.serving == Some(true)) } else { ready }
}

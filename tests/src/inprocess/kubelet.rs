//! A simulated kubelet: bound pods get the state that their image's name selects.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU16, Ordering},
};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::server::local_address;

/// State of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs and is ready.
    Ready,
    /// It runs and never becomes ready.
    Unready,
    /// Its image cannot be pulled.
    NoImage,
    /// Its container crashes repeatedly.
    Crashes,
}

impl Fate {
    /// By the image's name: `never-ready`, `missing` and `crash` in it select these; all others are ready at
    /// once.
    #[must_use]
    pub fn of_image(image: &str) -> Self {
        match image {
            _ if image.contains("never-ready") => Self::Unready,
            _ if image.contains("missing") => Self::NoImage,
            _ if image.contains("crash") => Self::Crashes,
            _ => Self::Ready,
        }
    }
}

type Rule = Arc<dyn Fn(&str) -> Fate + Send + Sync>;

/// The simulated kubelet of the only node. Cheap to clone.
#[derive(Clone)]
pub struct Kubelet {
    rule: Arc<RwLock<Rule>>,
    again: Arc<Notify>,
    address: Arc<AtomicU16>,
    node: &'static str,
}

impl Kubelet {
    pub(super) fn start(client: Client, node: &'static str, stop: CancellationToken) -> Self {
        let rule: Rule = Arc::new(Fate::of_image);
        let kubelet =
            Self { rule: Arc::new(RwLock::new(rule)), again: Arc::default(), address: Arc::default(), node };
        let task = kubelet.clone();
        tokio::spawn(stop.run_until_cancelled_owned(async move { task.run(client).await }));
        kubelet
    }

    /// From now on this rule decides about pods, including existing ones.
    pub fn set(&self, rule: impl Fn(&str) -> Fate + Send + Sync + 'static) {
        *self.rule.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rule);
        self.again.notify_one();
    }

    async fn run(&self, client: Client) {
        let all: Api<Pod> = Api::all(client.clone());
        let mut pods =
            watcher(all.clone(), watcher::Config::default()).default_backoff().touched_objects().boxed();
        loop {
            tokio::select! {
                pod = pods.try_next() => match pod {
                    Ok(Some(pod)) => self.reconcile(&client, &pod).await,
                    Ok(None) => return,
                    Err(_) => {}
                },
                () = self.again.notified() => {
                    for pod in all.list(&ListParams::default()).await.into_iter().flatten() {
                        self.reconcile(&client, &pod).await;
                    }
                }
            }
        }
    }

    async fn reconcile(&self, client: &Client, pod: &Pod) {
        let Some(spec) = pod.spec.as_ref().filter(|spec| spec.node_name.as_deref() == Some(self.node)) else {
            return;
        };
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        if pod.metadata.deletion_timestamp.is_some() {
            // Already gone is fine.
            let _ = api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
            return;
        }
        let image = spec.containers.first().and_then(|c| c.image.as_deref()).unwrap_or_default();
        let rule = self.rule.read().unwrap_or_else(PoisonError::into_inner).clone();
        let names: Vec<&str> = spec.containers.iter().map(|c| c.name.as_str()).collect();
        let status = self.status(rule(image), image, &names);
        // An unchanged status would trigger all watchers.
        let before = pod.status.as_ref();
        let ready = |status: &str| {
            before
                .and_then(|s| s.conditions.as_ref())
                .is_some_and(|conditions| conditions.iter().any(|c| c.type_ == "Ready" && c.status == status))
        };
        if ready(status["conditions"][0]["status"].as_str().unwrap_or_default()) {
            return;
        }
        // A pod deleted at this moment needs no status.
        let _ = api
            .patch_status(
                &pod.name_any(),
                &PatchParams::default(),
                &Patch::Merge(json!({ "status": status })),
            )
            .await;
    }

    fn status(&self, fate: Fate, image: &str, containers: &[&str]) -> Value {
        let number = self.address.fetch_add(1, Ordering::Relaxed);
        let ip = match image {
            // Served by this process.
            _ if image.contains("local") => local_address().to_string(),
            // A listener on this machine, each at its own address.
            _ if image.contains("loopback") => format!("127.60.{}.{}", number / 250, number % 250 + 1),
            _ => format!("10.244.{}.{}", number / 250, number % 250 + 1),
        };
        let now = "2026-01-01T00:00:00Z";
        let ready = fate == Fate::Ready;
        let state = match fate {
            Fate::Ready | Fate::Unready => json!({ "running": { "startedAt": now } }),
            Fate::NoImage => json!({ "waiting": {
                "reason": "ErrImagePull", "message": format!("image {image} cannot be pulled") } }),
            Fate::Crashes => json!({ "waiting": {
                "reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container" } }),
        };
        let running = matches!(fate, Fate::Ready | Fate::Unready);
        let containers: Vec<Value> = containers
            .iter()
            .map(|name| {
                json!({ "name": name, "image": image, "imageID": "", "ready": ready, "started": running,
                        "restartCount": 0, "state": state })
            })
            .collect();
        json!({
            "phase": if running { "Running" } else { "Pending" }, "podIP": ip, "podIPs": [{ "ip": ip }],
            "containerStatuses": containers,
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": now }],
        })
    }
}

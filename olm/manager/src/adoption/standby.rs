//! Runs the controllers only while no other OLM runs.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ObjectReference};
use kube::{
    Api,
    runtime::{
        events::{Event, EventType},
        watcher,
    },
};
use olm_client::patient;
use olm_engine::{
    limits::{NOTE, truncate},
    site::MANAGER,
};
use olm_ops::{OTHER_OLM_SELECTOR, OtherOlm, find_other_olm};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::adopt::adopt;
use crate::context::Ctx;

/// Poll interval while another OLM runs, in addition to the watch: its APIService is not watched.
const STANDBY_INTERVAL: Duration = Duration::from_secs(15);
/// Retry interval after a failure.
const RETRY: Duration = Duration::from_secs(2);
const REASON: &str = "OtherOLMRunning";

/// Why the manager is on standby, if it is.
#[derive(Debug)]
pub(crate) struct Standby(watch::Sender<Option<String>>);

impl Default for Standby {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Standby {
    /// The reason of the standby; `None` while the controllers run.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Returns when the manager is on standby; at once if it is already.
    pub(crate) async fn begun(&self) {
        // The sender is `self`, so it is not dropped.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns whether the reason changed.
    fn set(&self, reason: Option<String>) -> bool {
        self.0.send_if_modified(|current| {
            let news = *current != reason;
            *current = reason;
            news
        })
    }
}

/// Runs the controllers until `stop`, except while another OLM runs: then they are stopped after finishing
/// their current reconciliations, and the manager waits for the other OLM to stop. Before every start of the
/// controllers, the objects that OLM v0 left are adopted.
pub(crate) async fn run_without_other_olm<F, Fut>(ctx: Arc<Ctx>, stop: CancellationToken, controllers: F)
where
    F: Fn(Arc<Ctx>, CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    let api = Api::<Deployment>::all(ctx.client.clone());
    let config = watcher::Config::default().labels(OTHER_OLM_SELECTOR);
    let changes = patient(watcher(api, config)).map(drop);
    let mut changes = Box::pin(changes);
    while alone(&ctx, &mut changes, &stop).await && adopted(&ctx, &stop).await {
        let work = stop.child_token();
        let mut running = Box::pin(controllers(Arc::clone(&ctx), work.clone()));
        loop {
            tokio::select! {
                () = &mut running => return,
                Some(()) = changes.next() => {
                    if let Some(other) = find_or_warn(&ctx).await {
                        report(&ctx, &other).await;
                        work.cancel();
                        running.await;
                        break;
                    }
                }
            }
        }
    }
}

/// Waits until no other OLM runs; `false` on shutdown.
async fn alone(ctx: &Ctx, changes: &mut (impl Stream<Item = ()> + Unpin), stop: &CancellationToken) -> bool {
    loop {
        match find_other_olm(&ctx.client).await {
            Ok(None) => {
                if ctx.standby.set(None) {
                    tracing::info!("no other OLM is running; starting");
                }
                return true;
            }
            Ok(Some(other)) => report(ctx, &other).await,
            // Without the right to list Deployments, which the manifests grant, another OLM is undetectable: the
            // controllers start.
            Err(error @ olm_ops::Error::Forbidden { .. }) => {
                tracing::warn!(%error, "failed to check for another OLM");
                return true;
            }
            Err(error) => tracing::warn!(%error, "failed to check for another OLM, retrying"),
        }
        let pause = if ctx.standby.reason().is_some() { STANDBY_INTERVAL } else { RETRY };
        tokio::select! {
            () = stop.cancelled() => return false,
            Some(()) = changes.next() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Retries the adoption of OLM v0's objects until it succeeds; `false` on shutdown.
async fn adopted(ctx: &Ctx, stop: &CancellationToken) -> bool {
    loop {
        match adopt(ctx).await {
            Ok(()) => return true,
            Err(error) => tracing::warn!(%error, "failed to adopt the objects of OLM, retrying"),
        }
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// Whether another OLM runs. A temporary read error changes nothing: the watch triggers another check.
async fn find_or_warn(ctx: &Ctx) -> Option<OtherOlm> {
    find_other_olm(&ctx.client).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "failed to check for another OLM");
        None
    })
}

/// Reports in the log, as an event on the manager's Deployment, and in the readiness probe.
async fn report(ctx: &Ctx, other: &OtherOlm) {
    let text = format!("{other}. This manager stays idle until it is stopped: {}", other.fix());
    if !ctx.standby.set(Some(text.clone())) {
        return;
    }
    tracing::warn!(reason = REASON, "{text}");
    let event = Event {
        type_: EventType::Warning,
        reason: REASON.into(),
        note: Some(truncate(&text, NOTE)),
        action: "Wait".into(),
        secondary: None,
    };
    let manager = ObjectReference {
        api_version: Some("apps/v1".into()),
        kind: Some("Deployment".into()),
        namespace: Some(ctx.namespace.clone()),
        name: Some(MANAGER.into()),
        ..ObjectReference::default()
    };
    if let Err(error) = ctx.recorder.publish(&event, &manager).await {
        tracing::debug!(%error, "failed to record an event");
    }
}

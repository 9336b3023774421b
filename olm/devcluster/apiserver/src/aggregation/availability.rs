//! Availability of extension API servers: the condition `Available` of their APIServices.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    discovery::{self, Purpose, Refused},
    registered::STORED,
    remote::Remote,
};
use crate::{
    meta::{self, list, text},
    outbound::ready_endpoints,
    state::Server,
    store::{Key, WriteError},
};

/// Kubernetes' interval of checks of a healthy API server.
const RECHECK: Duration = Duration::from_secs(30);
/// Retry interval of an API server that does not respond.
const RETRY: Duration = Duration::from_secs(2);
/// Pods change in bursts; each burst is checked once.
const PAUSE: Duration = Duration::from_millis(50);
/// Kubernetes' timeout.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A Service may have a terminating pod, so several endpoints are tried.
const ATTEMPTS: usize = 5;

/// Status of a condition.
struct Availability {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Availability {
    fn no(reason: &'static str, message: String) -> Self {
        Self { status: "False", reason, message }
    }
}

/// Trigger of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trigger {
    /// An APIService changed, possibly by the check itself.
    ApiServices,
    Other,
}

/// Starts the availability checks with the first remote; otherwise they cost nothing.
pub(crate) fn start_checks(server: &Arc<Server>) {
    let me = &server.aggregation;
    if !me.any.load(Ordering::Relaxed) || me.watched.load(Ordering::Relaxed) {
        return;
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current()
        && !me.watched.swap(true, Ordering::AcqRel)
    {
        runtime.spawn(run(Arc::downgrade(server), server.shutdown.clone()));
    }
}

/// Updates the conditions until the server stops.
async fn run(server: Weak<Server>, shutdown: CancellationToken) {
    let mut trigger = Trigger::Other;
    loop {
        let Some(strong) = server.upgrade() else { return };
        let watched = [STORED, "/services", "discovery.k8s.io/endpointslices"];
        // Subscribed before the state is read, so that no change is missed.
        let [mut own, mut services, mut slices] = watched.map(|resource| strong.store.subscribe(resource));
        let healthy = tokio::select! {
            healthy = check_all(&strong, trigger) => healthy,
            () = shutdown.cancelled() => return,
        };
        drop(strong);
        let again = if healthy { RECHECK } else { RETRY };
        trigger = tokio::select! {
            // The sender of a built-in kind lives as long as the server.
            _ = own.changed() => Trigger::ApiServices,
            _ = services.changed() => Trigger::Other,
            _ = slices.changed() => Trigger::Other,
            () = tokio::time::sleep(again) => Trigger::Other,
            () = shutdown.cancelled() => return,
        };
        tokio::time::sleep(PAUSE).await;
    }
}

/// Checks all APIServices; returns whether all are available.
async fn check_all(server: &Arc<Server>, trigger: Trigger) -> bool {
    let remotes = server.aggregation.remotes();
    let checks = remotes.values().map(|remote| async move {
        let verdict = check(server, remote).await;
        let fine = verdict.status == "True";
        // Only a change of objects can fix the other failures, so they are not retried.
        let retry = verdict.reason == "FailedDiscoveryCheck";
        if let Err(error) = record(server, &remote.name, verdict, trigger).await {
            tracing::warn!(apiservice = remote.name, %error, "failed to update the status of an APIService");
        }
        fine || !retry
    });
    futures::future::join_all(checks).await.into_iter().all(|well| well)
}

async fn check(server: &Arc<Server>, remote: &Remote) -> Availability {
    let (namespace, name) = (remote.namespace.as_str(), remote.service.as_str());
    let Some(service) = server.store.get(&Key::new("/services", namespace, name)) else {
        return Availability::no(
            "ServiceNotFound",
            format!("service/{name} in {namespace:?} is not present"),
        );
    };
    let mut endpoints = 1;
    if matches!(text(&service, "/spec/type"), "ClusterIP" | "") {
        let port =
            list(&service, "/spec/ports").iter().find(|p| p["port"].as_u64() == Some(remote.port.into()));
        let Some(port) = port else {
            let message = format!("service/{name} in {namespace:?} is not listening on port {}", remote.port);
            return Availability::no("ServicePortError", message);
        };
        let of_service =
            |slice: &Arc<Value>| text(slice, "/metadata/labels/kubernetes.io~1service-name") == name;
        if !server.store.list("discovery.k8s.io/endpointslices", namespace).items.iter().any(of_service) {
            let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
            return Availability::no("EndpointsNotFound", message);
        }
        endpoints = ready_endpoints(&server.store, namespace, name, text(port, "/name")).len();
        if endpoints == 0 {
            let message = format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {:?}",
                text(port, "/name")
            );
            return Availability::no("MissingEndpoints", message);
        }
    }
    let path = format!("/apis/{}/{}", remote.group, remote.version);
    let url = format!("https://{}:{}{path}", text(&service, "/spec/clusterIP"), remote.port);
    let mut why = String::new();
    for _ in 0..endpoints.min(ATTEMPTS) {
        let request = discovery::document(server, remote, &path, Purpose::Availability);
        match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(_)) => {
                store_documents(server, remote, &path).await;
                return Availability {
                    status: "True",
                    reason: "Passed",
                    message: "all checks passed".to_owned(),
                };
            }
            Ok(Err(Refused::Code(code))) => {
                why = format!("failing or missing response from {url}: bad status from {url}: {code}");
            }
            Ok(Err(Refused::Unreachable(cause))) => {
                why = format!("failing or missing response from {url}: Get \"{url}\": {cause}");
            }
            Err(_) => {
                why = format!(
                    "failing or missing response from {url}: Get \"{url}\": context deadline exceeded"
                )
            }
        }
    }
    Availability::no("FailedDiscoveryCheck", why)
}

/// Stores the discovery document of a remote. A document that the remote refuses is unknown, and stale.
async fn store_documents(server: &Server, remote: &Remote, path: &str) {
    let read = async |path: &str, purpose: Purpose| {
        let request = discovery::document(server, remote, path, purpose);
        tokio::time::timeout(TIMEOUT, request).await.ok().and_then(Result::ok)
    };
    let document = read(path, Purpose::Discovery).await;
    let key = format!("apis/{}/{}", remote.group, remote.version);
    let openapi = read("/openapi/v3", Purpose::OpenApi).await.and_then(|index| {
        Some(index.get("paths")?.get(&key)?.get("serverRelativeURL")?.as_str()?.to_owned())
    });
    let documents = document.map(|document| discovery::documents(&document, openapi));
    server.aggregation.set_documents(&remote.name, documents);
}

/// Writes the condition if it changed.
///
/// Each pod of a Service can fail with a different message. A change of only the message is not written if
/// the previous write triggered the check; otherwise two pods could alternate forever.
async fn record(
    server: &Arc<Server>,
    name: &str,
    verdict: Availability,
    trigger: Trigger,
) -> Result<(), WriteError> {
    let key = Key::new(STORED, "", name);
    while let Some(object) = server.store.get(&key).filter(|o| o["spec"]["service"].is_object()) {
        let conditions = list(&object, "/status/conditions");
        let old = conditions.iter().find(|c| c["type"] == "Available");
        let same = old.is_some_and(|old| {
            (text(old, "/status"), text(old, "/reason")) == (verdict.status, verdict.reason)
                && (text(old, "/message") == verdict.message || trigger == Trigger::ApiServices)
        });
        if same {
            return Ok(());
        }
        let since = old
            .filter(|old| text(old, "/status") == verdict.status)
            .map(|old| old["lastTransitionTime"].clone());
        let condition = json!({
            "type": "Available", "status": verdict.status, "reason": verdict.reason, "message": verdict.message,
            "lastTransitionTime": since.unwrap_or_else(|| meta::now().into()),
        });
        let mut all: Vec<Value> = conditions.iter().filter(|c| c["type"] != "Available").cloned().collect();
        all.push(condition);
        let mut new = Value::clone(&object);
        meta::child(&mut new, "status").insert("conditions".to_owned(), all.into());
        match server.store.write(&key, Some(&object), Some(new)).await {
            Ok(_) => {
                server.aggregation.reload(&server.store);
                return Ok(());
            }
            Err(WriteError::Raced) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

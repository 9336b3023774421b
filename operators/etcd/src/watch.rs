//! Watches of the Kubernetes API for a controller, each with its own backoff.
//!
//! A [`Controller`] suspends all its watches when one of them fails, for up to half a minute: a missing
//! permission for one kind would blind it for all of them. The streams from this module never fail.

use std::fmt::Debug;
use std::future::ready;

use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Error, Event};
use kube::runtime::{Controller, WatchStreamExt as _, reflector};
use kube::{Api, Resource};
use olm_client::patient;
use serde::de::DeserializeOwned;

/// HTTP status for an expired watch, which restarts, as happens regularly.
const EXPIRED: u16 = 410;

/// Changes of the objects. Errors are logged, and the watch is retried.
pub(crate) fn events<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    patient(watcher::watcher(api, config)).filter_map(|event| {
        ready(match event {
            Ok(event) => Some(Ok(event)),
            Err(error) => {
                if expired(&error) {
                    tracing::debug!(kind = %K::kind(&()), "watch restarted");
                } else {
                    tracing::warn!(kind = %K::kind(&()), %error, "watch failed, retrying");
                }
                None
            }
        })
    })
}

pub(crate) fn controller<K>(api: Api<K>) -> Controller<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (objects, writer) = reflector::store();
    let changes = reflector(writer, events(api, watcher::Config::default())).applied_objects();
    Controller::for_stream(changes, objects)
}

fn expired(error: &Error) -> bool {
    matches!(error, Error::WatchError(status) if status.code == EXPIRED)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_watch_that_is_refused_is_no_error_and_is_tried_again() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let refused = serde_json::json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "pods is forbidden", "reason": "Forbidden", "code": 403 });
            let answer = Response::builder().status(403).body(Body::from(refused.to_string().into_bytes()));
            ready(Ok::<_, Infallible>(answer.unwrap()))
        });
        let pods = Api::<Pod>::all(Client::new(service, "default"));
        let mut stream = std::pin::pin!(events(pods, watcher::Config::default()));
        let twice = async {
            while asked.load(Ordering::Relaxed) < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            event = stream.next() => panic!("{event:?}"),
            () = twice => {}
        }
    }
}

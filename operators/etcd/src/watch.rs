//! Watches of the Kubernetes API for a controller, each of which waits on its own after an error.
//!
//! A [`Controller`] lets all its watches wait when one of them fails, for up to half a minute: a right that is missing for one kind
//! would make it blind for all of them. What it is given here never fails.

use std::fmt::Debug;
use std::future::ready;

use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Error, Event};
use kube::runtime::{Controller, WatchStreamExt as _, reflector};
use kube::{Api, Resource};
use olm_client::patient;
use serde::de::DeserializeOwned;

/// What a watch is told when it has to begin anew, as it is every now and then.
const EXPIRED: u16 = 410;

/// What becomes of the objects. What goes wrong is logged, and tried again.
pub(crate) fn events<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    unfailing(patient(watcher::watcher(api, config)))
}

fn unfailing<K>(
    events: impl Stream<Item = Result<Event<K>, Error>> + Send,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send
where
    K: Resource<DynamicType = ()> + Send + 'static,
{
    events.filter_map(|event| {
        ready(match event {
            Ok(event) => Some(Ok(event)),
            Err(error) => {
                if expired(&error) {
                    tracing::debug!(kind = %K::kind(&()), "a watch begins anew");
                } else {
                    tracing::warn!(kind = %K::kind(&()), %error, "a watch failed and is tried again");
                }
                None
            }
        })
    })
}

/// A controller of the objects of a kind.
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
    use futures::stream;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[tokio::test]
    async fn what_goes_wrong_is_not_told() {
        let refused = Error::WatchError(Box::default());
        let events =
            [Ok(Event::Init), Err(refused), Err(Error::NoResourceVersion), Ok(Event::Apply(Pod::default()))];
        let told: Vec<_> = unfailing(stream::iter(events)).collect().await;
        assert!(matches!(told.as_slice(), [Ok(Event::Init), Ok(Event::Apply(_))]), "{told:?}");
    }
}

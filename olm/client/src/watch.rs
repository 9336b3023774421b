//! Watches with exponential backoff after an error.

use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{DefaultBackoff, Event, Result};

/// The longest backoff. client-go waits up to 30 s, which delays reconciliation too much.
pub const LONGEST: Duration = Duration::from_secs(10);

/// The events of a `watcher` that retries after an error: 0.8 s later, then twice as long each time up to
/// [`LONGEST`].
///
/// kube's own `default_backoff` never grows when the list itself is refused (a missing permission, a missing
/// kind): each attempt begins with [`Event::Init`], which resets it. Here `Init` is held back until the first
/// object or event arrives. For watches that begin with a list, as all of this workspace do, not for
/// streaming lists.
pub fn patient<K: Send>(
    events: impl Stream<Item = Result<Event<K>>> + Send,
) -> impl Stream<Item = Result<Event<K>>> + Send {
    waiting(events, Wait::default())
}

fn waiting<K: Send>(
    events: impl Stream<Item = Result<Event<K>>> + Send,
    wait: impl Backoff,
) -> impl Stream<Item = Result<Event<K>>> + Send {
    let without_init = events.filter(|event| std::future::ready(!matches!(event, Ok(Event::Init))));
    let mut listing = false;
    without_init.backoff(wait).flat_map(move |event| {
        let begins = !listing && matches!(event, Ok(Event::InitApply(_) | Event::InitDone));
        listing = matches!(event, Ok(Event::InitApply(_)));
        stream::iter(begins.then_some(Ok(Event::Init)).into_iter().chain([event]))
    })
}

#[derive(Default)]
struct Wait(DefaultBackoff);

impl Iterator for Wait {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|wait| wait.min(LONGEST))
    }
}

impl Backoff for Wait {
    fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;
    use kube::runtime::watcher::{Config, Error, watcher};
    use kube::{Api, Client};

    use super::*;

    #[test]
    fn the_backoff_grows_up_to_its_limit() {
        let mut wait = Wait::default();
        let waits: Vec<Duration> = wait.by_ref().take(12).collect();
        assert!(waits[0] < Duration::from_secs(2) && waits[11] == LONGEST, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= LONGEST), "{waits:?}");
    }

    /// 1 ms, 2 ms, 4 ms, ...
    #[derive(Default)]
    struct Quick(u32);

    impl Iterator for Quick {
        type Item = Duration;

        fn next(&mut self) -> Option<Duration> {
            self.0 += 1;
            Some(Duration::from_millis(1 << (self.0 - 1)))
        }
    }

    impl Backoff for Quick {
        fn reset(&mut self) {
            self.0 = 0;
        }
    }

    #[tokio::test]
    async fn a_refused_list_is_retried_with_growing_delay() {
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
        let received = waiting(watcher(pods, Config::default()), Quick::default());
        let received: Vec<_> =
            received.take_until(tokio::time::sleep(Duration::from_millis(250))).collect().await;
        assert!(received.len() > 1 && received.iter().all(Result::is_err), "{received:?}");
        // 1 + 2 + ... + 128 ms are 255.
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked <= 9, "asked {asked} times");
    }

    #[tokio::test]
    async fn init_comes_with_the_first_object_and_again_after_an_error() {
        let pod = Pod::default;
        let events = vec![
            Ok(Event::Init),
            Err(Error::NoResourceVersion),
            Ok(Event::Init),
            Ok(Event::InitApply(pod())),
            Ok(Event::InitApply(pod())),
            Err(Error::NoResourceVersion),
            Ok(Event::Init),
            Ok(Event::InitApply(pod())),
            Ok(Event::InitDone),
            Ok(Event::Apply(pod())),
            Ok(Event::Init),
            Ok(Event::InitDone),
        ];
        let received = waiting(stream::iter(events), Quick::default()).map(|event| match event {
            Ok(Event::Init) => "init",
            Ok(Event::InitApply(_)) => "one",
            Ok(Event::InitDone) => "done",
            Ok(_) => "change",
            Err(_) => "error",
        });
        let received: Vec<&str> = received.collect().await;
        let wanted = "error init one one error init one done change init done";
        assert_eq!(received.join(" "), wanted);
    }
}

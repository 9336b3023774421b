//! Events, one per text.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{self, Event, Reporter},
};

/// How long a repeated event is counted in a series; kube's recorder forgets it after the same time.
const COUNTED: Duration = Duration::from_secs(360);

/// Publishes events. An event repeated within six minutes is counted; an event with another text is a new
/// event, also under the same reason. (kube's recorder, like the newer one of client-go, counts everything
/// with the same reason and keeps the first text.)
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    reporter: Reporter,
    /// By text, with the time of the last publication.
    recorders: Arc<Mutex<HashMap<String, (Instant, events::Recorder)>>>,
}

impl Recorder {
    /// Publishes in the name of `reporter`.
    #[must_use]
    pub fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter, recorders: Arc::default() }
    }

    /// Publishes an event about an object, in its namespace. Needs the permissions to create and patch
    /// `events` of `events.k8s.io` there.
    ///
    /// # Errors
    /// The API server rejects the event.
    pub async fn publish(&self, event: &Event, regarding: &ObjectReference) -> Result<(), kube::Error> {
        self.of_text(event.note.as_deref().unwrap_or_default()).publish(event, regarding).await
    }

    fn of_text(&self, text: &str) -> events::Recorder {
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        recorders.retain(|_, (at, _)| at.elapsed() < COUNTED);
        let anew = || (Instant::now(), events::Recorder::new(self.client.clone(), self.reporter.clone()));
        let (at, recorder) = recorders.entry(text.to_owned()).or_insert_with(anew);
        *at = Instant::now();
        recorder.clone()
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::{client::Body, runtime::events::EventType};

    use super::*;

    #[tokio::test]
    async fn each_text_is_an_event_and_the_same_one_is_counted() {
        // given a server that accepts every event
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = {
            let seen = Arc::clone(&seen);
            tower::service_fn(move |request: Request<Body>| {
                let seen = Arc::clone(&seen);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let event: serde_json::Value = serde_json::from_slice(&body)?;
                    let count = event["series"]["count"].as_u64();
                    seen.lock().unwrap().push((
                        head.method,
                        event["note"].as_str().map(str::to_owned),
                        count,
                    ));
                    let answer = Response::new(Body::from(body.to_vec()));
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer)
                }
            })
        };
        let recorder = Recorder::new(Client::new(server, "default"), "olm".into());
        let regarding = ObjectReference { name: Some("orders".into()), ..ObjectReference::default() };

        // when two texts are published under one reason, one of them twice
        for text in ["3.6 is not known", "3.5 comes first", "3.6 is not known"] {
            let event = Event {
                type_: EventType::Warning,
                reason: "UpgradeBlocked".into(),
                note: Some(text.into()),
                action: "Upgrade".into(),
                secondary: None,
            };
            recorder.publish(&event, &regarding).await.unwrap();
        }

        // then there are two events, and the series of one counts two
        let sent = |method, text: &str, count| (method, Some(text.to_owned()), count);
        let expected = [
            sent(Method::POST, "3.6 is not known", None),
            sent(Method::POST, "3.5 comes first", None),
            sent(Method::PATCH, "3.6 is not known", Some(2)),
        ];
        assert_eq!(*seen.lock().unwrap(), expected);
    }
}

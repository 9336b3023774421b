//! Live pages: the server renders and sends changed fragments.
//!
//! A stream watches the objects of its page. Each change renders the live part of the page again, at most
//! four times a second, and sends it if it differs. Objects that the user may not watch are polled.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{RawQuery, State},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt as _, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use olm_api::{ClusterServiceVersion, InstallPlan, Subscription};
use olm_client::patient;
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    api_server,
    app::App,
    caller::Caller,
    dynamic::CustomKind,
    error::WebError,
    inventory::Filter,
    pages::{installed, instance, operator},
    posted::Fields,
    rights::ReviewedRights,
    session, validity,
};

/// Changes within this time are rendered once.
const BATCH: Duration = Duration::from_millis(250);
/// Polling interval for pods and events, which are not watched.
const CLOCK: Duration = Duration::from_secs(2);
/// Polling interval for a page without recent changes.
const SLOW_CLOCK: Duration = Duration::from_secs(30);

/// The subject of a page.
enum Subject {
    List(Filter),
    Operator { namespace: String, name: String, tab: operator::Tab },
    Instance { crd: String, namespace: String, name: String },
}

impl Subject {
    fn read(query: &str) -> Result<Self, WebError> {
        let fields = Fields::parse(query.as_bytes());
        let parts = |key: &str| -> Option<Vec<String>> {
            fields.text(key).map(|text| text.split('/').map(str::to_owned).collect())
        };
        if let Some([namespace, name]) = parts("installed").as_deref() {
            let tab = match fields.text("tab") {
                None => operator::Tab::Overview,
                Some(tab) => operator::Tab::parse(tab)
                    .ok_or_else(|| WebError::bad_request("`tab`: no such tab of an operator"))?,
            };
            return Ok(Self::Operator { namespace: namespace.clone(), name: name.clone(), tab });
        }
        if let Some([crd, namespace, name]) = parts("instance").as_deref() {
            return Ok(Self::Instance { crd: crd.clone(), namespace: namespace.clone(), name: name.clone() });
        }
        if fields.raw("installed") == Some("") {
            return Ok(Self::List(Filter::parse(query.as_bytes())));
        }
        Err(WebError::bad_request(
            "query: missing topic, expected `installed`, `installed=NAMESPACE/NAME` or \
             `instance=CRD/NAMESPACE/NAME`",
        ))
    }

    async fn draw(
        &self,
        app: &App,
        caller: &Caller,
        rights: &mut ReviewedRights,
    ) -> Result<RenderedView, WebError> {
        match self {
            Self::List(filter) => {
                let (snapshot, list) = tokio::join!(
                    app.catalogs.read(&caller.identity),
                    olm_ops::list_installed(&caller.client, None)
                );
                let list = list?;
                caller.set_installed(&list);
                let cannot = rights.cannot_approve(&caller.client, &list).await;
                let html = installed::view(&list, filter, &snapshot, caller.csrf(), &cannot).into_string();
                Ok(RenderedView { html, announcement: String::new() })
            }
            Self::Operator { namespace, name, tab } => {
                let snapshot = app.catalogs.read(&caller.identity).await;
                let view = operator::View::read(caller, rights, namespace, name, *tab).await?;
                let html = operator::render(&view, &snapshot, caller.csrf()).into_string();
                Ok(RenderedView { html, announcement: view.announcement() })
            }
            Self::Instance { crd, namespace, name } => {
                let view = instance::View::read(&caller.client, crd, namespace, name).await?;
                Ok(RenderedView {
                    html: instance::render(&view).into_string(),
                    announcement: view.announcement(),
                })
            }
        }
    }

    /// Yields an item whenever an object of the page changes.
    async fn changes(&self, client: &Client) -> stream::BoxStream<'static, ()> {
        let kinds: Vec<(ApiResource, Option<String>, Option<String>)> = match self {
            Self::List(_) | Self::Operator { .. } => {
                let namespace = match self {
                    Self::Operator { namespace, .. } => Some(namespace.clone()),
                    _ => None,
                };
                [
                    ApiResource::erase::<Subscription>(&()),
                    ApiResource::erase::<InstallPlan>(&()),
                    ApiResource::erase::<ClusterServiceVersion>(&()),
                ]
                .into_iter()
                .map(|resource| (resource, namespace.clone(), None))
                .collect()
            }
            Self::Instance { crd, namespace, name } => match CustomKind::read(client, crd, None).await {
                Ok(kind) => {
                    let namespace = kind.namespaced.then(|| namespace.clone());
                    vec![(kind.resource, namespace, Some(name.clone()))]
                }
                Err(_) => Vec::new(),
            },
        };
        let watches = kinds.into_iter().map(|(resource, namespace, name)| {
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let config = match name {
                Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
                None => watcher::Config::default(),
            };
            patient(watcher(api, config)).filter_map(|event| std::future::ready(event.is_ok().then_some(())))
        });
        stream::select_all(watches.map(futures::StreamExt::boxed)).boxed()
    }
}

struct RenderedView {
    html: String,
    announcement: String,
}

/// `GET /api/v1/events`
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let subject = Subject::read(&query.unwrap_or_default())?;
    let open = app.streams.open(&caller.identity.name)?;
    let (sender, receiver) = mpsc::channel::<Event>(8);
    tokio::spawn(async move {
        let shutdown = app.shutdown.clone();
        tokio::select! {
            // The client disconnected, or the server shuts down.
            () = sender.closed() => {}
            () = shutdown.cancelled() => {}
            () = follow(&app, &caller, &subject, &sender) => {}
        }
        drop(open);
    });
    let stream = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|event| (Ok::<_, Infallible>(event), receiver))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

async fn follow(app: &Arc<App>, caller: &Caller, subject: &Subject, sender: &mpsc::Sender<Event>) {
    let mut changes = subject.changes(&caller.client).await;
    let mut pause = Duration::ZERO;
    let mut validated = Instant::now();
    let mut rights = ReviewedRights::default();
    let mut sent = [0; 32];
    // Sets the delay after which the browser reconnects.
    if sender.send(Event::default().retry(Duration::from_secs(1)).comment("hello")).await.is_err() {
        return;
    }
    loop {
        let changed = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            Some(()) = changes.next() => true,
        };
        // Collect further changes of the same moment.
        let calm = tokio::time::sleep(BATCH);
        tokio::pin!(calm);
        loop {
            tokio::select! {
                () = &mut calm => break,
                Some(()) = changes.next() => {}
            }
        }
        let drawn = match validate(app, caller, &mut validated).await {
            Ok(()) => subject.draw(app, caller, &mut rights).await,
            Err(error) => Err(error),
        };
        let drawn = match drawn {
            Ok(drawn) => drawn,
            Err(error) if error.status.is_server_error() => {
                pause = next_pause(pause, false);
                continue;
            }
            Err(error) => {
                let what = crate::links::clean(&error.what).replace(['\n', '\r'], " ");
                let _ = sender.send(Event::default().event("refused").data(what)).await;
                return;
            }
        };
        let now = session::hash(&drawn.html);
        pause = next_pause(pause, changed || now != sent);
        if now == sent {
            continue;
        }
        sent = now;
        let data = json!({ "html": drawn.html, "announcement": drawn.announcement }).to_string();
        let event = Event::default().event("step").id(session::hex(&now[..6])).data(data);
        if sender.send(event).await.is_err() {
            return;
        }
    }
}

/// A stream ends with the session and with the token of its caller.
async fn validate(app: &Arc<App>, caller: &Caller, validated: &mut Instant) -> Result<(), WebError> {
    if caller.session.as_ref().is_some_and(|session| !app.sessions.is_alive(&session.key)) {
        return Err(WebError::unauthorized("session ended"));
    }
    if let Some(session) = &caller.session {
        validity::keep_valid(app, session).await?;
    }
    if validated.elapsed() >= app.revalidate {
        api_server::identity(&caller.client, &caller.identity.token).await?;
        *validated = Instant::now();
    }
    Ok(())
}

/// Poll soon after a change, and with a growing interval without one.
fn next_pause(pause: Duration, happens: bool) -> Duration {
    if happens { CLOCK } else { (pause * 2).clamp(CLOCK, SLOW_CLOCK) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_page_is_drawn_ever_more_rarely() {
        let mut pauses = vec![next_pause(Duration::ZERO, true)];
        for _ in 0..5 {
            pauses.push(next_pause(pauses[pauses.len() - 1], false));
        }
        assert_eq!(pauses, [2, 4, 8, 16, 30, 30].map(Duration::from_secs));
        assert_eq!(next_pause(SLOW_CLOCK, true), CLOCK);
    }
}

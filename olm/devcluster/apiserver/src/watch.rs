//! Watches: one JSON object per line, until the client disconnects.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use tokio::{sync::watch::Receiver, time::Instant};

use super::{
    call::Call,
    convert,
    format::Format,
    list::{self, too_large},
    meta,
    resource::Resource,
    selector::Selector,
    state::Server,
    status::{ApiError, ApiResult, bytes_response},
    store::Event,
};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

struct Watch {
    server: Arc<Server>,
    resource: Arc<Resource>,
    namespace: String,
    selector: Selector,
    format: Format,
    /// Events up to this resourceVersion have been sent.
    position: u64,
    changed: Receiver<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// Lines to send.
    ready: VecDeque<Bytes>,
    first: bool,
    ended: bool,
}

/// GET of a collection with `watch=true`.
pub(crate) async fn watch(call: &Call<'_>) -> ApiResult<Response> {
    let selector = list::selector(call)?;
    let store = &call.server.store;
    let stored = &call.resource.stored;
    let initial = initial_events(call)?;
    let bookmarks = call.query.flag("allowWatchBookmarks");
    let seconds = call.query.number("timeoutSeconds")?.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
    // As in Kubernetes, timeouts are random, so that clients do not reconnect all at once.
    let seconds = seconds.unwrap_or_else(|| rand::random_range(1800..3600));
    let now = Instant::now();
    let (page, changed) = store.list_and_subscribe(stored, &call.info.namespace);
    let mut watch = Watch {
        server: call.server.clone(),
        resource: call.resource.clone(),
        namespace: call.info.namespace.clone(),
        selector,
        format: call.format,
        position: page.rv,
        changed,
        bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + Duration::from_secs(seconds),
        ready: VecDeque::new(),
        first: true,
        ended: false,
    };
    match initial {
        Initial::State { bookmark } => {
            for shown in convert::present_all(call.server, call.resource, page.items).await? {
                if watch.selector.matches(&shown) {
                    watch.push("ADDED", &shown);
                }
            }
            if bookmark {
                watch.push_bookmark(true);
            }
        }
        Initial::After(rv) => {
            if rv > page.rv {
                return Err(too_large(rv, page.rv));
            }
            if let Err(floor) = store.events_after(stored, rv) {
                return Err(too_old(rv, floor));
            }
            watch.position = rv;
            watch.collect().await;
        }
    }
    Ok(bytes_response(200, "application/json", Body::from_stream(stream::unfold(watch, next))))
}

enum Initial {
    /// The current state first, as ADDED events, optionally followed by a bookmark.
    State { bookmark: bool },
    /// Events after a resourceVersion.
    After(u64),
}

fn initial_events(call: &Call<'_>) -> ApiResult<Initial> {
    let rv = call.query.get("resourceVersion");
    let how = call.query.get("resourceVersionMatch");
    let refuse = |message: &str| {
        Err(ApiError::new(422, "Invalid", format!("ListOptions.meta.k8s.io \"\" is invalid: {message}")))
    };
    if call.query.has("sendInitialEvents") {
        if how != "NotOlderThan" {
            return refuse(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        if call.query.flag("sendInitialEvents") {
            return Ok(Initial::State { bookmark: call.query.flag("allowWatchBookmarks") });
        }
    } else if !how.is_empty() {
        return refuse(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        );
    }
    match rv {
        "" | "0" if call.query.has("sendInitialEvents") => Ok(Initial::After(call.server.store.revision())),
        "" | "0" => Ok(Initial::State { bookmark: false }),
        text => text.parse().map(Initial::After).map_err(|_| {
            ApiError::bad_request(format!("resourceVersion: Invalid value: \"{text}\": must be a number"))
        }),
    }
}

fn too_old(rv: u64, floor: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {rv} ({floor})"))
}

/// The next chunk; all ready lines are sent together.
async fn next(mut watch: Watch) -> Option<(Result<Bytes, std::convert::Infallible>, Watch)> {
    loop {
        if !watch.ready.is_empty() {
            let chunk = if watch.ready.len() == 1 {
                watch.ready.pop_front().unwrap_or_default()
            } else {
                watch.ready.drain(..).flatten().collect()
            };
            return Some((Ok(chunk), watch));
        }
        if watch.ended {
            return None;
        }
        let shutdown = watch.server.shutdown.clone();
        tokio::select! {
            changed = watch.changed.changed() => {
                watch.collect().await;
                // Without a sender the resource is no longer served.
                watch.ended |= changed.is_err();
            }
            () = tokio::time::sleep_until(watch.deadline) => watch.ended = true,
            () = tokio::time::sleep_until(watch.next_bookmark), if watch.bookmarks => {
                watch.collect().await;
                if !watch.ended {
                    watch.push_bookmark(false);
                }
            }
            () = shutdown.cancelled() => watch.ended = true,
        }
    }
}

impl Watch {
    /// Collects new events.
    async fn collect(&mut self) {
        let collected = match self.server.store.events_after(&self.resource.stored, self.position) {
            Ok((events, rv)) => self.push_events(&events).await.map(|()| rv),
            Err(floor) => Err(too_old(self.position, floor)),
        };
        match collected {
            Ok(rv) => self.position = rv,
            Err(error) => {
                self.push_line(&json!({ "type": "ERROR", "object": error.status() }));
                self.ended = true;
            }
        }
    }

    async fn push_events(&mut self, events: &[Event]) -> ApiResult<()> {
        if self.resource.custom().is_some() && !events.is_empty() {
            // The conversion may have changed since the watch began.
            let served = self.server.registry.served();
            let me = &self.resource;
            if let Some(now) = served.find(&me.group, &me.version, &me.plural) {
                self.resource = now.clone();
            }
        }
        for event in events {
            self.push_event(event).await?;
        }
        Ok(())
    }

    /// Translates an event for a client with selectors.
    async fn push_event(&mut self, event: &Event) -> ApiResult<()> {
        let Some(any) = event.new.as_ref().or(event.old.as_ref()) else { return Ok(()) };
        if !self.namespace.is_empty() && meta::namespace(any) != self.namespace {
            return Ok(());
        }
        let new = self.visible(event.new.as_ref()).await?;
        let was_seen = if self.selector.is_everything() {
            event.old.is_some()
        } else {
            self.visible(event.old.as_ref()).await?.is_some()
        };
        match (was_seen, new) {
            (false, Some(new)) => self.push("ADDED", &new),
            (true, Some(new)) => self.push("MODIFIED", &new),
            (true, None) => {
                let Some(last) = event.last.as_ref().or(event.old.as_ref()) else { return Ok(()) };
                let mut last = convert::present(&self.server, &self.resource, last).await?;
                if event.new.is_some() {
                    // It still exists but no longer matches: DELETED with the last matching state, at this
                    // resourceVersion.
                    let mut gone = Value::clone(&last);
                    meta::metadata(&mut gone)
                        .insert("resourceVersion".to_owned(), event.rv.to_string().into());
                    last = Arc::new(gone);
                }
                self.push("DELETED", &last);
            }
            (false, None) => {}
        }
        Ok(())
    }

    /// The object in the version of the watch, if the selectors match it.
    async fn visible(&self, object: Option<&Arc<Value>>) -> ApiResult<Option<Arc<Value>>> {
        let Some(object) = object else { return Ok(None) };
        let shown = convert::present(&self.server, &self.resource, object).await?;
        Ok(Some(shown).filter(|o| self.selector.is_everything() || self.selector.matches(o)))
    }

    fn push(&mut self, kind: &str, object: &Arc<Value>) {
        let body = self.format.event(&self.resource, object, self.first);
        self.first = false;
        self.push_line(&json!({ "type": kind, "object": body }));
    }

    fn push_bookmark(&mut self, initial: bool) {
        self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
        let mut metadata = json!({ "resourceVersion": self.position.to_string(), "creationTimestamp": null });
        if initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.format {
            Format::Whole => {
                json!({ "kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata })
            }
            Format::Metadata | Format::MetadataList => {
                json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
            }
            Format::Table(_) => {
                let mut table = super::table::empty(&self.resource, false);
                table["metadata"] = json!({ "resourceVersion": self.position.to_string() });
                table["rows"] = json!([{ "cells": [], "object": { "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata } }]);
                table
            }
        };
        self.push_line(&json!({ "type": "BOOKMARK", "object": object }));
    }

    /// As on a real API server, a watch that requested a list form ends at its first object.
    fn push_line(&mut self, line: &Value) {
        if self.format == Format::MetadataList {
            self.ended = true;
            return;
        }
        let mut bytes = serde_json::to_vec(line).unwrap_or_default();
        bytes.push(b'\n');
        self.ready.push_back(bytes.into());
    }
}

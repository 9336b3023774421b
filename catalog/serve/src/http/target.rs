//! The catalog that a request addresses.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use olm_catalog::Catalog;

use super::packages::CompressedIndex;
use super::{Served, text};
use crate::names;

/// Namespace and name.
pub(super) type Key = (Option<String>, String);

/// Cached state of a catalog between requests.
#[derive(Clone)]
pub(super) struct CachedState {
    digest: String,
    /// Since when this content has been served here, in seconds of Unix time.
    since: u64,
    /// Computed by the first request.
    pub packages: Arc<OnceLock<CompressedIndex>>,
    pub index: Arc<OnceLock<CompressedIndex>>,
}

impl CachedState {
    /// For `Last-Modified`.
    pub fn modified(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.since)
    }
}

/// The catalog of a request's path.
pub(super) struct Target {
    pub catalog: Arc<Catalog>,
    pub known: CachedState,
    /// The package in the path, if any.
    pub package: Option<String>,
}

impl FromRequestParts<Arc<Served>> for Target {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, served: &Arc<Served>) -> Result<Self, Response> {
        let params =
            RawPathParams::from_request_parts(parts, &()).await.map_err(IntoResponse::into_response)?;
        let param =
            |key: &str| params.iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_owned());
        let (namespace, name) = match (param("first"), param("second")) {
            (Some(namespace), Some(name)) => (Some(namespace), name),
            (name, _) => (None, name.unwrap_or_default()),
        };
        let valid =
            namespace.as_deref().map_or(Ok(()), names::namespace).and_then(|()| names::catalog(&name));
        valid.map_err(|message| text(StatusCode::BAD_REQUEST, &message))?;
        let Some(catalog) = (served.find)(namespace.as_deref(), &name) else {
            let place = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
            return Err(text(
                StatusCode::NOT_FOUND,
                &format!("404 Not Found: catalog {place}{name} not found"),
            ));
        };
        let known = served.known(namespace, name, &catalog);
        Ok(Self { catalog, known, package: param("package") })
    }
}

impl Served {
    /// The cached state of a catalog, reset when its content changes.
    fn known(&self, namespace: Option<String>, name: String, catalog: &Catalog) -> CachedState {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        cached_state(&mut all, (namespace, name), &catalog.digest, now, |(namespace, name)| {
            (self.find)(namespace.as_deref(), name).is_some()
        })
    }
}

fn cached_state(
    all: &mut HashMap<Key, CachedState>,
    key: Key,
    digest: &str,
    now: u64,
    is_served: impl Fn(&Key) -> bool,
) -> CachedState {
    let before = all.get(&key);
    if let Some(known) = before.filter(|known| known.digest == digest) {
        return known.clone();
    }
    // HTTP dates have a resolution of seconds. Two contents within one second must have different dates.
    let since = before.map_or(now, |known| now.max(known.since + 1));
    let is_new = before.is_none();
    if is_new {
        all.retain(|key, _| is_served(key));
    }
    let known =
        CachedState { digest: digest.to_owned(), since, packages: Arc::default(), index: Arc::default() };
    all.insert(key, known.clone());
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        (None, name.to_owned())
    }

    #[test]
    fn another_content_is_always_of_another_second() {
        // given a cached catalog
        let mut all = HashMap::new();
        let first = cached_state(&mut all, key("c"), "1", 100, |_| true);

        // when it changes twice within the second, back to the first content
        let second = cached_state(&mut all, key("c"), "2", 100, |_| true);
        let third = cached_state(&mut all, key("c"), "1", 100, |_| true);

        // then every content has its own date, and keeps it
        assert_eq!((first.since, second.since, third.since), (100, 101, 102));
        assert_eq!(cached_state(&mut all, key("c"), "1", 500, |_| true).since, 102);
        assert_eq!(cached_state(&mut all, key("c"), "3", 500, |_| true).since, 500);
    }

    #[test]
    fn what_is_not_served_any_more_is_forgotten() {
        let mut all = HashMap::new();
        cached_state(&mut all, key("gone"), "1", 1, |_| true);
        cached_state(&mut all, key("new"), "1", 1, |key| key.1 != "gone");
        assert_eq!(all.into_keys().collect::<Vec<_>>(), [key("new")]);
    }
}

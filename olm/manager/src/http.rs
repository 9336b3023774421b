//! The manager's HTTP port: probes, metrics, and the catalogs it has loaded.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::sync::Semaphore;

use crate::{
    catalogs::{CatalogStore, IndexEntry, NoBundle, ReadError},
    manifests::NAMESPACE,
    metrics::Metrics,
};

/// Bundles that are handed out at a time: each may wait for a registry. Whoever comes on top is sent away at once.
const BUNDLES: usize = 16;

/// What the port answers from.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) catalogs: Arc<CatalogStore>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) leading: Arc<AtomicBool>,
    /// Whether every CatalogSource that there was at the start has been looked at.
    pub(crate) ready: Arc<AtomicBool>,
}

pub(crate) fn router(serving: Serving) -> Router {
    let catalogs = Arc::clone(&serving.catalogs);
    let content = olm_catalog_serve::router(move |namespace: Option<&str>, name: &str| {
        catalogs.content(namespace.unwrap_or(NAMESPACE), name)
    });
    let slots = Arc::new(Semaphore::new(BUNDLES));
    let bundles = get(move |state, path| bundle(state, path, Arc::clone(&slots)));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/catalogs", get(index))
        // The names are those that the other routes below /catalogs have at the same place.
        .route("/catalogs/{first}/{second}/api/v1/bundles/{package}/{bundle}", bundles)
        .fallback(summaries)
        .with_state(serving)
        .merge(content)
}

async fn readyz(State(serving): State<Serving>) -> impl IntoResponse {
    if !serving.leading.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "waiting for the lease\n");
    }
    if !serving.ready.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "loading catalogs\n");
    }
    (StatusCode::OK, "ok\n")
}

async fn metrics(State(serving): State<Serving>) -> impl IntoResponse {
    let text = serving.metrics.render(&serving.catalogs, serving.leading.load(Ordering::Relaxed));
    ([("content-type", "text/plain; version=0.0.4")], text)
}

async fn index(State(serving): State<Serving>) -> Json<Vec<IndexEntry>> {
    Json(serving.catalogs.index())
}

/// The document of a bundle with its manifests inside: for those who may not pull its image themselves.
async fn bundle(
    State(serving): State<Serving>,
    Path((namespace, name, package, bundle)): Path<(String, String, String, String)>,
    slots: Arc<Semaphore>,
) -> Response {
    let none = |what: String| (StatusCode::NOT_FOUND, format!("404 Not Found: there is no {what}\n")).into_response();
    let Some(loaded) = serving.catalogs.get(&namespace, &name).and_then(|entry| entry.loaded) else {
        return none(format!("catalog {namespace}/{name}"));
    };
    let Ok(_slot) = slots.try_acquire() else {
        let retry = [(header::RETRY_AFTER, "5")];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, "too many bundles are being read\n").into_response();
    };
    let found = match loaded.package(&package).await {
        Ok(found) => found,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let Some(entry) = found.as_ref().and_then(|found| found.bundles.get(&bundle)) else {
        return none(format!("bundle {bundle} of package {package} in catalog {namespace}/{name}"));
    };
    if entry.is_inline() {
        let text = format!("404 Not Found: the manifests of {bundle} are in the catalog itself\n");
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let no = |code: &str, message: String| {
        (StatusCode::BAD_GATEWAY, Json(NoBundle { code: code.to_owned(), message })).into_response()
    };
    match loaded.document(entry).await {
        Ok(document) => ([(header::CONTENT_TYPE, "application/json")], document.to_vec()).into_response(),
        Err(ReadError::Image(error)) => no(error.code, error.text),
        Err(error) => no("BundleInvalid", error.to_string()),
    }
}

/// The summaries of a catalog: `/catalogs/NAMESPACE/NAME/api/v1/index`.
async fn summaries(State(serving): State<Serving>, uri: Uri) -> Response {
    let parts: Vec<&str> = uri.path().split('/').collect();
    let ["", "catalogs", namespace, name, "api", "v1", "index"] = parts[..] else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match serving.catalogs.content(namespace, name) {
        Some(catalog) => {
            let headers =
                [(header::CONTENT_TYPE, "application/json".to_owned()), (header::ETAG, format!("{:?}", catalog.digest))];
            (headers, catalog.index()).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

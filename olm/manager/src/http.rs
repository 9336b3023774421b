//! The manager's HTTP port: probes, metrics, and the catalogs it has loaded.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};

use crate::{
    catalogs::{CatalogStore, IndexEntry},
    metrics::Metrics,
};

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
    let content =
        olm_catalog::serve::router(move |namespace: &str, name: &str| catalogs.content(namespace, name));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/catalogs", get(index))
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

//! `/healthz`, `/readyz` and `/metrics`. Readiness does not wait for leadership: in a rolling update the new
//! pod becomes ready, the old one stops, and only then the new one leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Serves until shutdown.
pub(crate) async fn serve(
    listener: TcpListener,
    ready: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) {
    let readyz = move || async move {
        if ready.load(Ordering::Relaxed) {
            (StatusCode::OK, "ok")
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "the API server is not reachable yet")
        }
    };
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(move || async move { metrics.render() }));
    let served =
        axum::serve(listener, router).with_graceful_shutdown(async move { shutdown.cancelled().await }).await;
    if let Err(error) = served {
        tracing::error!(%error, "probes and metrics are not served any more");
    }
}

//! The manager's HTTP port: probes, metrics, and the catalogs it has loaded. Probes are open to everyone; all else needs a
//! bearer token and a right ([`guard`]).

mod guard;
mod listener;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    http::{StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
pub(crate) use listener::{Connections, Peer};
use tokio::sync::Semaphore;

use crate::{
    catalogs::{NoBundle, ReadError},
    context::Ctx,
    metrics::Seen,
    reviews::User,
};

/// Bundles that are handed out at a time: each may wait for a registry. Whoever comes on top is sent away at once.
const BUNDLES: usize = 16;

/// What the port answers from.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) ctx: Arc<Ctx>,
    /// Whether every CatalogSource that there was at the start has been looked at, and what the controllers watch was seen.
    pub(crate) ready: Arc<AtomicBool>,
}

pub(crate) fn router(serving: Serving) -> Router {
    let ctx = Arc::clone(&serving.ctx);
    let found = Arc::clone(&ctx);
    let content = olm_catalog_serve::router(move |namespace: Option<&str>, name: &str| {
        found.catalogs.content(namespace.unwrap_or(&found.namespace), name)
    });
    let slots = Arc::new(Semaphore::new(BUNDLES));
    let bundles = get(move |state, path| bundle(state, path, Arc::clone(&slots)));
    let catalogs = Router::new()
        // The names are those that the other routes below /catalogs have at the same place.
        .route("/catalogs/{first}/{second}/api/v1/bundles/{package}/{bundle}", bundles)
        .with_state(serving.clone())
        .merge(content)
        .route_layer(from_fn_with_state(Arc::clone(&ctx), guard::catalog));
    let metrics = Router::new()
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(Arc::clone(&ctx), guard::metrics));
    let guarded = Router::new()
        .route("/catalogs", get(index))
        .merge(metrics)
        .with_state(serving.clone())
        .merge(catalogs)
        .route_layer(from_fn_with_state(ctx, guard::authenticated));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(serving)
        .merge(guarded)
}

/// Alive is a process whose loops turn. Anything else, such as an API server that is away, a restart would not help.
async fn healthz(State(serving): State<Serving>) -> Response {
    match serving.ctx.health.stuck(std::time::Instant::now()) {
        None => "ok\n".into_response(),
        Some((what, since)) => {
            let text = format!("{what} does not end; it was begun {} s ago\n", since.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// Ready is who can answer. Leading has nothing to do with it: the others have the catalogs as well.
async fn readyz(State(serving): State<Serving>) -> Response {
    if !serving.ready.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "loading catalogs\n").into_response();
    }
    match serving.ctx.standby.reason() {
        None => "ok\n".into_response(),
        Some(why) => format!("ok, and idle: {why}\n").into_response(),
    }
}

async fn metrics(State(serving): State<Serving>) -> impl IntoResponse {
    let ctx = &serving.ctx;
    let text = ctx.metrics.render(&Seen {
        catalogs: &ctx.catalogs,
        stores: &ctx.stores,
        leading: ctx.leads(),
        retrying: ctx.backoff.failing(),
        now: jiff::Timestamp::now(),
    });
    ([("content-type", "text/plain; version=0.0.4")], text)
}

/// The catalogs that the user may read.
async fn index(State(serving): State<Serving>, Extension(user): Extension<User>) -> Response {
    let all = serving.ctx.catalogs.index().into_iter().map(|entry| (entry.reference(), entry)).collect();
    match serving.ctx.reviews.readable(&user, all, |(reference, _)| reference).await {
        Ok(readable) => {
            Json(readable.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>()).into_response()
        }
        Err(refusal) => guard::refused(refusal),
    }
}

/// The document of a bundle with its manifests inside: for those who may not pull its image themselves.
async fn bundle(
    State(serving): State<Serving>,
    Path((namespace, name, package, bundle)): Path<(String, String, String, String)>,
    slots: Arc<Semaphore>,
) -> Response {
    let none = |what: String| {
        (StatusCode::NOT_FOUND, format!("404 Not Found: there is no {what}\n")).into_response()
    };
    let Some(loaded) = serving.ctx.catalogs.get(&namespace, &name).and_then(|entry| entry.loaded) else {
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

#[cfg(test)]
mod tests;

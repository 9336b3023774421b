//! The manager's HTTP port: probes, metrics, and the loaded catalogs. Probes are open to everyone; all else
//! needs a bearer token and a right ([`guard`]).

mod guard;
mod listener;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Extension, Json, Router,
    extract::{Path, Query, State},
    http::{StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
pub(crate) use listener::{Connections, Peer};
use olm_catalog::BundleEntry;
use olm_engine::catalogs::{LoadedCatalog, NoBundle, ReadError};
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::{context::Ctx, metrics::PageInputs, reviews::User};

/// Concurrent bundle requests: each may wait for a registry. Further ones are refused at once.
const BUNDLES: usize = 16;

/// The state that the port serves.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) ctx: Arc<Ctx>,
    /// Whether every CatalogSource present at the start was read once, and the controllers' watches are
    /// synced.
    pub(crate) ready: Arc<AtomicBool>,
}

pub(crate) fn router(serving: Serving) -> Router {
    let ctx = Arc::clone(&serving.ctx);
    let found = Arc::clone(&ctx);
    let content = olm_catalog_serve::router(move |namespace: Option<&str>, name: &str| {
        found.catalogs.content(namespace.unwrap_or(&found.namespace), name)
    });
    let slots = Arc::new(Semaphore::new(BUNDLES));
    let bundles = get({
        let slots = Arc::clone(&slots);
        move |state, path| bundle(state, path, Arc::clone(&slots))
    });
    let signatures = get(move |state, path, query| signatures(state, path, query, Arc::clone(&slots)));
    let catalogs = Router::new()
        // The parameter names match those of the other routes below /catalogs.
        .route("/catalogs/{first}/{second}/api/v1/bundles/{package}/{bundle}", bundles)
        .route("/catalogs/{first}/{second}/api/v1/signatures/{package}/{bundle}", signatures)
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

/// A process with running loops is alive. Other failures, such as an unreachable API server, are not fixed by
/// a restart.
async fn healthz(State(serving): State<Serving>) -> Response {
    match serving.ctx.health.stuck(std::time::Instant::now()) {
        None => "ok\n".into_response(),
        Some((what, since)) => {
            let text = format!("{what} is stuck, started {} s ago\n", since.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// Ready means able to serve. Followers are ready too: they have loaded the catalogs.
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
    let text = ctx.metrics.render(&PageInputs {
        catalogs: &ctx.catalogs,
        cache: &ctx.cache,
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

/// Parameters of a bundle's path: namespace and name of the catalog, package, bundle.
type BundlePath = Path<(String, String, String, String)>;

fn not_found(what: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("404 Not Found: {what}\n")).into_response()
}

async fn entry(serving: &Serving, path: BundlePath) -> Result<(LoadedCatalog, BundleEntry), Response> {
    let Path((namespace, name, package, bundle)) = path;
    let Some(loaded) = serving.ctx.catalogs.get(&namespace, &name).and_then(|entry| entry.loaded) else {
        return Err(not_found(&format!("catalog {namespace}/{name} not found")));
    };
    let found = loaded.package(&package).await;
    let found =
        found.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response())?;
    match found.as_ref().and_then(|found| found.bundles.get(&bundle)).cloned() {
        Some(entry) => Ok((loaded, entry)),
        None => Err(not_found(&format!(
            "bundle {bundle} of package {package} not found in catalog {namespace}/{name}"
        ))),
    }
}

/// The registry's failure, for the client.
fn unreadable(code: &str, message: String) -> Response {
    (StatusCode::BAD_GATEWAY, Json(NoBundle { code: code.to_owned(), message })).into_response()
}

fn busy() -> Response {
    let retry = [(header::RETRY_AFTER, "5")];
    (StatusCode::SERVICE_UNAVAILABLE, retry, "too many concurrent requests\n").into_response()
}

/// The document of a bundle with its manifests inside, for clients that may not pull its image.
async fn bundle(State(serving): State<Serving>, path: BundlePath, slots: Arc<Semaphore>) -> Response {
    let Ok(_slot) = slots.try_acquire() else { return busy() };
    let (loaded, entry) = match entry(&serving, path).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    if entry.is_inline() {
        return not_found(&format!("the manifests of {} are inline in the catalog", entry.name));
    }
    match loaded.document(&entry).await {
        Ok(document) => ([(header::CONTENT_TYPE, "application/json")], document.to_vec()).into_response(),
        Err(ReadError::Image(error)) => unreadable(error.code, error.text),
        Err(error) => unreadable("BundleInvalid", error.to_string()),
    }
}

/// The query of [`signatures`].
#[derive(Deserialize)]
struct ImageQuery {
    image: String,
}

/// The signatures of an image of the catalog or of the bundle, unverified: for clients without credentials
/// for the registry.
async fn signatures(
    State(serving): State<Serving>,
    path: BundlePath,
    Query(ImageQuery { image }): Query<ImageQuery>,
    slots: Arc<Semaphore>,
) -> Response {
    let Ok(_slot) = slots.try_acquire() else { return busy() };
    let (loaded, entry) = match entry(&serving, path).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    match loaded.names_image(&entry, &image).await {
        Ok(true) => {}
        Ok(false) => return not_found(&format!("bundle {} does not reference this image", entry.name)),
        Err(error) => return unreadable("BundleInvalid", error.to_string()),
    }
    match loaded.signatures(&entry, &image).await {
        Ok(found) => Json(found).into_response(),
        Err(why) => unreadable("SignaturesUnreadable", why),
    }
}

#[cfg(test)]
mod tests;

//! The endpoints for the API server: the webhook that records requests, and the aggregated API of
//! PackageManifests. Served only while the cluster has one of them.
//!
//! * [`certificate`] renews the serving certificate, publishes its CA bundle, and reads how the API server
//!   authenticates
//! * [`listener`] accepts connections

mod certificate;
mod listener;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::StatusCode,
    middleware::{Next, from_fn},
    response::IntoResponse,
    routing::post,
};
pub(crate) use listener::Caller;
use olm_engine::site::manager_user;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{authority::webhook, context::Ctx, packages, run::Error};

/// Maximum bytes of a review: it contains the object twice, and the API server accepts 3 MiB for one.
const LONGEST_REVIEW: usize = 8 << 20;
/// Reviews that are in memory concurrently; others wait.
const REVIEWS: usize = 4;
/// Time limit of one review, its body included. API servers send it at once: a slower client does not block
/// the others.
const REVIEW: Duration = Duration::from_secs(3);

/// Serves until `stop`. All replicas do: the leader creates the certificate.
///
/// # Errors
/// When the address is unavailable.
pub(crate) async fn run(ctx: Arc<Ctx>, address: SocketAddr, stop: CancellationToken) -> Result<(), Error> {
    let listen = |source| Error::Listen { address, source };
    let listener = olm_client::listen(address).await.map_err(listen)?;
    let certificate = certificate::CertificateManager::new(Arc::clone(&ctx));
    let settings = certificate.settings();
    let router = packages::router(Arc::clone(&ctx)).merge(admission(&ctx.namespace));
    tokio::join!(certificate.run(&stop), listener::serve(listener, settings, router, &stop));
    Ok(())
}

fn admission(namespace: &str) -> Router {
    let (manager, slots) = (manager_user(namespace), Arc::new(Semaphore::new(REVIEWS)));
    let one_of_few = move |request: Request, next: Next| {
        let slots = Arc::clone(&slots);
        async move {
            let _slot = slots.acquire_owned().await;
            let answered = tokio::time::timeout(REVIEW, next.run(request)).await;
            answered.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response())
        }
    };
    Router::new()
        .route(
            olm_ops::authority::webhook::PATH,
            post(move |review| webhook::answer(review, manager.clone())),
        )
        .layer(DefaultBodyLimit::max(LONGEST_REVIEW))
        .layer(from_fn(one_of_few))
}

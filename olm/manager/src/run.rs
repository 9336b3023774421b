//! The manager as a process: HTTP port, lease, controllers.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::CatalogSource;
use tokio_util::sync::CancellationToken;

use crate::{
    catalogs::{CacheError, Registries},
    context::Ctx,
    controllers,
    http::{Serving, router},
    lease::Elector,
    manifests::{HTTP_PORT, MANAGER, NAMESPACE},
};

/// How a manager runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its own namespace: the lease is there, and catalogs there are visible from everywhere.
    pub namespace: String,
    /// Where it serves probes, metrics and catalogs; `None` serves nothing.
    pub listen: Option<SocketAddr>,
    /// Its name among replicas: the pod's name.
    pub identity: String,
    /// Whether it waits for the lease before it does anything; without, it must be the only one.
    pub leader_election: bool,
    /// Where it keeps catalogs over restarts; `None` is a fresh folder that goes with the process.
    pub cache_dir: Option<PathBuf>,
    /// How registries are reached.
    pub registries: Registries,
}

impl Options {
    /// As the shipped Deployment runs it.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            namespace: NAMESPACE.into(),
            listen: Some(SocketAddr::from(([0, 0, 0, 0], HTTP_PORT))),
            identity: identity.into(),
            leader_election: true,
            cache_dir: None,
            registries: Registries::default(),
        }
    }
}

/// The manager stopped, and not because it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Catalogs cannot be kept.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The port cannot be had.
    #[error("failed to listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// Serving ended.
    #[error("failed to serve HTTP: {0}")]
    Serve(std::io::Error),
    /// Another replica leads now; only a restart makes sure that nothing of the old state is acted on.
    #[error("lost the lease {0}; another replica leads")]
    LeaseLost(String),
    /// A controller ended by itself.
    #[error("controllers stopped unexpectedly")]
    Stopped,
}

/// Runs all controllers until `shutdown`. On shutdown, reconciliations that run are finished and the lease is
/// released.
///
/// # Errors
/// [`Error`] when the cache or the port cannot be had, the lease is lost or a controller ends. The process should then exit: whoever
/// supervises it starts it again, and it carries on from what is on the cluster.
pub async fn run(client: Client, options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let ctx = Arc::new(Ctx::new(client.clone(), &options)?);
    let serving = Serving {
        catalogs: Arc::clone(&ctx.catalogs),
        metrics: Arc::clone(&ctx.metrics),
        leading: Arc::new(AtomicBool::new(false)),
        ready: Arc::new(AtomicBool::new(false)),
    };
    // Cancelled when any part ends, so that the others end too.
    let stop = shutdown.child_token();
    let http = serve(options.listen, serving.clone(), stop.clone()).await?;
    let lead = lead(client, options, ctx, serving, stop.clone());
    let (http, lead) = tokio::join!(
        async {
            let result = http.await;
            stop.cancel();
            result
        },
        async {
            let result = lead.await;
            stop.cancel();
            result
        }
    );
    lead.and(http)
}

async fn serve(
    listen: Option<SocketAddr>,
    serving: Serving,
    stop: CancellationToken,
) -> Result<impl Future<Output = Result<(), Error>>, Error> {
    let listener = match listen {
        Some(address) => {
            let bound = tokio::net::TcpListener::bind(address).await;
            let listener = bound.map_err(|source| Error::Listen { address, source })?;
            tracing::info!(%address, "serving");
            Some(listener)
        }
        None => None,
    };
    Ok(async move {
        match listener {
            Some(listener) => axum::serve(listener, router(serving))
                .with_graceful_shutdown(async move { stop.cancelled().await })
                .await
                .map_err(Error::Serve),
            None => {
                stop.cancelled().await;
                Ok(())
            }
        }
    })
}

async fn lead(
    client: Client,
    options: Options,
    ctx: Arc<Ctx>,
    serving: Serving,
    stop: CancellationToken,
) -> Result<(), Error> {
    let elector = Elector::new(client, &options.namespace, MANAGER, &options.identity);
    if options.leader_election && !elector.acquire(&stop).await {
        return Ok(());
    }
    serving.leading.store(true, Ordering::Relaxed);
    // The lease is given back only when the last write is done.
    let work = stop.child_token();
    let controllers = tokio::spawn(controllers(Arc::clone(&ctx), work.clone()));
    let ready = tokio::spawn(ready(ctx, Arc::clone(&serving.ready), work.clone()));
    let (released, lost) = (CancellationToken::new(), CancellationToken::new());
    let hold = async {
        if options.leader_election {
            if !elector.hold(&released).await {
                lost.cancel();
            }
        } else {
            released.cancelled().await;
        }
    };
    let run = async {
        let ended = tokio::select! {
            _ = controllers => true,
            () = lost.cancelled() => false,
        };
        released.cancel();
        ended
    };
    let ((), ended) = tokio::join!(hold, run);
    let asked = stop.is_cancelled();
    work.cancel();
    ready.abort();
    serving.leading.store(false, Ordering::Relaxed);
    match (ended, asked) {
        (false, _) => Err(Error::LeaseLost(format!("{}/{MANAGER}", options.namespace))),
        (true, true) => Ok(()),
        (true, false) => Err(Error::Stopped),
    }
}

async fn controllers(ctx: Arc<Ctx>, stop: CancellationToken) {
    use controllers::{catalog_source, csv, install_plan, operator_condition, operator_group, subscription};
    tokio::join!(
        catalog_source::run(Arc::clone(&ctx), stop.clone()),
        subscription::run(Arc::clone(&ctx), stop.clone()),
        install_plan::run(Arc::clone(&ctx), stop.clone()),
        csv::run(Arc::clone(&ctx), stop.clone()),
        operator_group::run(Arc::clone(&ctx), stop.clone()),
        operator_condition::run(ctx, stop),
    );
}

/// How long being ready waits for the first looks at catalogs. Who asks right after the start finds what is quickly
/// there; a registry that hangs keeps nobody from the rest.
const FIRST_LOOKS: Duration = Duration::from_secs(10);

/// Ready is when every CatalogSource that there is has been looked at, or is taking its time.
async fn ready(ctx: Arc<Ctx>, ready: Arc<AtomicBool>, stop: CancellationToken) {
    let mut changes = ctx.catalogs.changes();
    let started = Instant::now();
    loop {
        let patient = started.elapsed() < FIRST_LOOKS;
        let seen = |source: &CatalogSource| {
            let entry = ctx.catalogs.get(&source.namespace().unwrap_or_default(), &source.name_any());
            entry.is_some_and(|entry| !patient || entry.loaded.is_some() || entry.problem.is_some())
        };
        let sources = Api::<CatalogSource>::all(ctx.client.clone()).list(&ListParams::default()).await;
        if sources.is_ok_and(|sources| sources.iter().all(seen)) {
            ready.store(true, Ordering::Relaxed);
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            _ = changes.changed() => {}
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

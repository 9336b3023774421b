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
use olm_engine::{
    catalogs::{CacheError, Registries},
    site::{HTTP_PORT, MANAGER, home},
};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    adoption,
    context::Ctx,
    controllers,
    http::{Connections, Peer, Serving, router},
    lease::Elector,
    secure,
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
    /// Where the API server calls it: the webhook that records requests, and PackageManifests; `None` serves neither.
    pub secure_listen: Option<SocketAddr>,
}

impl Options {
    /// As the shipped Deployment runs it.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            namespace: home().into(),
            listen: Some(SocketAddr::from(([0, 0, 0, 0], HTTP_PORT))),
            identity: identity.into(),
            leader_election: true,
            cache_dir: None,
            registries: Registries::default(),
            secure_listen: None,
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
    Listen { address: SocketAddr, source: std::io::Error },
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

/// Runs all controllers until `shutdown`. On shutdown, reconciliations that run are finished, within [`STOP`], and the lease is
/// released.
///
/// Replicas that do not lead read the catalogs all the same: they serve them, and take over warm.
///
/// # Errors
/// [`Error`] when the cache or the port cannot be had, the lease is lost or a controller ends. The process should then exit: whoever
/// supervises it starts it again, and it carries on from what is on the cluster.
pub async fn run(client: Client, options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let client = olm_client::with_statuses(client);
    let ctx = Arc::new(Ctx::new(client.clone(), &options)?);
    let serving = Serving { ctx: Arc::clone(&ctx), ready: Arc::new(AtomicBool::new(false)) };
    // Cancelled when any part ends, so that the others end too.
    let stop = shutdown.child_token();
    let http = serve(options.listen, serving.clone(), stop.clone()).await?;
    let catalogs = tokio::spawn(controllers::catalog_source::run(Arc::clone(&ctx), stop.clone()));
    let ready = tokio::spawn(ready(Arc::clone(&ctx), serving.ready, stop.clone()));
    // However this ends, nothing of it goes on: in a test the process lives on.
    let _tasks = [AbortOnDrop(catalogs.abort_handle()), AbortOnDrop(ready.abort_handle())];
    let secure = secure(options.secure_listen, Arc::clone(&ctx), stop.clone());
    let lead = lead(client, options, ctx, stop.clone());
    let (secure, http, lead) = tokio::join!(
        async {
            let result = secure.await;
            stop.cancel();
            result
        },
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
    lead.and(http).and(secure)
}

async fn secure(address: Option<SocketAddr>, ctx: Arc<Ctx>, stop: CancellationToken) -> Result<(), Error> {
    match address {
        Some(address) => secure::run(ctx, address, stop).await,
        None => {
            stop.cancelled().await;
            Ok(())
        }
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(
    listen: Option<SocketAddr>,
    serving: Serving,
    stop: CancellationToken,
) -> Result<impl Future<Output = Result<(), Error>>, Error> {
    let listener = match listen {
        Some(address) => {
            let bound = tokio::net::TcpListener::bind(address).await;
            let connections = bound.and_then(|listener| Connections::new(listener, &serving.ctx.namespace));
            let connections = connections.map_err(|source| Error::Listen { address, source })?;
            tracing::info!(%address, "serving");
            Some(connections)
        }
        None => None,
    };
    Ok(async move {
        match listener {
            Some(listener) => {
                axum::serve(listener, router(serving).into_make_service_with_connect_info::<Peer>())
                    .with_graceful_shutdown(async move { stop.cancelled().await })
                    .await
                    .map_err(Error::Serve)
            }
            None => {
                stop.cancelled().await;
                Ok(())
            }
        }
    })
}

/// How long reconciliations that run may take to end. A rolling update hands over within two seconds, this included; what is
/// cut off is carried on by the next leader, as after any crash.
const STOP: Duration = Duration::from_millis(1_500);

async fn lead(client: Client, options: Options, ctx: Arc<Ctx>, stop: CancellationToken) -> Result<(), Error> {
    let fence = Arc::clone(&ctx.fence);
    // Not by the client of the controllers: that one cannot write before the lease is held.
    let elector = Elector::new(client, &options.namespace, MANAGER, &options.identity, Arc::clone(&fence));
    let held = if options.leader_election {
        let Some(held) = elector.acquire(&stop).await else { return Ok(()) };
        Some(held)
    } else {
        fence.open();
        None
    };
    // The lease is given back only when the last write is done.
    let (work, released) = (CancellationToken::new(), CancellationToken::new());
    let mut controllers = tokio::spawn(adoption::guarded(ctx, work.clone(), controllers));
    let _abort = AbortOnDrop(controllers.abort_handle());
    let hold = async {
        match held {
            Some(held) => drop(elector.hold(held, &released).await),
            None => released.cancelled().await,
        }
    };
    let run = async {
        let result = tokio::select! {
            _ = &mut controllers => Err(Error::Stopped),
            () = fence.lost() => Err(Error::LeaseLost(format!("{}/{MANAGER}", options.namespace))),
            () = stop.cancelled() => {
                work.cancel();
                if tokio::time::timeout(STOP, &mut controllers).await.is_err() {
                    tracing::warn!("reconciliations are interrupted; the next leader continues them");
                    controllers.abort();
                }
                Ok(())
            }
        };
        released.cancel();
        result
    };
    tokio::join!(hold, run).1
}

async fn controllers(ctx: Arc<Ctx>, stop: CancellationToken) {
    use controllers::{
        csv, install_plan, olm_config, operator, operator_condition, operator_group, orphans, subscription,
    };
    // A task each: none waits while another reads or decides. They go with this.
    let mut tasks = JoinSet::new();
    for feed in ctx.stores.feeds(&ctx.client).into_iter().chain(ctx.parts.feeds(&ctx.client)) {
        let stop = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = feed => {}
            }
        });
    }
    tasks.spawn(orphans::run(Arc::clone(&ctx), stop.clone()));
    tasks.spawn(subscription::run(Arc::clone(&ctx), stop.clone()));
    tasks.spawn(install_plan::run(Arc::clone(&ctx), stop.clone()));
    tasks.spawn(csv::run(Arc::clone(&ctx), stop.clone()));
    tasks.spawn(operator_group::run(Arc::clone(&ctx), stop.clone()));
    tasks.spawn(operator_condition::run(Arc::clone(&ctx), stop.clone()));
    tasks.spawn(operator::run(Arc::clone(&ctx), stop.clone()));
    tasks.spawn(olm_config::run(ctx, stop));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            // One that panicked: without it the others would do half of the work. The process ends, and is started anew.
            tracing::error!(%error, "a controller stopped");
            return;
        }
    }
}

/// How long being ready waits for the first looks at catalogs. Who asks right after the start finds what is quickly
/// there; a registry that hangs keeps nobody from the rest.
const FIRST_LOOKS: Duration = Duration::from_secs(10);

/// Ready is when every CatalogSource that there is has been looked at, or is taking its time, and a leader's controllers know
/// what is on the cluster.
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
            break;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            _ = changes.changed() => {}
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
    tokio::select! {
        () = ctx.stores.synced() => {}
        // Beside another OLM it does nothing, and that is as it should be.
        () = ctx.standby.begun() => {}
        // Whoever waits for the lease has no controllers, and is ready to take over.
        () = ctx.fence.follows() => {}
    }
    ready.store(true, Ordering::Relaxed);
}

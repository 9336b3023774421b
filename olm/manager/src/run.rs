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
use olm_catalog::Relocation;
use olm_client::lease::Elector;
use olm_engine::{
    catalogs::{CacheDirError, Registries},
    site::{HTTP_PORT, MANAGER, manager_namespace},
};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    adoption,
    context::Ctx,
    controllers, definitions,
    http::{Connections, Peer, Serving, router},
    secure,
};

#[derive(Debug, Clone)]
pub struct Options {
    /// Its own namespace: it contains the lease, and catalogs in it are visible from every namespace.
    pub namespace: String,
    /// Address of probes, metrics and catalogs; `None` serves nothing.
    pub listen: Option<SocketAddr>,
    /// Its name among replicas: the pod's name.
    pub identity: String,
    /// Whether to wait for the lease before starting the controllers; without, it must be the only replica.
    pub leader_election: bool,
    /// Cache folder of catalogs that survives restarts; `None` is a temporary folder.
    pub cache_dir: Option<PathBuf>,
    pub registries: Registries,
    /// Images that operators of the shipped catalog run instead of those that it names.
    pub relocation: Relocation,
    /// Address for the API server: the webhook that records requests, and PackageManifests; `None` serves
    /// neither.
    pub secure_listen: Option<SocketAddr>,
}

impl Options {
    /// The options of the shipped Deployment.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            namespace: manager_namespace().into(),
            listen: Some(SocketAddr::from(([0, 0, 0, 0], HTTP_PORT))),
            identity: identity.into(),
            leader_election: true,
            cache_dir: None,
            registries: Registries::default(),
            relocation: Relocation::default(),
            secure_listen: None,
        }
    }
}

/// The manager stopped without a shutdown request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cache(#[from] CacheDirError),
    #[error("failed to listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("failed to serve HTTP: {0}")]
    Serve(std::io::Error),
    /// Another replica leads now; only a restart discards all of the old state.
    #[error("lost the lease {0}; another replica leads")]
    LeaseLost(String),
    /// A controller ended unexpectedly.
    #[error("controllers stopped unexpectedly")]
    Stopped,
}

/// Runs all controllers until `shutdown`. On shutdown, running reconciliations are finished, within [`STOP`],
/// and the lease is released.
///
/// Followers load and serve the catalogs as well, so that they take over without a delay.
///
/// # Errors
/// [`Error`] when the cache or the port is unavailable, the lease is lost or a controller ends. The process
/// should then exit: its supervisor restarts it, and it resumes from the state of the cluster.
pub async fn run(client: Client, options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let client = olm_client::with_statuses(client);
    let ctx = Arc::new(Ctx::new(client.clone(), &options)?);
    let serving = Serving { ctx: Arc::clone(&ctx), ready: Arc::new(AtomicBool::new(false)) };
    // Cancelled when any part ends, so that the others end too.
    let stop = shutdown.child_token();
    let http = serve(options.listen, serving.clone(), stop.clone()).await?;
    let catalogs = tokio::spawn(controllers::catalog_source::run(Arc::clone(&ctx), stop.clone()));
    let ready = tokio::spawn(ready(Arc::clone(&ctx), serving.ready, stop.clone()));
    // All tasks are aborted on return: in a test the process continues.
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
            let bound = olm_client::listen(address).await;
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

/// Time limit for running reconciliations on shutdown. A rolling update hands over within two seconds, this
/// included; the next leader resumes interrupted ones, as after any crash.
const STOP: Duration = Duration::from_millis(1_500);

async fn lead(client: Client, options: Options, ctx: Arc<Ctx>, stop: CancellationToken) -> Result<(), Error> {
    if !definitions::wait_until_current(&ctx, &stop).await {
        return Ok(());
    }
    let fence = Arc::clone(&ctx.fence);
    // Not the controllers' client: that one cannot write before the lease is held.
    let elector = Elector::new(client, &options.namespace, MANAGER, &options.identity, Arc::clone(&fence));
    let held = if options.leader_election {
        let Some(held) = elector.acquire(&stop).await else { return Ok(()) };
        Some(held)
    } else {
        fence.open();
        None
    };
    // The lease is released only after the last write.
    let (work, released) = (CancellationToken::new(), CancellationToken::new());
    let mut controllers = tokio::spawn(adoption::run_without_other_olm(ctx, work.clone(), controllers));
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
    // One task per watch, so that none waits while another reads or decides. They are aborted on return.
    let mut tasks = JoinSet::new();
    for watch in ctx.cache.watches(&ctx.client).into_iter().chain(ctx.parts.watches(&ctx.client)) {
        let stop = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = watch => {}
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
            // A controller panicked: without it, the others would do half of the work. The process ends and
            // is restarted.
            tracing::error!(%error, "a controller stopped");
            return;
        }
    }
}

/// How long readiness waits for the first reads of catalogs. Most are quick; a registry that hangs does not
/// keep the replica unready.
const FIRST_LOOKS: Duration = Duration::from_secs(10);

/// Ready means that every existing CatalogSource was read or has exceeded [`FIRST_LOOKS`], that the
/// CustomResourceDefinitions are those of this version, and that a leader's controllers have read the cluster.
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
        () = ctx.cache.synced() => {}
        // On standby for another OLM it is ready without controllers.
        () = ctx.standby.begun() => {}
        // A follower has no controllers, and is ready to take over.
        () = ctx.fence.follows() => {}
    }
    ready.store(true, Ordering::Relaxed);
}

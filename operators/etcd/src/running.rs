//! A process: its server, its leases, and the controllers that run while it holds them.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use etcd_operator::addressing::InCluster;
use etcd_operator::controller::{self, Context, Scope};
use etcd_operator::crd::backup::EtcdBackup;
use etcd_operator::crd::restore::EtcdRestore;
use etcd_operator::crd::{self, EtcdCluster};
use etcd_operator::lease;
use etcd_operator::metrics::Metrics;
use etcd_operator::restore::Place;
use etcd_operator::{backup, http, restore};
use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client, Config, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{Args, Controllers, lease_namespace, scope};

pub(crate) fn crds() -> [CustomResourceDefinition; 3] {
    [crd::crd(), crd::backup::crd(), crd::restore::crd()]
}

pub(crate) async fn run(args: Args, controllers: Controllers) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone()).context("failed to register signal handlers")?;
    let address =
        args.listen_addr.unwrap_or_else(|| SocketAddr::from((Ipv6Addr::UNSPECIFIED, controllers.port())));
    let listener = olm_client::listen(address).await.with_context(|| {
        format!("failed to listen on {address}. hint: set another address with --listen-addr")
    })?;
    let (ready, metrics) = (Arc::new(AtomicBool::new(false)), Arc::new(Metrics::default()));
    let server = tokio::spawn(http::serve(listener, ready.clone(), metrics.clone(), shutdown.clone()));

    let config = Config::infer().await.context("failed to find a Kubernetes API server")?;
    let client =
        olm_client::connect(config).context("failed to create a client for the Kubernetes API server")?;
    let scope = scope(&args);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), ?scope, ?controllers, "starting");
    let served = create_crds(&client, &args, &shutdown).await
        && wait_for(&client, &scope, &controllers.kind(), &shutdown).await;
    ready.store(served, Ordering::Relaxed);
    let mut lost = false;
    if served {
        lost = !work(client, &args, controllers, scope, metrics, &shutdown).await;
    }
    shutdown.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(1), server).await;
    anyhow::ensure!(!lost, "lease lost; exiting so that only one operator is active");
    Ok(())
}

/// Runs all controllers, each with its own lease, until shutdown; false when a lease is lost.
async fn work(
    client: Client,
    args: &Args,
    controllers: Controllers,
    scope: Scope,
    metrics: Arc<Metrics>,
    shutdown: &CancellationToken,
) -> bool {
    let hostname = || std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let pod = args.pod_name.clone().or_else(hostname);
    let instance = pod.clone().unwrap_or_else(|| "etcd-operator".into());
    // The pod's name alone is not enough: a restarted process of the same pod must not take the lease of a
    // hung one.
    let identity = format!("{instance}_{:08x}", rand::random::<u32>());
    let namespace = lease_namespace(&scope, &args.pod_namespace).to_owned();
    let elector = |name| lease::elector(&client, &namespace, name, &identity);
    let first = Context::new(
        client.clone(),
        Arc::new(InCluster),
        elector(lease::NAME),
        metrics,
        scope,
        Some(instance),
    )
    .with_ambient_credentials(args.allow_ambient_credentials);
    // Losing one lease ends the process, and with it the others.
    let stop = shutdown.child_token();
    let mut held = Vec::new();
    if controllers.backups {
        let context = Arc::new(first.with_elector(elector(lease::BACKUP_NAME)));
        let (folder, stop) = (args.backup_dir.clone(), stop.clone());
        held.push(tokio::spawn(async move {
            let kind = ApiResource::erase::<EtcdBackup>(&());
            if !wait_for(&context.client, &context.scope, &kind, &stop).await {
                return true;
            }
            let elector = context.elector.clone();
            lease::lead(elector, stop, |token| backup::run(context, folder, token)).await
        }));
    }
    if controllers.restores {
        let context = Arc::new(first.with_elector(elector(lease::RESTORE_NAME)));
        let (folder, stop, address) = (args.backup_dir.clone(), stop.clone(), args.restore_listen_addr);
        let pod = pod.map(|name| (args.pod_namespace.clone(), name));
        let (advertise, image) = (args.advertise_address.clone(), args.operator_image.clone());
        let place = Arc::new(Place::new(advertise, address.port(), image, pod));
        // Pods download a snapshot from the operator that created them, even after a change of leader.
        tokio::spawn(serve_snapshots(context.clone(), folder.clone(), address, stop.clone()));
        held.push(tokio::spawn(async move {
            let kind = ApiResource::erase::<EtcdRestore>(&());
            if !wait_for(&context.client, &context.scope, &kind, &stop).await {
                return true;
            }
            let elector = context.elector.clone();
            lease::lead(elector, stop, |token| restore::run(context, folder, place, token)).await
        }));
    }
    if controllers.clusters {
        let (context, stop) = (Arc::new(first), stop.clone());
        held.push(tokio::spawn(async move {
            let elector = context.elector.clone();
            lease::lead(elector, stop, |token| controller::run(context, token)).await
        }));
    }
    let ended = join_all(held).await;
    ended.into_iter().all(|kept| kept.unwrap_or_default())
}

/// Serves snapshots to restoring pods.
async fn serve_snapshots(
    context: Arc<Context>,
    folder: Option<PathBuf>,
    address: SocketAddr,
    stop: CancellationToken,
) {
    let served = async {
        let listener = olm_client::listen(address).await?;
        restore::serve(listener, context, folder, stop).await
    };
    if let Err(error) = served.await {
        tracing::error!(%address, %error, "failed to listen for restores: this process performs no \
         restores. hint: set another address with --restore-listen-addr");
    }
}

/// Creates the CRDs, if configured; false on shutdown.
async fn create_crds(client: &Client, args: &Args, shutdown: &CancellationToken) -> bool {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("etcd-operator").force();
    for definition in crds().iter().filter(|_| args.create_crd) {
        let name = definition.name_any();
        while let Err(error) = api.patch(&name, &params, &Patch::Apply(definition)).await {
            tracing::warn!(%error, "failed to apply CRD {name}, will retry");
            if stopped_within_a_second(shutdown).await {
                return false;
            }
        }
    }
    true
}

/// Waits until the API serves a kind; false on shutdown. Bundles before 0.11 contain only EtcdClusters: then
/// the controllers of the other kinds wait, and the rest works.
async fn wait_for(client: &Client, scope: &Scope, kind: &ApiResource, shutdown: &CancellationToken) -> bool {
    let api: Api<DynamicObject> = match scope {
        Scope::Namespaces(list) => {
            Api::namespaced_with(client.clone(), list.first().map_or("default", |n| n), kind)
        }
        Scope::All | Scope::Annotated => Api::all_with(client.clone(), kind),
    };
    let mut reported = false;
    while let Err(error) = api.list(&ListParams::default().limit(1)).await {
        if !reported {
            tracing::warn!(%error, "failed to list {}: waiting for the kind and the permission to list it", kind.plural);
            reported = true;
        }
        if stopped_within_a_second(shutdown).await {
            return false;
        }
    }
    true
}

async fn stopped_within_a_second(shutdown: &CancellationToken) -> bool {
    tokio::time::timeout(Duration::from_secs(1), shutdown.cancelled()).await.is_ok()
}

impl Controllers {
    /// The kind that these controllers require.
    fn kind(self) -> ApiResource {
        match (self.clusters, self.backups) {
            (true, _) => ApiResource::erase::<EtcdCluster>(&()),
            (false, true) => ApiResource::erase::<EtcdBackup>(&()),
            (false, false) => ApiResource::erase::<EtcdRestore>(&()),
        }
    }
}

fn stop_on_signal(shutdown: CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("stopping");
        shutdown.cancel();
    });
    Ok(())
}

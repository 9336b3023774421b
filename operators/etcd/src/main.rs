//! The command `etcd-operator`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgAction, Parser, Subcommand};
use etcd_operator::addressing::InCluster;
use etcd_operator::controller::{self, Context, Scope};
use etcd_operator::crd::{EtcdCluster, crd};
use etcd_operator::http;
use etcd_operator::lease::Elector;
use etcd_operator::metrics::Metrics;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Keeps etcd clusters at their size and healthy.
#[derive(Debug, Parser)]
#[command(name = "etcd-operator", version)]
struct Args {
    /// Create or update the CustomResourceDefinition at start.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    create_crd: bool,
    /// Look after the clusters of all namespaces that carry the annotation etcd.database.coreos.com/scope: clusterwide.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    cluster_wide: bool,
    /// Where /healthz, /readyz and /metrics are served.
    #[arg(long, default_value = "0.0.0.0:8080")]
    listen_addr: SocketAddr,
    /// Namespace of the operator itself.
    #[arg(long, env = "MY_POD_NAMESPACE", default_value = "default")]
    pod_namespace: String,
    /// Name of the operator's pod; events and the lease carry it.
    #[arg(long, env = "MY_POD_NAME")]
    pod_name: Option<String>,
    /// Namespaces to look after, separated by commas; empty for all. Without it the operator's own.
    #[arg(long, env = "WATCH_NAMESPACE")]
    watch_namespace: Option<String>,
    /// How logs are written.
    #[arg(long, env = "LOG_FORMAT", value_parser = ["text", "json"], default_value = "text")]
    log_format: String,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the CustomResourceDefinition.
    Crd,
}

/// Go programs take long flags with one hyphen, and existing manifests use them.
fn two_hyphens(arg: OsString) -> OsString {
    match arg.to_str() {
        Some(text) if text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => {
            format!("-{text}").into()
        }
        _ => arg,
    }
}

fn scope(args: &Args) -> Scope {
    if args.cluster_wide {
        return Scope::Annotated;
    }
    let Some(list) = &args.watch_namespace else {
        return Scope::Namespaces(vec![args.pod_namespace.clone()]);
    };
    let mut namespaces: Vec<String> =
        list.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
    namespaces.sort();
    namespaces.dedup();
    if namespaces.is_empty() { Scope::All } else { Scope::Namespaces(namespaces) }
}

/// In the one namespace that is looked after, where the operator has its rights; else beside the operator.
fn lease_namespace<'a>(scope: &'a Scope, own: &'a str) -> &'a str {
    match scope {
        Scope::Namespaces(list) if list.len() == 1 => &list[0],
        _ => own,
    }
}

fn main() -> ExitCode {
    let args = Args::parse_from(std::env::args_os().map(two_hyphens));
    if matches!(args.command, Some(Command::Crd)) {
        return match serde_yaml::to_string(&crd()) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: failed to write the CustomResourceDefinition: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if args.log_format == "json" {
        logs.json().init()
    } else {
        logs.with_ansi(false).init()
    }
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "failed to start the runtime");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Errors of the Kubernetes client tell their causes themselves.
            tracing::error!(
                "{}",
                error.chain().take(2).map(ToString::to_string).collect::<Vec<_>>().join(": ")
            );
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone()).context("failed to listen for signals")?;
    let listener = TcpListener::bind(args.listen_addr).await.with_context(|| {
        format!("failed to listen on {}; choose another address with --listen-addr", args.listen_addr)
    })?;
    let (ready, metrics) = (Arc::new(AtomicBool::new(false)), Arc::new(Metrics::default()));
    let server = tokio::spawn(http::serve(listener, ready.clone(), metrics.clone(), shutdown.clone()));

    let client = Client::try_default().await.context("failed to find a Kubernetes API server")?;
    let scope = scope(&args);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), ?scope, "starting");
    let served = wait_for_api(&client, &args, &scope, &shutdown).await;
    ready.store(served, Ordering::Relaxed);

    let hostname = || std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let instance = args.pod_name.clone().or_else(hostname).unwrap_or_else(|| "etcd-operator".into());
    // The pod's name alone is not enough: a restarted process of the same pod must not take the lease of a hung one.
    let identity = format!("{instance}_{:08x}", rand::random::<u32>());
    let elector = Elector::new(client.clone(), lease_namespace(&scope, &args.pod_namespace), &identity);
    let mut lost = false;
    if served && elector.acquire(&shutdown).await {
        let context =
            Context::new(client, Arc::new(InCluster), elector.clone(), metrics, scope, Some(instance));
        let stop = shutdown.child_token();
        let work = tokio::spawn(controller::run(Arc::new(context), stop.clone()));
        lost = !elector.hold(&shutdown).await;
        stop.cancel();
        if !lost {
            // What is begun is finished, but nobody waits for long: the next operator does.
            let _ = tokio::time::timeout(Duration::from_secs(3), work).await;
            elector.release().await;
        }
    }
    shutdown.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(1), server).await;
    anyhow::ensure!(!lost, "the lease is lost; the process ends so that two operators never work at once");
    Ok(())
}

/// Until the API serves EtcdClusters; false when told to stop first.
async fn wait_for_api(client: &Client, args: &Args, scope: &Scope, shutdown: &CancellationToken) -> bool {
    loop {
        match api_is_there(client, args, scope).await {
            Ok(()) => return true,
            Err(error) => {
                let cause = error.chain().nth(1).map(ToString::to_string).unwrap_or_default();
                tracing::warn!("the EtcdCluster API is not there yet: {error}: {cause}");
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return false,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

async fn api_is_there(client: &Client, args: &Args, scope: &Scope) -> anyhow::Result<()> {
    if args.create_crd {
        let definition = crd();
        let params = PatchParams::apply("etcd-operator").force();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = definition.name_any();
        api.patch(&name, &params, &Patch::Apply(&definition))
            .await
            .with_context(|| format!("failed to apply CRD {name}"))?;
    }
    let api: Api<EtcdCluster> = match scope {
        Scope::Namespaces(list) => Api::namespaced(client.clone(), list.first().map_or("default", |n| n)),
        Scope::All | Scope::Annotated => Api::all(client.clone()),
    };
    api.list(&ListParams::default().limit(1)).await.context("failed to list EtcdClusters")?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Args {
        let args = std::iter::once("etcd-operator").chain(args.iter().copied());
        Args::parse_from(args.map(|a| two_hyphens(a.into())))
    }

    #[test]
    fn flags_of_upstream_manifests_are_taken() {
        let args = parse(&["--create-crd=false", "-cluster-wide"]);
        assert!(!args.create_crd && args.cluster_wide);
        assert_eq!(scope(&args), Scope::Annotated);
        assert!(parse(&["-create-crd"]).create_crd);
    }

    #[test]
    fn an_empty_list_of_namespaces_means_all_and_none_means_the_own() {
        assert_eq!(scope(&parse(&["--watch-namespace", ""])), Scope::All);
        let two = scope(&parse(&["--watch-namespace", "b, a"]));
        assert_eq!(two, Scope::Namespaces(vec!["a".into(), "b".into()]));
        assert_eq!(lease_namespace(&two, "own"), "own");
        let one = scope(&parse(&["--watch-namespace", "a"]));
        assert_eq!(lease_namespace(&one, "own"), "a");
    }
}

//! `olm up`: a dev cluster with the manager, the console and the shipped catalog, until Ctrl-C.

mod access;
mod catalogs;
mod demo;
mod install;
mod local;
mod oidc;
mod route;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use access::ConsoleAccess;
use olm_devcluster::{DevCluster, DevClusterConfig, StartError};
use route::Route;
use serde::{Deserialize, Serialize};

use crate::{
    args::{Global, TokenArgs, UpArgs, UpCatalog},
    commands::{dev, progress::Progress},
    context,
    exit::{Code, Failure},
    signals::terminated,
};

/// State of a running `olm up` for other commands: `DATA/state.json`.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    pid: u32,
    api: String,
    console: String,
}

pub async fn run(global: &Global, args: UpArgs) -> Result<(), Failure> {
    let data_dir = args.data_dir.clone().unwrap_or_else(context::default_data_dir);
    let authenticator = oidc::authenticator(&args.oidc)?;
    let mut stop = Box::pin(stopped(args.until_stdin_closes));
    let progress = Progress::new(global.color.enabled_on_stderr());
    let images = dev::PodImages::new(dev::Registries::new(&args.registry)?);
    let starting = DevCluster::start(DevClusterConfig {
        data_dir: data_dir.clone(),
        listen: args.listen,
        image_source: Some(Arc::new(images)),
        pods: !args.no_pods,
        host_ports: args.host_port.clone(),
    });
    let cluster = tokio::select! {
        cluster = starting => cluster.map_err(refused)?,
        () = &mut stop => return Ok(()),
    };
    progress.done(&format!("Kubernetes is ready on {}", cluster.url()));
    if let Some(authenticator) = authenticator {
        cluster.set_authenticator(authenticator);
    }

    let result = tokio::select! {
        result = serve(&args, &data_dir, &cluster, &progress) => result,
        () = &mut stop => Ok(()),
    };
    if result.is_ok() {
        eprintln!("stopping; state is retained in {}", data_dir.display());
    }
    let _ = std::fs::remove_file(data_dir.join("state.json"));
    cluster.shutdown().await;
    result
}

/// The part after the API server is ready; returns only on an error.
async fn serve(
    args: &UpArgs,
    data_dir: &Path,
    cluster: &DevCluster,
    progress: &Progress,
) -> Result<(), Failure> {
    let kubeconfig = data_dir.join("kubeconfig");
    write_private(&kubeconfig, cluster.kubeconfig().as_bytes())?;
    // From here on every request uses the API like a user's command.
    let global = Global { kubeconfig: Some(kubeconfig.clone()), ..Global::default() };
    let client = context::connect(&global).await?;

    let mut arguments = args.oidc.to_flags();
    arguments.push("--components-page".into());
    if cluster.pods_unavailable().is_none() {
        oidc::check_for_pods(&args.oidc)?;
    }
    let is_remote = |catalog: &UpCatalog| matches!(catalog, UpCatalog::Remote { .. });
    // Open until the cluster stops.
    let route = if args.catalog.iter().any(is_remote) { Route::open(cluster).await? } else { None };
    let port = route.as_ref().map(|route| route.port);
    install::apply(&client, &args.catalog, args.package_manifests, &arguments, port).await?;
    // Processes that replace pods where none can run; kept until the cluster stops.
    let mut stand_ins = None;
    let console = match cluster.pods_unavailable() {
        None => {
            let (manager, console) = tokio::join!(
                install::available(progress, &client, olm_engine::site::MANAGER),
                install::available(progress, &client, olm_engine::site::CONSOLE),
            );
            manager.and(console)?;
            ConsoleAccess::in_cluster(cluster, args.console).await?
        }
        Some(why) => {
            eprintln!("warning: pods are not available: {why}");
            let (processes, address) =
                local::start(cluster, &client, data_dir, args.console, &arguments).await?;
            stand_ins = Some(processes);
            progress.done("manager and console run as local processes");
            ConsoleAccess::at(address)
        }
    };
    let state = State { pid: std::process::id(), api: cluster.url(), console: console.url() };
    write_private(
        &data_dir.join("state.json"),
        &serde_json::to_vec_pretty(&state).map_err(anyhow::Error::from)?,
    )?;
    progress.done("ready");

    if args.demo {
        if let Some(why) = cluster.pods_unavailable() {
            return Err(Failure::new(
                Code::Refused,
                format!("--demo requires pods, which are not available: {why}"),
            ));
        }
        let version = dev::MachineImages::of_this_installation().newest_etcd().ok_or_else(|| {
            Failure::new(Code::NotFound, "etcd not found on this machine")
                .hint("install etcd (Debian: apt-get install etcd-server etcd-client)")
        })?;
        demo::run(progress, &client, &version).await?;
    }
    let link = console.login_link(cluster.admin_token()).await?;
    println!();
    println!("export KUBECONFIG={}", kubeconfig.display());
    println!("console: {link}   (one-time link; `olm token` prints a new one)");
    println!(
        "not isolated: pods share this kernel, and pods with hostPath or added capabilities can access this \
            machine's files (see docs/dev-cluster.md)"
    );
    println!("Ctrl-C stops the cluster; state is retained in {}", data_dir.display());
    catalogs::report(progress, &client, &args.catalog).await;
    let () = std::future::pending().await;
    drop((route, stand_ins));
    Ok(())
}

/// Ctrl-C, SIGTERM, or the end of standard input if requested.
async fn stopped(until_stdin_closes: bool) {
    let closed = async {
        if until_stdin_closes {
            let mut sink = tokio::io::sink();
            let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut sink).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = terminated() => {}
        () = closed => {}
    }
}

/// Why the cluster did not start, in one line, with a hint.
fn refused(error: StartError) -> Failure {
    let failure = Failure::new(Code::Unexpected, error.to_string());
    let hint = match error {
        StartError::Listen { .. } => "use another address with --listen, such as --listen 127.0.0.1:0",
        StartError::Data { .. } => {
            "use another directory with --data-dir, or stop the `olm up` process that uses this one"
        }
        StartError::Network(_) | StartError::Node(_) => "start without pods: --no-pods",
        StartError::System { .. } => return failure,
    };
    failure.hint(hint)
}

/// Restricted to the user: the file contains credentials.
fn write_private(path: &Path, content: &[u8]) -> Result<(), Failure> {
    olm_devcluster::private::write(path, content)
        .map_err(|e| Failure::new(Code::Unexpected, format!("failed to write {}: {e}", path.display())))
}

/// `olm token`: a new login link for the console of a running dev cluster.
pub async fn token(args: TokenArgs) -> Result<(), Failure> {
    let data_dir: PathBuf = args.data_dir.unwrap_or_else(context::default_data_dir);
    let not_running = || {
        Failure::new(Code::NotFound, format!("no dev cluster is running on {}", data_dir.display()))
            .hint("start one with `olm up`, or set its folder with --data-dir")
    };
    let text = std::fs::read(data_dir.join("state.json")).map_err(|_| not_running())?;
    let state: State = serde_json::from_slice(&text).map_err(|_| not_running())?;
    let kubeconfig = std::fs::read(data_dir.join("kubeconfig")).map_err(|_| not_running())?;
    let kubeconfig: serde_json::Value = serde_yaml::from_slice(&kubeconfig).map_err(anyhow::Error::from)?;
    let token = kubeconfig["users"][0]["user"]["token"].as_str();
    let token = token
        .ok_or_else(|| Failure::new(Code::Unexpected, "the kubeconfig of the dev cluster has no token"))?;
    let link = ConsoleAccess::at(state.console).login_link(token).await?;
    println!("{link}");
    Ok(())
}

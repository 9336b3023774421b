//! The command `etcd-operator`.

mod running;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};
use etcd_operator::controller::Scope;
use etcd_operator::restore::fetch::{self, CopyArgs, FetchArgs, InstallArgs};
use tracing_subscriber::EnvFilter;

/// Returns memory of list pages to the system soon; see `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The log filter. Callers log errors of the client library; and the library logs an answer that it cannot
/// parse in full, even a Secret.
const LOGGED: &str = "info,kube_client::client=off";

/// Manages, backs up and restores etcd clusters.
///
/// Invoked as `etcd-backup-operator` or `etcd-restore-operator`, it runs only the controller of that name.
#[derive(Debug, Parser)]
#[command(name = "etcd-operator", version)]
struct Args {
    /// Create or update the CustomResourceDefinitions at startup.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    create_crd: bool,
    /// Manage objects with annotation etcd.database.coreos.com/scope: clusterwide in all namespaces.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    cluster_wide: bool,
    /// Listen address of /healthz, /readyz and /metrics. Default: port 8080; 8081 as etcd-backup-operator, 8082 as
    /// etcd-restore-operator.
    #[arg(long)]
    listen_addr: Option<SocketAddr>,
    /// Listen address for pods that download snapshots during a restore.
    #[arg(long, default_value = "[::]:19999")]
    restore_listen_addr: SocketAddr,
    /// Host and port of that address for pods. Default: the address of the operator's pod.
    #[arg(long, env = "ADVERTISE_ADDRESS")]
    advertise_address: Option<String>,
    /// Image of this program for restore pods. Default: the image of the operator's pod.
    #[arg(long, env = "OPERATOR_IMAGE")]
    operator_image: Option<String>,
    /// Directory for backups with storage type Local, usually a mounted volume. Default: none, storage type Local is
    /// rejected.
    #[arg(long, env = "BACKUP_DIR")]
    backup_dir: Option<PathBuf>,
    /// Allow EtcdBackups and EtcdRestores without a Secret to use the cloud identity of the operator (environment,
    /// web identity, node): users with permission to create them can read and write every bucket of this identity.
    #[arg(long, env = "ETCD_OPERATOR_ALLOW_AMBIENT_CREDENTIALS", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    allow_ambient_credentials: bool,
    /// Namespace of the operator itself.
    #[arg(long, env = "MY_POD_NAMESPACE", default_value = "default")]
    pod_namespace: String,
    /// Name of the operator's pod, recorded in events and leases.
    #[arg(long, env = "MY_POD_NAME")]
    pod_name: Option<String>,
    /// Watched namespaces, separated by commas; empty for all. Default: the namespace of the operator.
    #[arg(long, env = "WATCH_NAMESPACE")]
    watch_namespace: Option<String>,
    /// Log format.
    #[arg(long, env = "LOG_FORMAT", value_parser = ["text", "json"], default_value = "text")]
    log_format: String,
    /// Ignored; accepted for compatibility with coreos/etcd-operator.
    #[arg(long, hide = true)]
    gc_interval: Option<String>,
    /// Ignored; accepted for compatibility with coreos/etcd-operator.
    #[arg(long, hide = true, allow_negative_numbers = true)]
    chaos_level: Option<i32>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the CustomResourceDefinitions.
    Crd,
    /// Download a snapshot from the operator; runs in restore pods.
    #[command(hide = true)]
    FetchSnapshot(FetchArgs),
    /// Copy the etcd data of a mounted claim; runs in restore pods.
    #[command(hide = true)]
    CopyData(CopyArgs),
    /// Move restored data into place; runs in restore pods.
    #[command(hide = true)]
    InstallData(InstallArgs),
}

/// The controllers of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Controllers {
    clusters: bool,
    backups: bool,
    restores: bool,
}

impl Controllers {
    /// By the name of the program.
    fn of(program: &OsString) -> Self {
        let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        Self {
            clusters: !name.contains("backup") && !name.contains("restore"),
            backups: !name.contains("restore"),
            restores: !name.contains("backup"),
        }
    }

    /// Programs with different duties share the network of a pod.
    const fn port(self) -> u16 {
        match (self.clusters, self.backups) {
            (true, _) => 8080,
            (false, true) => 8081,
            (false, false) => 8082,
        }
    }
}

/// Go programs accept long flags with one hyphen, and existing manifests use them.
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

/// The single watched namespace, where the operator has its permissions; otherwise its own namespace.
fn lease_namespace<'a>(scope: &'a Scope, own: &'a str) -> &'a str {
    match scope {
        Scope::Namespaces(list) if list.len() == 1 => &list[0],
        _ => own,
    }
}

fn print_crds() -> ExitCode {
    for definition in running::crds() {
        match serde_yaml::to_string(&definition) {
            Ok(text) => print!("---\n{text}"),
            Err(error) => {
                eprintln!("error: failed to write a CustomResourceDefinition: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let controllers = Controllers::of(&std::env::args_os().next().unwrap_or_default());
    let args = Args::parse_from(std::env::args_os().map(two_hyphens));
    if matches!(args.command, Some(Command::Crd)) {
        return print_crds();
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if args.log_format == "json" {
        logs.json().init()
    } else {
        logs.with_ansi(false).init()
    }
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is already installed");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "failed to start the runtime");
            return ExitCode::FAILURE;
        }
    };
    let result = match &args.command {
        Some(Command::FetchSnapshot(what)) => {
            runtime.block_on(fetch::fetch(what, std::env::var(fetch::TOKEN).ok()))
        }
        Some(Command::CopyData(what)) => fetch::copy(what),
        Some(Command::InstallData(what)) => fetch::install(what),
        Some(Command::Crd) | None => runtime.block_on(running::run(args, controllers)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Errors of the Kubernetes client include their causes.
            tracing::error!(
                "{}",
                error.chain().take(2).map(ToString::to_string).collect::<Vec<_>>().join(": ")
            );
            if fetch::may_pass(&error) { ExitCode::from(fetch::NOT_NOW) } else { ExitCode::FAILURE }
        }
    }
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
    fn t19_the_operators_cloud_identity_is_for_objects_only_when_an_administrator_allows_it() {
        assert!(!parse(&[]).allow_ambient_credentials);
        assert!(parse(&["--allow-ambient-credentials"]).allow_ambient_credentials);
        assert!(!parse(&["--allow-ambient-credentials=false"]).allow_ambient_credentials);
    }

    #[test]
    fn answers_of_the_api_server_are_never_logged() {
        let logs = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(LOGGED)).finish();
        tracing::subscriber::with_default(logs, || {
            // the target under which the client library logs unparsable answers
            assert!(!tracing::enabled!(target: "kube_client::client", tracing::Level::ERROR));
            assert!(tracing::enabled!(target: "etcd_operator::controller", tracing::Level::INFO));
        });
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

    #[test]
    fn the_name_states_what_a_process_does() {
        let controllers = |name: &str| Controllers::of(&name.into());
        let all = Controllers { clusters: true, backups: true, restores: true };
        assert_eq!(controllers("/usr/local/bin/etcd-operator"), all);
        assert_eq!(controllers(""), all);
        let backups = controllers("etcd-backup-operator");
        assert_eq!(backups, Controllers { clusters: false, backups: true, restores: false });
        let restores = controllers("/bin/etcd-restore-operator");
        assert_eq!(restores, Controllers { clusters: false, backups: false, restores: true });
        let ports = [all.port(), backups.port(), restores.port()];
        assert_eq!(ports, [8080, 8081, 8082], "they share a pod");
    }

    #[test]
    fn unused_upstream_flags_are_accepted() {
        let args = parse(&["-gc-interval=10m", "-chaos-level=-1", "-listen-addr=0.0.0.0:9"]);
        assert_eq!(args.listen_addr.map(|addr| addr.port()), Some(9));
    }
}

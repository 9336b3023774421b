//! The dev cluster, and what runs in pods.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args as ClapArgs;
#[cfg(feature = "devcluster")]
use clap::Subcommand;

#[cfg(feature = "devcluster")]
use super::OutputArgs;
use super::console::OidcArgs;

/// `olm up`.
#[derive(Debug, ClapArgs)]
pub struct UpArgs {
    /// Where the state is kept.
    #[arg(long, env = "OLM_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the Kubernetes API.
    #[arg(long, default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// Address of the console.
    #[arg(long, default_value = "127.0.0.1:8090")]
    pub console: SocketAddr,
    /// Also serve this directory as a catalog; NAME=DIR, may be repeated.
    #[arg(long, value_name = "NAME=DIR", value_parser = name_and_dir)]
    pub catalog: Vec<(String, PathBuf)>,
    /// Also serve packages of catalogs as PackageManifests, by an aggregated API; needs pods.
    #[arg(long, conflicts_with = "no_pods")]
    pub package_manifests: bool,
    /// Let pods reach this port of 127.0.0.1 at host.olm.internal; may be repeated.
    #[arg(long, value_name = "PORT", conflicts_with = "no_pods", value_parser = clap::value_parser!(u16).range(1..))]
    pub host_port: Vec<u16>,
    /// Do not run pods: only the API, the catalog and the console.
    #[arg(long)]
    pub no_pods: bool,
    #[command(flatten)]
    pub oidc: OidcArgs,
    /// Install the etcd operator, create a three-member etcd cluster, write and read a key.
    #[arg(long)]
    pub demo: bool,
    /// Stop when standard input closes: for tests and other parents that may die.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
}

/// `olm token`.
#[cfg(feature = "devcluster")]
#[derive(Debug, ClapArgs)]
pub struct TokenArgs {
    /// Where the dev cluster keeps its state.
    #[arg(long, env = "OLM_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

/// `olm dev`.
#[cfg(feature = "devcluster")]
#[derive(Debug, ClapArgs)]
pub struct DevArgs {
    #[command(subcommand)]
    pub command: DevCommand,
}

/// What the dev cluster can run.
#[cfg(feature = "devcluster")]
#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// List the images that the dev cluster can run, and the programs they stand for.
    Images(OutputArgs),
    /// Put faults into pods of the dev cluster, and take them back.
    Fault(FaultArgs),
    /// Show which rights a ServiceAccount has used, and which it was refused, since the dev cluster started.
    Rights {
        /// The ServiceAccount, in the namespace of --namespace.
        account: String,
        #[command(flatten)]
        out: OutputArgs,
    },
}

/// `olm dev fault`.
#[cfg(feature = "devcluster")]
#[derive(Debug, ClapArgs)]
pub struct FaultArgs {
    #[command(subcommand)]
    pub command: FaultCommand,
}

/// Faults of pods.
#[cfg(feature = "devcluster")]
#[derive(Debug, Subcommand)]
pub enum FaultCommand {
    /// Lose all packets to and from a pod.
    Cut {
        /// The pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
        /// Only those to and from other pods: `pods` for all of them (also through Services; node, probes, API server and DNS
        /// stay), or the name of one (directly; NAME or NAMESPACE/NAME, may be repeated). Needs nft on this machine.
        #[arg(long, value_name = "pods|POD")]
        from: Vec<String>,
    },
    /// Stop all processes of a pod (SIGSTOP).
    Pause {
        /// The pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
    },
    /// Stop all processes of a pod and let them run, in turns. Everything they do takes longer; network and disk are as
    /// fast as ever.
    Slow {
        /// The pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
        /// Milliseconds that they stand still at a time.
        #[arg(long, value_name = "MS", default_value_t = 200)]
        stop: u32,
        /// Milliseconds that they run in between.
        #[arg(long, value_name = "MS", default_value_t = 20)]
        run: u32,
    },
    /// Kill all processes of a pod (SIGKILL).
    Kill {
        /// The pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
        /// Empty its emptyDirs and the volumes of its claims before it is started again.
        #[arg(long)]
        wipe: bool,
    },
    /// Take faults back: those of the pods named, or all that there are with --all.
    Undo {
        /// The pods.
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "POD")]
        pods: Vec<String>,
        /// Of all pods in all namespaces.
        #[arg(long)]
        all: bool,
        /// Only faults of this kind.
        #[arg(long, value_enum)]
        kind: Option<FaultKind>,
    },
    /// List the faults that are in force.
    List(OutputArgs),
}

/// Faults that stay in force.
#[cfg(feature = "devcluster")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FaultKind {
    /// `olm dev fault cut`.
    Cut,
    /// `olm dev fault pause`.
    Pause,
    /// `olm dev fault slow`.
    Slow,
}

/// `olm manager`.
#[derive(Debug, ClapArgs)]
pub struct ManagerArgs {
    /// Address for catalogs, health and metrics, with TLS and without.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// Where catalogs are kept, so that a restart serves them at once; a fresh folder when absent.
    #[arg(long, env = "OLM_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
    /// YAML file with `mirrors`, `plainHttp`, `skipTlsVerify`, `tokenHosts` and `egress` of registries; read anew for every fetch.
    #[arg(long, env = "OLM_REGISTRIES")]
    pub registries: Option<PathBuf>,
    /// Folder with certificate authorities (*.crt, *.pem) to trust beside the system's.
    #[arg(long, env = "OLM_PULL_CAS_DIR")]
    pub pull_cas_dir: Option<PathBuf>,
    /// Address at which the API server calls the webhook that records requests, and PackageManifests; not served when absent.
    #[arg(long, value_name = "ADDRESS")]
    pub secure_listen: Option<SocketAddr>,
    /// How the log is written.
    #[arg(long, env = "OLM_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// How servers write their log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line, with the spans that it happened in.
    #[default]
    Json,
    /// Lines for people.
    Text,
}

/// `olm staticweb`.
#[derive(Debug, ClapArgs)]
pub struct StaticwebArgs {
    /// Address to serve on.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// Directory to serve; a page that names the pod when absent.
    #[arg(long)]
    pub root: Option<PathBuf>,
}

fn name_and_dir(text: &str) -> Result<(String, PathBuf), String> {
    let (name, dir) = text.split_once('=').ok_or("expected NAME=DIR")?;
    let valid = !name.is_empty()
        && name.len() <= 63
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !valid {
        return Err(format!("`{name}` is not a valid name: use lower case letters, digits and `-`"));
    }
    let dir = PathBuf::from(dir);
    if !dir.is_dir() {
        return Err(format!("{} is not a directory", dir.display()));
    }
    let dir = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok((name.to_string(), dir))
}

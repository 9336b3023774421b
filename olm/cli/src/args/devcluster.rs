//! Arguments of the dev cluster.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use olm_api::CatalogSourceSpec;
use olm_ops::catalogs::{known, known_names};

use super::{OutputArgs, RegistryArgs, console::OidcArgs, sources::catalog_name};
use crate::{exit::Code, source::requested};

/// `olm up`.
#[derive(Debug, ClapArgs)]
#[command(after_help = UP)]
pub struct UpArgs {
    /// Data directory of the dev cluster.
    #[arg(long, env = "OLM_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the Kubernetes API.
    #[arg(long, default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// Address of the console.
    #[arg(long, default_value = "127.0.0.1:8090")]
    pub console: SocketAddr,
    /// Additional catalog: NAME=DIR, NAME=IMAGE, NAME=URL or a known name such as operatorhub; may be repeated.
    #[arg(long, value_name = "NAME[=SOURCE]", value_parser = up_catalog)]
    pub catalog: Vec<UpCatalog>,
    /// Serve packages of catalogs as PackageManifests (aggregated API; requires pods).
    #[arg(long, conflicts_with = "no_pods")]
    pub package_manifests: bool,
    /// Port of 127.0.0.1 that pods can reach at host.olm.internal; may be repeated.
    #[arg(long, value_name = "PORT", conflicts_with = "no_pods", value_parser = clap::value_parser!(u16).range(1..))]
    pub host_port: Vec<u16>,
    /// Run only the API, the catalog and the console, without pods.
    #[arg(long)]
    pub no_pods: bool,
    #[command(flatten)]
    pub oidc: OidcArgs,
    /// Install the etcd operator, create a three-member etcd cluster, write and read a key.
    #[arg(long)]
    pub demo: bool,
    /// Stop when standard input closes (for tests and supervising processes).
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
    /// For the images of pods.
    #[command(flatten)]
    pub registry: RegistryArgs,
}

const UP: &str = "\
Examples:
  olm up
  olm up --demo
  olm up --catalog operatorhub --data-dir ./cluster";

/// A catalog of `olm up --catalog`.
#[derive(Debug, Clone)]
pub enum UpCatalog {
    /// A directory of this machine, which is mounted into the manager.
    Directory { name: String, dir: PathBuf },
    /// A source that the manager fetches.
    Remote { name: String, spec: Box<CatalogSourceSpec> },
}

/// `olm token`.
#[derive(Debug, ClapArgs)]
#[command(after_help = TOKEN)]
pub struct TokenArgs {
    /// Data directory of the dev cluster.
    #[arg(long, env = "OLM_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

const TOKEN: &str = "\
Examples:
  olm token
  olm token --data-dir ./cluster";

/// `olm dev`.
#[derive(Debug, ClapArgs)]
#[command(after_help = DEV)]
pub struct DevArgs {
    #[command(subcommand)]
    pub command: DevCommand,
}

const DEV: &str = "\
Examples:
  olm dev images
  olm dev fault list
  olm dev rights etcd-operator -n etcd";

/// Subcommands of `olm dev`.
#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// List the images of the dev cluster, or load images from a file.
    Images(ImagesArgs),
    /// Inject faults into pods of the dev cluster and remove them.
    Fault(FaultArgs),
    /// Show the used and denied permissions of a ServiceAccount since the dev cluster started.
    #[command(after_help = RIGHTS)]
    Rights {
        /// ServiceAccount in the namespace of --namespace.
        account: String,
        #[command(flatten)]
        out: OutputArgs,
    },
}

const RIGHTS: &str = "\
Examples:
  olm dev rights etcd-operator -n etcd";

/// `olm dev images`.
#[derive(Debug, ClapArgs)]
#[command(after_help = IMAGES, args_conflicts_with_subcommands = true)]
pub struct ImagesArgs {
    #[command(subcommand)]
    pub command: Option<ImagesCommand>,
    #[command(flatten)]
    pub content: ImagesDirArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const IMAGES: &str = "\
Examples:
  olm dev images
  olm dev images load operator.tar";

/// Where the images of a dev cluster are.
#[derive(Debug, ClapArgs)]
pub struct ImagesDirArgs {
    /// Data directory of the dev cluster.
    #[arg(long, env = "OLM_DATA_DIR", value_hint = clap::ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

/// Subcommands of `olm dev images`.
#[derive(Debug, Subcommand)]
pub enum ImagesCommand {
    /// Load the images of a file under their names in it; pods run them without a registry.
    #[command(after_help = LOAD)]
    Load {
        /// Archive of `olm self image --archive`, `podman save` or `docker save`, or folder in the OCI layout.
        #[arg(value_hint = clap::ValueHint::AnyPath)]
        path: PathBuf,
        /// Name of the image; required if the file contains none.
        #[arg(long, value_name = "IMAGE")]
        name: Option<String>,
        #[command(flatten)]
        content: ImagesDirArgs,
    },
}

const LOAD: &str = "\
Examples:
  olm dev images load operator.tar
  olm dev images load ./layout --name registry.example/team/operator:v1";

/// `olm dev fault`.
#[derive(Debug, ClapArgs)]
#[command(after_help = FAULT)]
pub struct FaultArgs {
    #[command(subcommand)]
    pub command: FaultCommand,
}

const FAULT: &str = "\
Examples:
  olm dev fault cut example-0 -n etcd
  olm dev fault undo --all";

const CUT: &str = "\
Examples:
  olm dev fault cut example-0 -n etcd
  olm dev fault cut example-0 --from pods -n etcd";

const PAUSE: &str = "\
Examples:
  olm dev fault pause example-0 -n etcd";

const SLOW: &str = "\
Examples:
  olm dev fault slow example-0 --stop 500 --run 50 -n etcd

Network and disk are not affected.";

const KILL: &str = "\
Examples:
  olm dev fault kill example-0 -n etcd
  olm dev fault kill example-0 --wipe -n etcd";

const UNDO: &str = "\
Examples:
  olm dev fault undo example-0 -n etcd
  olm dev fault undo --all --kind cut";

const FAULTS: &str = "\
Examples:
  olm dev fault list
  olm dev fault list -o json";

/// Subcommands of `olm dev fault`.
#[derive(Debug, Subcommand)]
pub enum FaultCommand {
    /// Drop all packets to and from a pod.
    #[command(after_help = CUT)]
    Cut {
        /// Pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
        /// Drop only packets to and from other pods: `pods` for all pods (also through Services; node, probes, API server and DNS
        /// stay reachable), or a pod (NAME or NAMESPACE/NAME; direct connections only; may be repeated). Requires nft.
        #[arg(long, value_name = "pods|POD")]
        from: Vec<String>,
    },
    /// Stop all processes of a pod (SIGSTOP).
    #[command(after_help = PAUSE)]
    Pause {
        /// Pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
    },
    /// Slow down a pod: stop and continue all its processes in turns.
    #[command(after_help = SLOW)]
    Slow {
        /// Pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
        /// Milliseconds of each stop.
        #[arg(long, value_name = "MS", default_value_t = 200)]
        stop: u32,
        /// Milliseconds between two stops.
        #[arg(long, value_name = "MS", default_value_t = 20)]
        run: u32,
    },
    /// Kill all processes of a pod (SIGKILL).
    #[command(after_help = KILL)]
    Kill {
        /// Pods.
        #[arg(required = true, value_name = "POD")]
        pods: Vec<String>,
        /// Empty the emptyDir and PersistentVolumeClaim volumes of the pod before the restart.
        #[arg(long)]
        wipe: bool,
    },
    /// Remove the faults of the named pods, or all faults with --all.
    #[command(after_help = UNDO)]
    Undo {
        /// Pods.
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "POD")]
        pods: Vec<String>,
        /// Remove faults of all pods in all namespaces.
        #[arg(long)]
        all: bool,
        /// Only faults of this kind.
        #[arg(long, value_enum)]
        kind: Option<FaultKind>,
    },
    /// List active faults.
    #[command(after_help = FAULTS)]
    List(OutputArgs),
}

/// Persistent faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FaultKind {
    /// `olm dev fault cut`.
    Cut,
    /// `olm dev fault pause`.
    Pause,
    /// `olm dev fault slow`.
    Slow,
}

fn up_catalog(text: &str) -> Result<UpCatalog, String> {
    let (name, source) = match text.split_once('=') {
        Some((name, source)) => (catalog_name(name)?, source),
        None if known(text).is_some() => (text.to_owned(), text),
        None => {
            let names = known_names().join(", ");
            return Err(format!("expected NAME=DIR, NAME=IMAGE, NAME=URL, or one of {names}"));
        }
    };
    let dir = PathBuf::from(source);
    if dir.is_dir() {
        let dir = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
        return Ok(UpCatalog::Directory { name, dir });
    }
    match requested(source) {
        Ok(catalog) => Ok(UpCatalog::Remote { name, spec: Box::new(catalog.spec) }),
        Err(failure) if failure.code == Code::NotFound => {
            Err(format!("{source} is not a directory, an image, a URL or a known catalog"))
        }
        Err(failure) => Err(failure.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogs_of_the_dev_cluster_are_directories_or_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let remote = |text: &str| match up_catalog(text) {
            Ok(UpCatalog::Remote { name, spec }) => (name, spec.image.or(spec.url).unwrap_or_default()),
            other => panic!("{text}: {other:?}"),
        };
        let image = "quay.io/operatorhubio/catalog:latest";
        assert_eq!(remote("operatorhub"), ("operatorhub".into(), image.into()));
        assert_eq!(remote("hub=operatorhub"), ("hub".into(), image.into()));
        assert_eq!(remote("a=quay.io/acme/catalog:v1"), ("a".into(), "quay.io/acme/catalog:v1".into()));
        assert_eq!(
            remote("a=https://example.com/all?b=c"),
            ("a".into(), "https://example.com/all?b=c".into())
        );
        let directory = up_catalog(&format!("mine={}", folder.path().display())).unwrap();
        assert!(matches!(directory, UpCatalog::Directory { name, .. } if name == "mine"));
        for wrong in ["etcd", "quay.io/acme/catalog:v1", "A=operatorhub", "a=./nowhere", "a=nowhere", "a="] {
            assert!(up_catalog(wrong).is_err(), "{wrong}");
        }
        assert!(up_catalog("etcd").unwrap_err().contains("operatorhub"));
    }
}

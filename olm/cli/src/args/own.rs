//! Arguments of `olm self`: installation of the product.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{OutputArgs, RegistryArgs, duration};
use crate::product::PROGRAMS;

/// `olm self`.
#[derive(Debug, ClapArgs)]
#[command(after_help = OWN)]
pub struct SelfArgs {
    #[command(subcommand)]
    pub command: SelfCommand,
}

const OWN: &str = "\
Examples:
  olm self install
  olm self status";

/// Subcommands of `olm self`.
#[derive(Debug, Subcommand)]
pub enum SelfCommand {
    /// Install the manager and the console, and wait until they are ready.
    #[command(after_help = OWN_INSTALL)]
    Install(SelfInstallArgs),
    /// Show the status of the installation.
    #[command(after_help = OWN_STATUS)]
    Status(OutputArgs),
    /// Upgrade the installation to the version of this program; its settings are retained.
    #[command(after_help = OWN_UPGRADE)]
    Upgrade(SelfInstallArgs),
    /// Uninstall the manager and the console; installed operators keep running.
    #[command(after_help = OWN_UNINSTALL)]
    Uninstall(SelfUninstallArgs),
    /// Print the manifests, a Helm chart or the container build file.
    #[command(after_help = OWN_MANIFESTS)]
    Manifests(SelfManifestsArgs),
    /// Write or push the images of olm and the etcd operator, without Docker.
    #[command(after_help = OWN_IMAGE)]
    Image(SelfImageArgs),
}

const OWN_INSTALL: &str = "\
Examples:
  olm self install
  olm self install --registry registry.example/team --pull-secret registry
  olm self install --push registry.example/team";

const OWN_STATUS: &str = "\
Examples:
  olm self status
  olm self status -o json

Exit codes: 0 ready, 1 not ready, 10 not checked.";

const OWN_UPGRADE: &str = "\
Examples:
  olm self upgrade
  olm self upgrade --replicas 2 --timeout 10m";

const OWN_UNINSTALL: &str = "\
Examples:
  olm self uninstall --dry-run
  olm self uninstall --yes";

const OWN_MANIFESTS: &str = "\
Examples:
  olm self manifests --image registry.example/team/olm:v1 > olm.yaml
  olm self manifests --helm ./chart";

const OWN_IMAGE: &str = "\
Examples:
  olm self image --archive olm.tar
  olm self image --push registry.example/team";

/// `olm self image`.
#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(true))]
pub struct SelfImageArgs {
    /// Write the images to a folder in the OCI layout.
    #[arg(long, value_name = "DIR", group = "target", value_hint = clap::ValueHint::DirPath)]
    pub layout: Option<PathBuf>,
    /// Write the images to an archive for docker, podman, ctr, kind and k3s.
    #[arg(long, value_name = "FILE", group = "target", value_hint = clap::ValueHint::FilePath)]
    pub archive: Option<PathBuf>,
    /// Push the images to a registry, such as registry.example/team.
    #[arg(long, value_name = "REGISTRY[/PREFIX]", group = "target")]
    pub push: Option<String>,
    #[command(flatten)]
    pub registry: RegistryArgs,
    #[command(flatten)]
    pub out: OutputArgs,
    #[command(flatten)]
    pub content: ImageContentArgs,
}

/// The content of the product's images, for commands with a group `target`: without one, no images are made.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Content of images")]
pub struct ImageContentArgs {
    /// Program of an image: NAME is olm, etcd-operator or myapp-operator. Repeat it for several architectures. This program, and the operators in its folder, when absent.
    #[arg(long, value_name = "NAME=PATH", value_parser = program, requires = "target")]
    pub binary: Vec<(String, PathBuf)>,
    /// Certificate authorities of the images (PEM file); those of this machine when absent.
    #[arg(long, value_name = "FILE", requires = "target", value_hint = clap::ValueHint::FilePath)]
    pub certificates: Option<PathBuf>,
    /// Folder with SBOMs of `make sbom`, which become part of the images.
    #[arg(long, value_name = "DIR", requires = "target", value_hint = clap::ValueHint::DirPath)]
    pub sbom: Option<PathBuf>,
}

fn program(text: &str) -> Result<(String, PathBuf), String> {
    let names = PROGRAMS.map(|(name, _)| name);
    match text.split_once('=') {
        Some((name, path)) if names.contains(&name) && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err(format!("expected NAME=PATH with a NAME of {}", names.join(", "))),
    }
}

/// `olm self install`, `olm self upgrade`.
#[derive(Debug, ClapArgs)]
pub struct SelfInstallArgs {
    /// Push the images to a registry first, as `olm self image --push`, and use them by digest.
    #[arg(
        long,
        value_name = "REGISTRY[/PREFIX]",
        group = "target",
        conflicts_with_all = ["image", "registry"]
    )]
    pub push: Option<String>,
    #[command(flatten)]
    pub access: RegistryArgs,
    /// Allow the replacement of a newer version.
    #[arg(long)]
    pub allow_downgrade: bool,
    /// Do not wait until the installation is ready.
    #[arg(long)]
    pub no_wait: bool,
    /// Maximum time to wait, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub chosen: ChosenArgs,
    #[command(flatten)]
    pub content: ImageContentArgs,
}

/// What may differ between two installations.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Choices")]
pub struct ChosenArgs {
    /// Image of the manager and the console.
    #[arg(long)]
    pub image: Option<String>,
    /// Registry with the images of `olm self image --push`: those of the manager, the console and the etcd operator are used by digest.
    #[arg(long, value_name = "REGISTRY[/PREFIX]", conflicts_with = "image")]
    pub registry: Option<String>,
    /// Pull secret of the manager and the console, in their namespace, and of operators of the shipped catalog, in theirs; may be repeated, replaces all previous ones.
    #[arg(long, value_name = "NAME")]
    pub pull_secret: Vec<String>,
    /// Image pull policy.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub image_pull_policy: Option<PullPolicy>,
    /// Replicas of the manager; one is the leader.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub replicas: Option<u32>,
    /// Environment variable of the manager and the console, such as HTTPS_PROXY=URL; may be repeated, replaces all previous ones.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Resource requests of the manager, such as cpu=10m,memory=64Mi.
    #[arg(long, value_name = "NAME=QUANTITY,…", value_delimiter = ',', value_parser = quantity)]
    pub requests: Vec<(String, String)>,
    /// Resource limits of the manager.
    #[arg(long, value_name = "NAME=QUANTITY,…", value_delimiter = ',', value_parser = quantity)]
    pub limits: Vec<(String, String)>,
    /// Install the console.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub console: Option<bool>,
    /// Additional argument of the console, such as --console-arg=--oidc-issuer=URL; may be repeated, replaces all previous ones.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub console_arg: Vec<String>,
    /// Serve the console with TLS, using the certificate of Secret `olm-console-tls`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub console_tls: Option<bool>,
    /// Create NetworkPolicies.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub network_policy: Option<bool>,
    /// Port of the API server and the OpenID Connect provider that the console's NetworkPolicy allows; may be repeated.
    #[arg(long, value_name = "PORT")]
    pub api_server_port: Vec<u16>,
    /// Create a ServiceMonitor (requires the Prometheus operator).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub service_monitor: Option<bool>,
    /// Serve packages of catalogs as PackageManifests (aggregated API).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub package_manifests: Option<bool>,
    /// Allow every authenticated user to read the catalogs of the namespace.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub public_catalogs: Option<bool>,
    /// Create CatalogSource `community` with the catalog of the image.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub shipped_catalog: Option<bool>,
    /// File with additional CatalogSources, as YAML or JSON; may be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub catalogs: Vec<PathBuf>,
}

/// `imagePullPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    /// Pull at every start.
    Always,
    /// Pull when the image is not on the node.
    IfNotPresent,
    /// Never pull; the image must be on the node.
    Never,
}

/// `olm self uninstall`.
#[derive(Debug, ClapArgs)]
pub struct SelfUninstallArgs {
    /// Also remove the CustomResourceDefinitions and all their objects; refused while operators are installed.
    #[arg(long)]
    pub delete_crds: bool,
    /// List the objects to remove without removing them.
    #[arg(long)]
    pub dry_run: bool,
    /// Skip the confirmation.
    #[arg(short, long)]
    pub yes: bool,
    /// Maximum time to wait, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm self manifests`.
#[derive(Debug, ClapArgs)]
pub struct SelfManifestsArgs {
    #[command(flatten)]
    pub access: RegistryArgs,
    #[command(flatten)]
    pub chosen: ChosenArgs,
    /// Write a Helm chart to this folder instead; these settings become its values.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "containerfile")]
    pub helm: Option<PathBuf>,
    /// Print a container build file instead: `build` compiles a checkout, `copy` uses the binary `olm` of the build context.
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "build")]
    pub containerfile: Option<Containerfile>,
    /// Kubernetes version of the cluster; kinds that it lacks are omitted. A Helm chart detects them instead.
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "1.30",
        value_parser = minor,
        conflicts_with_all = ["helm", "containerfile"]
    )]
    pub kube_version: u32,
}

/// The minor version of Kubernetes `1.N`.
fn minor(text: &str) -> Result<u32, String> {
    let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
    match (parts.next(), parts.next().map(str::parse)) {
        (Some("1"), Some(Ok(minor))) => Ok(minor),
        _ => Err("expected a Kubernetes version such as 1.30".to_owned()),
    }
}

/// Where the image's binary comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Containerfile {
    /// Compile the binary in the build.
    Build,
    /// Copy the binary from the build context.
    Copy,
}

/// The empty text is no variable.
fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        None if text.is_empty() => Ok((String::new(), String::new())),
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn quantity(text: &str) -> Result<(String, String), String> {
    let (name, quantity) = text.split_once('=').ok_or("expected NAME=QUANTITY such as memory=64Mi")?;
    let number = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if name.is_empty() || number.parse::<f64>().is_err() {
        return Err(format!("expected NAME=QUANTITY such as memory=64Mi, not `{text}`"));
    }
    Ok((name.to_owned(), quantity.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_kubernetes_is_read_as_people_write_it() {
        assert_eq!(["1.30", "v1.36.2", "1.7"].map(minor), [Ok(30), Ok(36), Ok(7)]);
        for wrong in ["", "30", "2.1", "1", "1.", "1.x", "latest"] {
            assert!(minor(wrong).is_err(), "{wrong}");
        }
    }
}

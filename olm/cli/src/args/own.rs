//! `olm self`: the product itself on a cluster.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{OutputArgs, duration};

/// `olm self`.
#[derive(Debug, ClapArgs)]
pub struct SelfArgs {
    #[command(subcommand)]
    pub command: SelfCommand,
}

/// What to do with the product itself.
#[derive(Debug, Subcommand)]
pub enum SelfCommand {
    /// Put the manager and the console on the cluster, and wait until they are ready.
    Install(SelfInstallArgs),
    /// Show what is on the cluster, and how it stands.
    Status(OutputArgs),
    /// Bring what is on the cluster to the version of this program; choices of the installation are kept.
    Upgrade(SelfInstallArgs),
    /// Remove the manager and the console; installed operators go on running.
    Uninstall(SelfUninstallArgs),
    /// Print the manifests, a Helm chart or the image build file.
    Manifests(SelfManifestsArgs),
}

/// `olm self install`, `olm self upgrade`.
#[derive(Debug, ClapArgs)]
pub struct SelfInstallArgs {
    #[command(flatten)]
    pub chosen: ChosenArgs,
    /// Replace a newer version, too.
    #[arg(long)]
    pub allow_downgrade: bool,
    /// Do not wait until it is ready.
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait at the most, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

/// What may differ between two installations.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Choices")]
pub struct ChosenArgs {
    /// Image of the manager and the console.
    #[arg(long)]
    pub image: Option<String>,
    /// When nodes pull the image.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub image_pull_policy: Option<PullPolicy>,
    /// Managers; one leads, the others take over.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub replicas: Option<u32>,
    /// The manager's requests, such as cpu=10m,memory=64Mi.
    #[arg(long, value_name = "NAME=QUANTITY,…", value_delimiter = ',', value_parser = quantity)]
    pub requests: Vec<(String, String)>,
    /// The manager's limits.
    #[arg(long, value_name = "NAME=QUANTITY,…", value_delimiter = ',', value_parser = quantity)]
    pub limits: Vec<(String, String)>,
    /// Whether there is a console.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub console: Option<bool>,
    /// Further argument of the console, such as --console-arg=--oidc-issuer=URL; may be repeated, replaces all earlier ones.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub console_arg: Vec<String>,
    /// Whether the console serves TLS, with the certificate of Secret `olm-console-tls`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub console_tls: Option<bool>,
    /// Whether NetworkPolicies say who may talk to whom.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub network_policy: Option<bool>,
    /// Port at which the console may reach the API server and an OpenID Connect provider; may be repeated.
    #[arg(long, value_name = "PORT")]
    pub api_server_port: Vec<u16>,
    /// Whether there is a ServiceMonitor, for a cluster with the Prometheus operator.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub service_monitor: Option<bool>,
    /// Whether packages of catalogs are served as PackageManifests, by an aggregated API.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub package_manifests: Option<bool>,
    /// Whether every authenticated user may read the catalogs of the namespace.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub public_catalogs: Option<bool>,
    /// Whether the catalog that is part of the image is there as CatalogSource `community`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub shipped_catalog: Option<bool>,
    /// File with further CatalogSources, as YAML or JSON; may be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub catalogs: Vec<PathBuf>,
}

/// `imagePullPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// When it is not there.
    IfNotPresent,
    /// Never: it must be there.
    Never,
}

/// `olm self uninstall`.
#[derive(Debug, ClapArgs)]
pub struct SelfUninstallArgs {
    /// Remove the CustomResourceDefinitions as well, and with them every object of theirs; refused while operators are installed.
    #[arg(long)]
    pub delete_crds: bool,
    /// Say what would go, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,
    /// How long to wait at the most, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm self manifests`.
#[derive(Debug, ClapArgs)]
pub struct SelfManifestsArgs {
    #[command(flatten)]
    pub chosen: ChosenArgs,
    /// Write a Helm chart into this folder instead; its values are the choices.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "containerfile")]
    pub helm: Option<PathBuf>,
    /// Print a build file of the image instead: `build` compiles a checkout, `copy` takes the binary `olm` beside it.
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "build")]
    pub containerfile: Option<Containerfile>,
    /// Kubernetes that the YAML is for: kinds that it does not have yet are left out. A chart asks the cluster.
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "1.30",
        value_parser = minor,
        conflicts_with_all = ["helm", "containerfile"]
    )]
    pub kube_version: u32,
}

/// The minor version of a version of Kubernetes 1.
fn minor(text: &str) -> Result<u32, String> {
    let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
    match (parts.next(), parts.next().map(str::parse)) {
        (Some("1"), Some(Ok(minor))) => Ok(minor),
        _ => Err("expected a version of Kubernetes, such as 1.30".to_owned()),
    }
}

/// Where the image's binary comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Containerfile {
    /// Compiled in the build.
    Build,
    /// Copied from the build's context.
    Copy,
}

fn quantity(text: &str) -> Result<(String, String), String> {
    let (name, quantity) = text.split_once('=').ok_or("expected NAME=QUANTITY, such as memory=64Mi")?;
    let number = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if name.is_empty() || number.parse::<f64>().is_err() {
        return Err(format!("`{text}` is not NAME=QUANTITY, such as memory=64Mi"));
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

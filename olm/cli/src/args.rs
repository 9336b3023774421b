//! The command line.

use std::{io::IsTerminal as _, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::output::Format;

/// Operators for Kubernetes: install, upgrade, explain, remove.
#[derive(Debug, Parser)]
#[command(name = "olm", version, after_help = crate::exit::HELP, propagate_version = false)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Namespace; the kubeconfig's when absent.
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Path of the kubeconfig.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// Act as this user.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,
    /// Act as a member of this group; may be repeated.
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub impersonate_group: Vec<String>,
    /// When to use colour.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub color: Color,
    /// Say more; twice for debugging.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Flag, then `NO_COLOR`, then `CLICOLOR_FORCE`, then whether standard error is a terminal.
    pub fn enabled_on_stderr(self) -> bool {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if set("NO_COLOR") => false,
            Self::Auto if set("CLICOLOR_FORCE") => true,
            Self::Auto => {
                std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a one-machine dev cluster with the manager, the console and the shipped catalog.
    #[cfg(feature = "devcluster")]
    Up(UpArgs),
    /// Search the catalogs.
    Search(SearchArgs),
    /// Show a package: channels, versions, what it provides and needs.
    Show(ShowArgs),
    /// Install an operator: one Subscription, the defaults are right.
    Install(InstallArgs),
    /// Approve the plan that waits.
    Approve(ApproveArgs),
    /// Upgrade an installed operator to the next version of its channel.
    Upgrade(UpgradeArgs),
    /// List installed operators.
    List(ListArgs),
    /// Show how an installation stands: steps, conditions, what blocks.
    Status(StatusArgs),
    /// Remove an operator.
    Uninstall(UninstallArgs),
    /// Print a one-time login link for the console of the dev cluster.
    #[cfg(feature = "devcluster")]
    Token(TokenArgs),
    /// What the dev cluster can run.
    #[cfg(feature = "devcluster")]
    Dev(DevArgs),
    /// Print the manifests that put the manager and the console on a cluster.
    Manifests(ManifestsArgs),
    /// Print the version.
    Version(OutputArgs),
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Run the manager (in its pod).
    #[command(hide = true)]
    Manager(ManagerArgs),
    /// Run the console (in its pod).
    #[command(hide = true)]
    Console(ConsoleArgs),
    /// Serve static files (an image for trying Deployments and Services).
    #[command(hide = true)]
    Staticweb(StaticwebArgs),
}

impl Command {
    /// Long-running servers log as JSON lines.
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Manager(_) | Self::Console(_) | Self::Staticweb(_))
    }

    /// Whether the command handles Ctrl-C and SIGTERM itself.
    pub fn stops_by_itself(&self) -> bool {
        #[cfg(feature = "devcluster")]
        if matches!(self, Self::Up(_)) {
            return true;
        }
        self.is_server()
    }
}

/// `-o` and `--no-headers`.
#[derive(Debug, Clone, ClapArgs)]
pub struct OutputArgs {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// No column titles.
    #[arg(long)]
    pub no_headers: bool,
}

/// `--wait` and `--timeout`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WaitArgs {
    /// Wait until it is done, telling each step.
    #[arg(long)]
    pub wait: bool,
    /// How long to wait at the most, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

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
    /// Do not run pods: only the API, the catalog and the console.
    #[arg(long)]
    pub no_pods: bool,
    /// Install the etcd operator, create a three-member etcd cluster, write and read a key.
    #[arg(long)]
    pub demo: bool,
    /// Stop when standard input closes: for tests and other parents that may die.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
}

/// `olm search`.
#[derive(Debug, ClapArgs)]
pub struct SearchArgs {
    /// Words; everything when absent.
    pub text: Vec<String>,
    #[command(flatten)]
    pub source: CatalogArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Which catalogs to read.
#[derive(Debug, Clone, ClapArgs)]
pub struct CatalogArgs {
    /// Read this directory (a file-based catalog) instead of the cluster's catalogs.
    #[arg(long, value_name = "DIR")]
    pub catalog_dir: Option<PathBuf>,
    /// Only this catalog, as NAME or NAMESPACE/NAME.
    #[arg(long, value_name = "NAME")]
    pub catalog: Option<String>,
}

/// `olm show`.
#[derive(Debug, ClapArgs)]
pub struct ShowArgs {
    /// Package.
    pub package: String,
    /// Only this channel.
    #[arg(short, long)]
    pub channel: Option<String>,
    #[command(flatten)]
    pub source: CatalogArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm install`.
#[derive(Debug, ClapArgs)]
pub struct InstallArgs {
    /// Package.
    pub package: String,
    /// Channel; the package's default when absent.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// Version, or a range such as ">=0.10.0 <0.11.0"; the newest when absent.
    #[arg(long)]
    pub version: Option<String>,
    /// Catalog, as NAME or NAMESPACE/NAME.
    #[arg(long)]
    pub catalog: Option<String>,
    /// Who approves plans; automatic for a new installation, unchanged for one that is there.
    #[arg(long, value_enum)]
    pub approval: Option<Approval>,
    /// Fail when the namespace does not exist, instead of creating it.
    #[arg(long)]
    pub no_create_namespace: bool,
    /// Print the plan and change nothing; the plan is the one that the installation will make.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Who approves plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approval {
    /// Plans are carried out as they come.
    Automatic,
    /// Each plan waits for `olm approve`.
    Manual,
}

/// `olm approve`.
#[derive(Debug, ClapArgs)]
pub struct ApproveArgs {
    /// Package, Subscription or InstallPlan.
    pub name: String,
    /// Approve only this content; refused when the plan has another digest by now.
    #[arg(long)]
    pub digest: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm upgrade`.
#[derive(Debug, ClapArgs)]
pub struct UpgradeArgs {
    /// Package or Subscription.
    pub name: String,
    /// Version to go to; the next of the channel when absent.
    #[arg(long)]
    pub to: Option<String>,
    /// Change to this channel.
    #[arg(short, long)]
    pub channel: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm list`.
#[derive(Debug, ClapArgs)]
pub struct ListArgs {
    /// In all namespaces; so also when no namespace is given.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm status`.
#[derive(Debug, ClapArgs)]
pub struct StatusArgs {
    /// Package or Subscription.
    pub name: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm uninstall`.
#[derive(Debug, ClapArgs)]
pub struct UninstallArgs {
    /// Package or Subscription.
    pub name: String,
    /// What becomes of the operator's instances.
    #[arg(long, value_enum, default_value_t)]
    pub instances: Instances,
    /// Also delete the CustomResourceDefinitions, and with them every instance in the cluster.
    #[arg(long)]
    pub delete_crds: bool,
    /// Print the plan and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before data is lost.
    #[arg(short, long)]
    pub yes: bool,
    /// How long to wait at the most.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// What becomes of the operator's instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Instances {
    /// Refuse when there are any.
    #[default]
    Abort,
    /// Leave them: they run on, unmanaged.
    Keep,
    /// Delete them first, and wait until they are gone.
    Delete,
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
}

/// `olm manifests`.
#[derive(Debug, ClapArgs)]
pub struct ManifestsArgs {
    /// Image of the manager and the console.
    #[arg(long)]
    pub image: Option<String>,
}

/// `olm manager`.
#[derive(Debug, ClapArgs)]
pub struct ManagerArgs {
    /// Address for catalogs, health and metrics.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
}

/// `olm console`.
#[derive(Debug, ClapArgs)]
pub struct ConsoleArgs {
    /// Address of the console.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// Where the manager serves the catalogs.
    #[arg(long, env = "OLM_CATALOG_URL", default_value = "http://olm-manager.olm:8080")]
    pub catalogs: String,
    /// Also answer to this Host header; may be repeated.
    #[arg(long = "allowed-host")]
    pub allowed_hosts: Vec<String>,
    /// It is reached by TLS, through an ingress in front of it.
    #[arg(long)]
    pub tls: bool,
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

/// `90s`, `5m`, `1h`, or plain seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| "expected a duration such as 90s, 5m or 1h".to_string())?;
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        other => return Err(format!("unknown unit `{other}`; use s, m or h")),
    };
    number.checked_mul(factor).map(Duration::from_secs).ok_or_else(|| "too long".to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert!(duration("5 minutes").is_err());
        assert!(duration("99999999999999999999h").is_err());
    }
}

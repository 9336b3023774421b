//! The command line.

mod author;
mod bundle;
mod catalog;
mod complete;
mod console;
#[cfg(feature = "devcluster")]
mod devcluster;
#[cfg(test)]
mod examples;
mod inspect;
mod operators;
mod own;
mod plan;
mod policy;
#[cfg(test)]
mod printed;
mod servers;
mod settings;
mod sources;

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub use author::*;
pub use bundle::*;
pub use catalog::*;
pub use console::*;
#[cfg(feature = "devcluster")]
pub use devcluster::*;
pub use inspect::*;
pub use operators::*;
pub use own::*;
pub use plan::*;
pub use policy::*;
pub use servers::*;
pub use settings::*;
pub use sources::*;

use crate::{
    bars,
    output::{Format, FormatParser},
};

/// Install, upgrade, explain and remove Kubernetes operators.
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
    /// Namespace; the namespace of the kubeconfig context when absent.
    #[arg(short, long, global = true, add = complete::namespaces())]
    pub namespace: Option<String>,
    /// Path to the kubeconfig file.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use.
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// User to impersonate.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,
    /// Group to impersonate; may be repeated.
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub impersonate_group: Vec<String>,
    /// Use of colour in output.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub color: Color,
    /// Increase verbosity (-vv for debug output).
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Use of colour in output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Colour on a terminal unless NO_COLOR is set.
    #[default]
    Auto,
    /// Colour always.
    Always,
    /// Colour never.
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
            Self::Auto => bars::on_terminal(),
        }
    }
}

/// The variable with which a shell requests completion; its value is the name of the shell.
pub const COMPLETE: &str = "OLM_COMPLETE";

/// Subcommands of `olm`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a one-machine dev cluster with the manager, the console and the shipped catalog.
    #[cfg(feature = "devcluster")]
    Up(UpArgs),
    /// Search the catalogs.
    Search(SearchArgs),
    /// Show a package or one of its versions: channels, provided and required APIs, permissions.
    Show(ShowArgs),
    /// List the versions of a package with their channels.
    #[command(after_help = inspect::VERSIONS)]
    Versions(PackageArgs),
    /// Preview a change without applying it.
    Plan(PlanCommandArgs),
    /// Explain why a version was selected or why an upgrade is blocked.
    Why(WhyArgs),
    /// Show the upgrade graph of a package and the path of an upgrade.
    Graph(PackageGraphArgs),
    /// Show the fields that an upgrade would change.
    Diff(PackageDiffArgs),
    /// Explain the code of a finding, a reason or a check.
    Explain(ExplainArgs),
    /// Install an operator.
    Install(InstallArgs),
    /// Approve the pending plan of an operator.
    Approve(ApproveArgs),
    /// Upgrade an installed operator to the next version of its channel.
    Upgrade(UpgradeArgs),
    /// Roll back to a previous version and pin it.
    Rollback(RollbackArgs),
    /// Show the revision history of an operator.
    #[command(after_help = settings::HISTORY)]
    History(NameArgs),
    /// Exclude versions from installation.
    Skip(SkipArgs),
    /// Pause an operator.
    #[command(after_help = PAUSE)]
    Pause(NameArgs),
    /// Resume an operator after `olm pause` or `olm rollback`.
    #[command(after_help = RESUME)]
    Resume(NameArgs),
    /// Unpin the version of an operator.
    #[command(after_help = UNPIN)]
    Unpin(NameArgs),
    /// Hide the available upgrade until a newer one appears.
    Snooze(SnoozeArgs),
    /// Change the channel of an operator.
    SetChannel(SetChannelArgs),
    /// List installed operators.
    List(ListArgs),
    /// Show the status of an installation: steps, conditions and blockers.
    #[command(after_help = operators::STATUS)]
    Status(NameArgs),
    /// List the custom resources that an operator manages.
    #[command(after_help = inspect::INSTANCES)]
    Instances(NameArgs),
    /// Show the logs of an operator's pods.
    Logs(LogsArgs),
    /// List the events of an operator's objects.
    Events(EventsArgs),
    /// Check whether you may perform an operation, and list the missing permissions.
    #[command(name = "can-i")]
    CanI(CanIArgs),
    /// Remove an operator.
    Uninstall(UninstallArgs),
    /// Check a cluster: manager, catalogs, plans, operators and orphaned objects.
    Doctor(DoctorArgs),
    /// Test InstallPolicies against a cluster.
    Policy(PolicyArgs),
    /// Add catalogs to a cluster; validate, build, inspect, serve and mirror catalogs.
    Catalog(CatalogCommandArgs),
    /// Validate, render and run bundles.
    Bundle(BundleCommandArgs),
    /// Create the project of an operator.
    Init(InitArgs),
    /// Create an API in the project of an operator.
    Create(CreateCommandArgs),
    /// Open the web console with your kubeconfig, on 127.0.0.1 until Ctrl-C.
    Console(ConsoleArgs),
    /// Print a one-time login link for the console of the dev cluster.
    #[cfg(feature = "devcluster")]
    Token(TokenArgs),
    /// List images, inject faults and show used permissions in the dev cluster.
    #[cfg(feature = "devcluster")]
    Dev(DevArgs),
    /// Install, upgrade, inspect and uninstall olm on a cluster; print its manifests.
    #[command(name = "self")]
    Own(SelfArgs),
    /// Print the version.
    #[command(after_help = VERSION)]
    Version(OutputArgs),
    /// Print a shell completion script, which also completes names of the cluster.
    #[command(after_help = COMPLETION)]
    Completion {
        /// Shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the man pages, one per command, and the command reference (for packagers).
    #[command(hide = true)]
    Man {
        /// Folder; created when it does not exist.
        #[arg(value_hint = clap::ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Run the manager (in its pod).
    #[command(hide = true)]
    Manager(ManagerArgs),
    /// Serve static files (a sample image for Deployments and Services).
    #[command(hide = true)]
    Staticweb(StaticwebArgs),
}

impl Command {
    /// Whether the command is a long-running server, which logs JSON lines.
    pub fn is_server(&self) -> bool {
        match self {
            Self::Manager(_) | Self::Staticweb(_) => true,
            Self::Console(args) => args.listen.is_some(),
            _ => false,
        }
    }

    pub fn log_format(&self) -> LogFormat {
        match self {
            Self::Manager(args) => args.log_format,
            _ => LogFormat::Json,
        }
    }

    /// Whether the command changes nothing on a cluster.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Catalog(args) => {
                use CatalogCommand::{Add, Refresh, Remove, SetInterval};
                !matches!(args.command, Add(_) | Refresh(_) | SetInterval(_) | Remove(_))
            }
            Self::Bundle(args) => !matches!(args.command, BundleCommand::Run(_)),
            Self::Search(_) | Self::Show(_) | Self::Plan(_) | Self::Why(_) | Self::Graph(_) => true,
            Self::Versions(_) | Self::Instances(_) | Self::Logs(_) | Self::Events(_) | Self::CanI(_) => true,
            Self::List(_) | Self::Status(_) | Self::History(_) => true,
            Self::Diff(_) | Self::Explain(_) | Self::Policy(_) | Self::Man { .. } => true,
            Self::Init(_) | Self::Create(_) => true,
            _ => false,
        }
    }

    /// Whether the command handles Ctrl-C and SIGTERM itself.
    pub fn stops_by_itself(&self) -> bool {
        #[cfg(feature = "devcluster")]
        if matches!(self, Self::Up(_)) {
            return true;
        }
        let serves = matches!(self, Self::Catalog(CatalogCommandArgs { command: CatalogCommand::Serve(_) }));
        // Ctrl-C is how following logs ends.
        let follows = matches!(self, Self::Logs(args) if args.follow);
        serves || follows || self.is_server() || matches!(self, Self::Console(_))
    }
}

const COMPLETION: &str = "\
Examples:
  source <(olm completion bash)     # in ~/.bashrc
  source <(olm completion zsh)      # in ~/.zshrc
  olm completion fish | source      # in ~/.config/fish/config.fish

Packages, channels, versions, installed operators and namespaces are completed from a cache that
other commands write; without a cluster they are omitted.";

const PAUSE: &str = "\
Examples:
  olm pause etcd -n etcd

No plan is applied until `olm resume`; the operator keeps running.";

const RESUME: &str = "\
Examples:
  olm resume etcd -n etcd";

const UNPIN: &str = "\
Examples:
  olm unpin etcd -n etcd";

const VERSION: &str = "\
Examples:
  olm version
  olm version -o json";

/// `-o` and `--no-headers`.
#[derive(Debug, Clone, ClapArgs)]
pub struct OutputArgs {
    /// Output format.
    #[arg(short, long, default_value = "table", value_parser = FormatParser)]
    pub output: Format,
    /// Omit the column headers.
    #[arg(long)]
    pub no_headers: bool,
}

/// `--wait` and `--timeout`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WaitArgs {
    /// Wait for completion and print each step.
    #[arg(long)]
    pub wait: bool,
    /// Maximum time to wait, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

/// A version or a range, kept as text like in the API.
fn version_or_range(text: &str) -> Result<String, String> {
    olm_ops::check_version(text).map(|()| text.to_owned())
}

/// A setting of an operator's Deployments.
fn config_setting(text: &str) -> Result<String, String> {
    olm_ops::parse_config(&[text]).map(|_| text.to_owned())
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
        other => return Err(format!("unknown unit `{other}`, expected s, m or h")),
    };
    number.checked_mul(factor).map(Duration::from_secs).ok_or_else(|| "the duration is too long".to_string())
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
    fn every_command_that_the_console_prints_is_one() {
        let listed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/tests/commands.txt");
        let listed = std::fs::read_to_string(listed).unwrap();
        for command in listed.lines() {
            if let Err(error) = Args::try_parse_from(examples::words(command)) {
                panic!("{command}: {error}");
            }
        }
        assert!(listed.lines().count() > 10);
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

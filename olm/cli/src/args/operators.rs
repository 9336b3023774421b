//! Arguments of the commands that find, install, upgrade and remove operators.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use olm_ops::Operands;

use super::{OutputArgs, WaitArgs, complete, duration, version_or_range};

/// `olm search`.
#[derive(Debug, ClapArgs)]
pub struct SearchArgs {
    /// Search terms; all packages when absent.
    pub text: Vec<String>,
    #[command(flatten)]
    pub source: CatalogArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Which catalogs to read.
#[derive(Debug, Clone, ClapArgs)]
pub struct CatalogArgs {
    /// Use this catalog instead of the cluster's: a folder, file, image or URL (see `olm catalog --help`).
    #[arg(long, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    pub catalog_dir: Option<String>,
    /// Only this catalog, as NAME or NAMESPACE/NAME.
    #[arg(long, value_name = "NAME")]
    pub catalog: Option<String>,
}

/// `olm show`.
#[derive(Debug, ClapArgs)]
pub struct ShowArgs {
    /// Package.
    #[arg(add = complete::packages())]
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
    #[arg(add = complete::packages())]
    pub package: String,
    /// Channel; the package's default channel when absent.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// Version or range, such as ">=0.10.0 <0.11.0"; the newest version when absent.
    #[arg(long, value_parser = version_or_range)]
    pub version: Option<String>,
    /// Catalog, as NAME or NAMESPACE/NAME.
    #[arg(long)]
    pub catalog: Option<String>,
    /// Approval of plans; automatic for a new installation, unchanged for an existing one.
    #[arg(long, value_enum)]
    pub approval: Option<Approval>,
    /// Fail when the namespace does not exist, instead of creating it.
    #[arg(long)]
    pub no_create_namespace: bool,
    /// Print the plan without applying it; the installation creates the same plan.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Approval of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approval {
    /// Apply plans without approval.
    Automatic,
    /// Require `olm approve` for each plan.
    Manual,
}

/// `olm approve`.
#[derive(Debug, ClapArgs)]
pub struct ApproveArgs {
    /// Package, Subscription or InstallPlan.
    pub name: String,
    /// Approve only the plan with this digest; refused when the plan has changed.
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
    /// Target version; the next version of the channel when absent.
    #[arg(long)]
    pub to: Option<String>,
    /// Switch to this channel first.
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
    /// List all namespaces; the default without --namespace.
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
    /// Handling of the operator's custom resources.
    #[arg(long, value_enum, default_value_t)]
    pub instances: Instances,
    /// Also delete the CustomResourceDefinitions and, with them, all their custom resources in the cluster.
    #[arg(long, visible_alias = "crds")]
    pub delete_crds: bool,
    /// Also remove dependencies that were installed for this operator and are no longer needed.
    #[arg(long)]
    pub delete_dependencies: bool,
    /// Print the plan without applying it.
    #[arg(long)]
    pub dry_run: bool,
    /// Skip the confirmation before data loss.
    #[arg(short, long)]
    pub yes: bool,
    /// Maximum time to wait, such as 90s or 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm doctor`.
#[derive(Debug, ClapArgs)]
#[command(after_help = DOCTOR)]
pub struct DoctorArgs {
    /// Remove orphaned objects; without --yes, only list them.
    #[arg(long)]
    pub fix: bool,
    /// With --fix: remove without confirmation.
    #[arg(short, long, requires = "fix")]
    pub yes: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

const DOCTOR: &str = "\
Each code has a section in docs/doctor.md.

Exit codes: 0 no errors (warnings are possible), 1 errors, 10 the cluster is not reachable.";

/// Handling of the operator's custom resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Instances {
    /// Refuse to uninstall while custom resources exist.
    #[default]
    Abort,
    /// Retain custom resources, unmanaged.
    Keep,
    /// Delete custom resources first and wait until they are gone.
    Delete,
}

impl From<Instances> for Operands {
    fn from(instances: Instances) -> Self {
        match instances {
            Instances::Abort => Self::Abort,
            Instances::Keep => Self::Keep,
            Instances::Delete => Self::Delete,
        }
    }
}

//! Finding, installing, upgrading and removing operators.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use olm_manager::ops::Operands;

use super::{OutputArgs, WaitArgs, complete, duration, version_or_range};

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
    /// Read this catalog instead of the cluster's: a folder, file, image or URL (see `olm catalog --help`).
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
    /// Channel; the package's default when absent.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// Version, or a range such as ">=0.10.0 <0.11.0"; the newest when absent.
    #[arg(long, value_parser = version_or_range)]
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
    #[arg(long, visible_alias = "crds")]
    pub delete_crds: bool,
    /// Also remove the operators that were installed for this one and that nothing else needs.
    #[arg(long)]
    pub delete_dependencies: bool,
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

/// `olm doctor`.
#[derive(Debug, ClapArgs)]
#[command(after_help = DOCTOR)]
pub struct DoctorArgs {
    /// Remove what nothing answers for any more; without --yes, only say what that is.
    #[arg(long)]
    pub fix: bool,
    /// With --fix: do it.
    #[arg(short, long, requires = "fix")]
    pub yes: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

const DOCTOR: &str = "\
Each code has a section in docs/doctor.md.

Exit codes: 0 nothing is wrong (there may be warnings), 1 something does not work, 10 the cluster does not answer.";

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

impl From<Instances> for Operands {
    fn from(instances: Instances) -> Self {
        match instances {
            Instances::Abort => Self::Abort,
            Instances::Keep => Self::Keep,
            Instances::Delete => Self::Delete,
        }
    }
}

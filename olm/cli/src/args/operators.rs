//! Arguments of the commands that find, install, upgrade and remove operators.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use olm_bundle::InstallMode;
use olm_ops::{Operands, WatchScope};

use super::{OutputArgs, WaitArgs, complete, config_setting, duration, version_or_range};
use crate::exit::{Code, Failure};

/// `olm search`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SEARCH)]
pub struct SearchArgs {
    /// Search terms; all packages when absent.
    pub text: Vec<String>,
    /// Only packages that provide this kind, such as EtcdCluster.
    #[arg(long)]
    pub kind: Option<String>,
    /// Only packages of this category, such as Database.
    #[arg(long)]
    pub category: Option<String>,
    /// Only packages with this capability level, such as "Seamless Upgrades".
    #[arg(long, value_name = "LEVEL")]
    pub capability: Option<String>,
    #[command(flatten)]
    pub source: CatalogArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const SEARCH: &str = "\
Examples:
  olm search etcd
  olm search --kind EtcdCluster
  olm search backup --category Database -o wide
  olm search --catalog-dir ./catalog -o jsonpath='{range [*]}{.package} {.version}{\"\\n\"}{end}'";

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

/// `olm versions`.
#[derive(Debug, ClapArgs)]
pub struct PackageArgs {
    /// Package.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Only this channel.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    #[command(flatten)]
    pub source: CatalogArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm show`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SHOW)]
pub struct ShowArgs {
    /// Package, or PACKAGE@VERSION for one version of it.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Only this channel.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    /// Show this version, given as version or bundle name, instead of the package.
    #[arg(long, add = complete::versions())]
    pub version: Option<String>,
    #[command(flatten)]
    pub source: CatalogArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const SHOW: &str = "\
Examples:
  olm show etcd
  olm show etcd@0.10.1
  olm show etcd --channel singlenamespace-alpha
  olm show etcd --catalog-dir ./catalog -o json";

/// `olm install`.
#[derive(Debug, ClapArgs)]
#[command(after_help = INSTALL)]
pub struct InstallArgs {
    /// Package.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Channel; the package's default channel when absent.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    /// Version or range, such as ">=0.10.0 <0.11.0"; the newest version when absent.
    #[arg(long, value_parser = version_or_range, add = complete::versions())]
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
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Setting of the operator's Deployments, such as env.LOG_LEVEL=debug; may be repeated.
    #[arg(long, value_name = "SETTING=VALUE", value_parser = config_setting)]
    pub set_config: Vec<String>,
    /// Print the plan without applying it; the installation creates the same plan.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const INSTALL: &str = "\
Examples:
  olm install etcd -n etcd --wait
  olm install etcd --version '>=0.10.0 <0.12.0' --approval manual
  olm install etcd -n operators --watch team-a
  olm install etcd --set-config env.LOG_LEVEL=debug --set-config resources.limits.memory=256Mi
  olm install etcd --dry-run -o yaml

Settings: env.NAME=VALUE, resources.requests.NAME=QUANTITY, resources.limits.NAME=QUANTITY,
nodeSelector.LABEL=VALUE and toleration=KEY[=VALUE][:EFFECT]. Variables and tolerations replace all
that an existing installation sets, the others those of the same name.";

/// The namespaces that an operator watches.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct WatchArgs {
    /// Install mode; when absent that of the OperatorGroup, else own, or all where own is not supported.
    #[arg(long, value_enum)]
    pub mode: Option<WatchMode>,
    /// Namespaces to watch, separated by commas; one selects mode single, several select mode multi.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', add = complete::namespaces())]
    pub watch: Vec<String>,
}

impl WatchArgs {
    /// The requested scope of an operator in a namespace; `None` without one.
    pub fn scope(&self, namespace: &str) -> Result<Option<WatchScope>, Failure> {
        let scope = WatchScope::requested(self.mode.map(InstallMode::from), &self.watch, namespace);
        scope.map_err(|why| {
            Failure::new(Code::Usage, format!("--watch: {why}"))
                .hint("name the namespaces with --watch NAMESPACE[,NAMESPACE], or omit --mode")
        })
    }
}

/// Install mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WatchMode {
    /// Watch the operator's namespace.
    Own,
    /// Watch one other namespace.
    Single,
    /// Watch several namespaces.
    Multi,
    /// Watch all namespaces.
    All,
}

impl From<WatchMode> for InstallMode {
    fn from(mode: WatchMode) -> Self {
        match mode {
            WatchMode::Own => Self::OwnNamespace,
            WatchMode::Single => Self::SingleNamespace,
            WatchMode::Multi => Self::MultiNamespace,
            WatchMode::All => Self::AllNamespaces,
        }
    }
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
#[command(after_help = APPROVE)]
pub struct ApproveArgs {
    /// Package, Subscription or InstallPlan.
    #[arg(add = complete::installed(), required_unless_present = "all")]
    pub name: Option<String>,
    /// Approve all pending plans that need no review; of all namespaces without --namespace.
    #[arg(long, conflicts_with_all = ["name", "digest"])]
    pub all: bool,
    /// Approve only the plan with this digest; refused when the plan has changed.
    #[arg(long)]
    pub digest: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const APPROVE: &str = "\
Examples:
  olm approve etcd -n etcd
  olm approve etcd --wait --timeout 2m
  olm approve --all

With --all, a plan that adds HIGH permissions, deletes objects, installs other operators or has
warnings is listed and not approved; exit code 9.";

/// `olm upgrade`.
#[derive(Debug, ClapArgs)]
#[command(after_help = UPGRADE)]
pub struct UpgradeArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed(), required_unless_present = "all")]
    pub name: Option<String>,
    /// Upgrade all operators whose plans need no review; of all namespaces without --namespace.
    #[arg(long, conflicts_with_all = ["name", "to", "channel"])]
    pub all: bool,
    /// Target version; the next version of the channel when absent.
    #[arg(long, add = complete::versions())]
    pub to: Option<String>,
    /// Switch to this channel first.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const UPGRADE: &str = "\
Examples:
  olm upgrade etcd -n etcd --wait
  olm upgrade etcd --to 0.11.0
  olm upgrade --all

With --all, operators with a plan that adds HIGH permissions, deletes objects, installs other
operators or has warnings are listed and not upgraded; exit code 9.";

/// `olm list`.
#[derive(Debug, ClapArgs)]
#[command(after_help = LIST)]
pub struct ListArgs {
    /// List all namespaces; the default without --namespace.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only operators with a newer version; with --unhealthy, either of both.
    #[arg(long)]
    pub outdated: bool,
    /// Only operators that failed, are degraded or cannot be updated.
    #[arg(long)]
    pub unhealthy: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

const LIST: &str = "\
Examples:
  olm list
  olm list -n team-a -o wide
  olm list --outdated --unhealthy -o name";

pub(super) const STATUS: &str = "\
Examples:
  olm status etcd
  olm status etcd -n etcd -o json";

/// `olm uninstall`.
#[derive(Debug, ClapArgs)]
#[command(after_help = UNINSTALL)]
pub struct UninstallArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
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

const UNINSTALL: &str = "\
Examples:
  olm uninstall etcd -n etcd
  olm uninstall etcd --dry-run
  olm uninstall etcd --instances delete --delete-crds --yes";

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
Examples:
  olm doctor
  olm doctor -n team-a -o json
  olm doctor --fix

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

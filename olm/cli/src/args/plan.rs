//! Arguments of the commands that preview plans and explain resolutions.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use olm_version::Version;

use super::{CatalogArgs, GraphFormat, Instances, WatchArgs, complete, config_setting, version_or_range};
use crate::output::Report;

/// What stands in for the cluster where a command reads a catalog of its own.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Catalog and cluster")]
pub struct OfflineArgs {
    #[command(flatten)]
    pub source: CatalogArgs,
    /// Kubernetes version to assume; unknown when absent.
    #[arg(long, value_name = "VERSION", requires = "catalog_dir", value_parser = kubernetes)]
    pub kube_version: Option<Version>,
    /// Installed bundle to assume, as BUNDLE or PACKAGE@VERSION; may be repeated. A bundle that left the catalog is
    /// BUNDLE, or BUNDLE@VERSION where its name does not end in its version.
    #[arg(long, value_name = "BUNDLE", requires = "catalog_dir")]
    pub installed: Vec<String>,
}

/// `1.33`, `v1.33.2`.
fn kubernetes(text: &str) -> Result<Version, String> {
    olm_version::parse_lenient(text).map_err(|_| "expected a version such as 1.33 or 1.33.2".to_owned())
}

/// `olm plan`.
#[derive(Debug, ClapArgs)]
#[command(after_help = PLAN)]
pub struct PlanCommandArgs {
    #[command(subcommand)]
    pub command: PlanCommand,
}

const PLAN: &str = "\
Examples:
  olm plan install etcd
  olm plan upgrade etcd -n etcd";

/// Subcommands of `olm plan`.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Preview an installation.
    #[command(after_help = PLAN_INSTALL)]
    Install(PlanInstallArgs),
    /// Preview an upgrade.
    #[command(after_help = PLAN_UPGRADE)]
    Upgrade(PlanChangeArgs),
    /// Preview a rollback.
    #[command(after_help = PLAN_ROLLBACK)]
    Rollback(PlanChangeArgs),
    /// Preview an uninstallation.
    #[command(after_help = PLAN_UNINSTALL)]
    Uninstall(PlanUninstallArgs),
}

const PLAN_INSTALL: &str = "\
Examples:
  olm plan install etcd -n etcd
  olm plan install etcd --set-config env.LOG_LEVEL=debug
  olm plan install etcd -n operators --watch team-a
  olm plan install etcd --catalog-dir ./catalog --kube-version 1.33
  olm plan install etcd -o json | jq .permissions

Exit codes: 0 the plan can be applied, 3 package, channel or version not found, 4 a finding
blocks the plan, 5 no version satisfies the request. With --exit-code: 0 no changes, 1 changes,
greater than 1 as above.";

const PLAN_UPGRADE: &str = "\
Examples:
  olm plan upgrade etcd -n etcd
  olm plan upgrade etcd --version 0.10.1
  olm plan upgrade etcd --catalog-dir ./catalog --installed etcdoperator.v0.9.2

Exit codes: as `olm plan install`.";

const PLAN_ROLLBACK: &str = "\
Examples:
  olm plan rollback etcd -n etcd
  olm plan rollback etcd --version 0.10.0

The default of --version is that of `olm rollback`; without a cluster it is the version that the
installed version replaces. Exit codes: as `olm plan install`.";

const PLAN_UNINSTALL: &str = "\
Examples:
  olm plan uninstall etcd -n etcd
  olm plan uninstall etcd --instances delete --delete-crds

Exit codes: as `olm plan install`.";

/// `olm plan install`.
#[derive(Debug, ClapArgs)]
pub struct PlanInstallArgs {
    /// Setting of the operator's Deployments, such as env.LOG_LEVEL=debug; may be repeated.
    #[arg(long, value_name = "SETTING=VALUE", value_parser = config_setting)]
    pub set_config: Vec<String>,
    #[command(flatten)]
    pub watch: WatchArgs,
    // Last: its headings would apply to what follows.
    #[command(flatten)]
    pub change: PlanChangeArgs,
}

/// `olm plan upgrade`, `rollback`, and the flags that `olm plan install` shares with them.
#[derive(Debug, ClapArgs)]
pub struct PlanChangeArgs {
    /// Package, or Subscription of an installed operator.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Channel; the Subscription's channel or the package's default channel when absent.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    /// Version or range, such as ">=0.10.0 <0.11.0".
    #[arg(long, visible_alias = "to", value_parser = version_or_range, add = complete::versions())]
    pub version: Option<String>,
    #[command(flatten)]
    pub out: PlanOutputArgs,
    #[command(flatten)]
    pub offline: OfflineArgs,
}

/// `olm plan uninstall`.
#[derive(Debug, ClapArgs)]
pub struct PlanUninstallArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Handling of the operator's custom resources.
    #[arg(long, value_enum, default_value_t)]
    pub instances: Instances,
    /// Also delete the CustomResourceDefinitions and, with them, all their custom resources in the cluster.
    #[arg(long, visible_alias = "crds")]
    pub delete_crds: bool,
    /// Also remove dependencies that were installed for this operator and are no longer needed.
    #[arg(long)]
    pub delete_dependencies: bool,
    #[command(flatten)]
    pub out: PlanOutputArgs,
    #[command(flatten)]
    pub offline: OfflineArgs,
}

/// How a plan is printed, and how the command ends.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlanOutputArgs {
    /// Output format; json and yaml print the plan object that the console uses.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    /// Exit with code 1 when the plan has changes.
    #[arg(long)]
    pub exit_code: bool,
}

/// `olm why`.
#[derive(Debug, ClapArgs)]
#[command(after_help = WHY)]
pub struct WhyArgs {
    /// Package, or Subscription of an installed operator.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Channel; the Subscription's channel or the package's default channel when absent.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    /// Version or range to explain; the Subscription's when absent.
    #[arg(long, value_parser = version_or_range, add = complete::versions())]
    pub version: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    #[command(flatten)]
    pub offline: OfflineArgs,
}

const WHY: &str = "\
Examples:
  olm why etcd
  olm why etcd --version 0.11.0
  olm why etcd --catalog-dir ./catalog --installed etcdoperator.v0.9.2

Exit codes: 0 a version was selected, 3 package, channel or version not found, 5 no version
satisfies the request (the reasons are printed).";

/// `olm graph`.
#[derive(Debug, ClapArgs)]
#[command(after_help = PACKAGE_GRAPH)]
pub struct PackageGraphArgs {
    /// Package, or Subscription of an installed operator.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Only this channel.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    /// Start version of the upgrade path; the installed version when absent.
    #[arg(long, value_name = "VERSION", add = complete::versions())]
    pub from: Option<String>,
    /// Target version of the upgrade path; the newest reachable version when absent.
    #[arg(long, value_name = "VERSION", add = complete::versions())]
    pub to: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: GraphFormat,
    #[command(flatten)]
    pub offline: OfflineArgs,
}

const PACKAGE_GRAPH: &str = "\
Examples:
  olm graph etcd
  olm graph etcd --from 0.9.0 --to 0.9.4
  olm graph etcd --catalog-dir ./catalog -o svg > etcd.svg

Exit codes: 0 done, 3 package, channel or version not found, 5 no upgrade path between the two
versions.";

/// Base of the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// Live objects of the cluster, including changes by other clients.
    #[default]
    Live,
    /// Objects as the installed version rendered them.
    Installed,
}

/// `olm diff`.
#[derive(Debug, ClapArgs)]
#[command(after_help = PACKAGE_DIFF)]
pub struct PackageDiffArgs {
    /// Package, or Subscription of an installed operator.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Version to compare with; the next upgrade when absent.
    #[arg(long, value_name = "VERSION", add = complete::versions())]
    pub to: Option<String>,
    /// Installed version; without a cluster, --installed is equivalent.
    #[arg(long, value_name = "VERSION", requires = "catalog_dir", conflicts_with = "installed")]
    pub from: Option<String>,
    /// Channel; the Subscription's channel or the package's default channel when absent.
    #[arg(short, long, add = complete::channels())]
    pub channel: Option<String>,
    /// Base of the comparison.
    #[arg(long, value_enum, default_value_t, conflicts_with = "catalog_dir")]
    pub against: Against,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    #[command(flatten)]
    pub offline: OfflineArgs,
}

const PACKAGE_DIFF: &str = "\
Examples:
  olm diff etcd
  olm diff etcd --to 0.10.1 --against installed
  olm diff etcd --from 0.9.2 --to 0.9.4 --catalog-dir ./catalog

Exit codes, as of kubectl diff: 0 no differences, 1 differences, greater than 1 an error.";

/// `olm explain`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXPLAIN)]
pub struct ExplainArgs {
    /// Code of a finding, a reason or a check; all codes are listed when absent.
    #[arg(add = complete::codes())]
    pub code: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
}

const EXPLAIN: &str = "\
Examples:
  olm explain CrdOwnedByOther
  olm explain NoUpgradeEdge
  olm explain channel-several-heads
  olm explain

The command works without a cluster or network.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_version_of_kubernetes_is_one() {
        assert_eq!(kubernetes("1.33"), Ok(Version::new(1, 33, 0)));
        assert_eq!(kubernetes("v1.33.2"), Ok(Version::new(1, 33, 2)));
        assert!(kubernetes("latest").is_err());
    }
}

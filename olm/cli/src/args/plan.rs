//! Plans and reasons: what a change would do, and why a version is chosen or not.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use olm_version::Version;

use super::{CatalogArgs, Drawing, Instances, complete, version_or_range};
use crate::output::Report;

/// What stands in for the cluster where a command reads a catalog of its own.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Catalog and cluster")]
pub struct OfflineArgs {
    #[command(flatten)]
    pub source: CatalogArgs,
    /// Suppose this version of Kubernetes; unknown when absent.
    #[arg(long, value_name = "VERSION", requires = "catalog_dir", value_parser = kubernetes)]
    pub kube_version: Option<Version>,
    /// Suppose that this is installed, as BUNDLE or PACKAGE@VERSION; may be repeated. A bundle that left the catalog is
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
pub struct PlanCommandArgs {
    #[command(subcommand)]
    pub command: PlanCommand,
}

/// Which change to plan.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// What an installation would do.
    #[command(after_help = PLAN_INSTALL)]
    Install(PlanChangeArgs),
    /// What an upgrade would do.
    #[command(after_help = PLAN_UPGRADE)]
    Upgrade(PlanChangeArgs),
    /// What going back to an older version would do.
    #[command(after_help = PLAN_ROLLBACK)]
    Rollback(PlanChangeArgs),
    /// What removing an operator would do.
    #[command(after_help = PLAN_UNINSTALL)]
    Uninstall(PlanUninstallArgs),
}

const PLAN_INSTALL: &str = "\
Examples:
  olm plan install etcd -n etcd
  olm plan install etcd --catalog-dir ./catalog --kube-version 1.33
  olm plan install etcd -o json | jq .permissions

Exit codes: 0 it can be done, 3 no such package, channel or version, 4 a finding blocks it, 5 no version satisfies
the request. With --exit-code: 0 nothing would change, 1 something would, more than 1 as above.";

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

Without --version it is the version that the installed one replaces. Exit codes: as `olm plan install`.";

const PLAN_UNINSTALL: &str = "\
Examples:
  olm plan uninstall etcd -n etcd
  olm plan uninstall etcd --instances delete --delete-crds

Exit codes: as `olm plan install`.";

/// `olm plan install`, `upgrade`, `rollback`.
#[derive(Debug, ClapArgs)]
pub struct PlanChangeArgs {
    /// Package; of an installed operator also its Subscription.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Channel; the one that is followed, or the package's default, when absent.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// Version, or a range such as ">=0.10.0 <0.11.0".
    #[arg(long, visible_alias = "to", value_parser = version_or_range)]
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
    /// What becomes of the operator's instances.
    #[arg(long, value_enum, default_value_t)]
    pub instances: Instances,
    /// Also delete the CustomResourceDefinitions, and with them every instance in the cluster.
    #[arg(long, visible_alias = "crds")]
    pub delete_crds: bool,
    /// Also remove the operators that were installed for this one and that nothing else needs.
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
    /// Output format; json and yaml are the plan itself, as the console has it.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
    /// End with 1 when something would change.
    #[arg(long)]
    pub exit_code: bool,
}

/// `olm why`.
#[derive(Debug, ClapArgs)]
#[command(after_help = WHY)]
pub struct WhyArgs {
    /// Package; of an installed operator also its Subscription.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Channel; the one that is followed, or the package's default, when absent.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// Version or range to ask about; the Subscription's own when absent.
    #[arg(long, value_parser = version_or_range)]
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

Exit codes: 0 there is an answer, 3 no such package, channel or version, 5 no version satisfies the request
(the reasons are the answer).";

/// `olm graph`.
#[derive(Debug, ClapArgs)]
#[command(after_help = PACKAGE_GRAPH)]
pub struct PackageGraphArgs {
    /// Package; of an installed operator also its Subscription.
    #[arg(add = complete::packages())]
    pub package: String,
    /// Only this channel.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// The version that the way begins at; the installed one when absent.
    #[arg(long, value_name = "VERSION")]
    pub from: Option<String>,
    /// The version that the way leads to; the newest that can be reached when absent.
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Drawing,
    #[command(flatten)]
    pub offline: OfflineArgs,
}

const PACKAGE_GRAPH: &str = "\
Examples:
  olm graph etcd
  olm graph etcd --from 0.9.0 --to 0.9.4
  olm graph etcd --catalog-dir ./catalog -o dot | dot -Tsvg > etcd.svg

Exit codes: 0 drawn, 3 no such package, channel or version, 5 no way leads from the one version to the other.";

/// What new fields are compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// The objects as they are on the cluster, with what others changed in them.
    #[default]
    Live,
    /// The objects as the installed version made them.
    Installed,
}

/// `olm diff`.
#[derive(Debug, ClapArgs)]
#[command(after_help = PACKAGE_DIFF)]
pub struct PackageDiffArgs {
    /// Package; of an installed operator also its Subscription.
    #[arg(add = complete::packages())]
    pub package: String,
    /// The version to compare with; the next upgrade when absent.
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// The version that is there; without a cluster also: --installed.
    #[arg(long, value_name = "VERSION", requires = "catalog_dir", conflicts_with = "installed")]
    pub from: Option<String>,
    /// Channel; the one that is followed, or the package's default, when absent.
    #[arg(short, long)]
    pub channel: Option<String>,
    /// What new fields are compared with.
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

Exit codes, as kubectl diff has them: 0 no difference, 1 a difference, more when it could not be found out.";

/// `olm explain`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXPLAIN)]
pub struct ExplainArgs {
    /// A code that a plan, a reason or a check printed; all codes are listed when absent.
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

It needs neither a cluster nor a network.";

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

//! Arguments of the commands that show versions, custom resources, logs, events and rights.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use olm_ops::Operation;

use super::{OutputArgs, complete, duration};

pub(super) const VERSIONS: &str = "\
Examples:
  olm versions etcd
  olm versions etcd --channel singlenamespace-alpha -o wide
  olm versions etcd --catalog-dir ./catalog -o name";

pub(super) const INSTANCES: &str = "\
Examples:
  olm instances etcd
  olm instances etcd -n etcd -o wide

Kinds and namespaces that you may not list are reported on standard error; exit code 7 when
nothing could be listed.";

/// `olm logs`.
#[derive(Debug, ClapArgs)]
#[command(after_help = LOGS)]
pub struct LogsArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
    pub name: String,
    /// Follow the logs until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
    /// Number of last lines of each container; all lines when absent.
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// Only lines newer than this, such as 90s or 5m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub since: Option<Duration>,
    /// Only this container.
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Logs of the previous run of a restarted container.
    #[arg(short, long, conflicts_with = "follow")]
    pub previous: bool,
    /// Begin each line with its time.
    #[arg(long)]
    pub timestamps: bool,
}

const LOGS: &str = "\
Examples:
  olm logs etcd
  olm logs etcd -n etcd --follow --tail 20
  olm logs etcd --previous

The logs are those of the operator's own pods. With several containers, each line begins with
[POD/CONTAINER].";

/// `olm events`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EVENTS)]
pub struct EventsArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
    pub name: String,
    /// Only warnings.
    #[arg(long)]
    pub warnings: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

const EVENTS: &str = "\
Examples:
  olm events etcd
  olm events etcd -n etcd --warnings

The events are those of the Subscription, its plans, the version, and the operator's Deployments
and pods.";

/// `olm can-i`.
#[derive(Debug, ClapArgs)]
#[command(after_help = CAN_I)]
pub struct CanIArgs {
    /// Operation.
    #[arg(value_enum)]
    pub operation: CanI,
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

const CAN_I: &str = "\
Examples:
  olm can-i install etcd -n team-a
  olm can-i approve etcd -n team-a
  olm can-i uninstall etcd --as ada

Exit codes: 0 yes, 7 no (the missing permissions are listed), 8 yes, but the plan would wait for
an approver with more permissions.";

/// An operation that rights are checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CanI {
    /// Install the package.
    Install,
    /// Upgrade, which approves the pending plan.
    Upgrade,
    /// Approve the pending plan.
    Approve,
    /// Roll back to a previous version.
    Rollback,
    /// Pause, resume, skip versions or change the channel.
    Configure,
    /// Remove the operator.
    Uninstall,
}

impl From<CanI> for Operation {
    fn from(operation: CanI) -> Self {
        match operation {
            CanI::Install => Self::Install,
            CanI::Upgrade | CanI::Approve => Self::Approve,
            CanI::Rollback | CanI::Configure => Self::Configure,
            CanI::Uninstall => Self::Uninstall,
        }
    }
}

//! Arguments of the commands that change update settings or roll back.

use clap::Args as ClapArgs;

use super::{OutputArgs, WaitArgs, complete};

/// `olm skip`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SKIP)]
pub struct SkipArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
    pub name: String,
    /// Versions to exclude; the available upgrade when absent.
    #[arg(add = complete::versions())]
    pub versions: Vec<String>,
    /// Allow the versions again.
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

const SKIP: &str = "\
Examples:
  olm skip etcd
  olm skip etcd 0.11.1 0.11.2
  olm skip etcd 0.11.1 --undo";

/// Commands on one installed operator without further options.
#[derive(Debug, ClapArgs)]
pub struct NameArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
    pub name: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm snooze`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SNOOZE)]
pub struct SnoozeArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
    pub name: String,
    /// Show upgrades again.
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

const SNOOZE: &str = "\
Examples:
  olm snooze etcd
  olm snooze etcd --undo";

/// `olm set-channel`.
#[derive(Debug, ClapArgs)]
#[command(after_help = SET_CHANNEL)]
pub struct SetChannelArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
    pub name: String,
    /// New channel.
    #[arg(add = complete::channels())]
    pub channel: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

const SET_CHANNEL: &str = "\
Examples:
  olm set-channel etcd clusterwide-alpha -n etcd";

/// `olm rollback`.
#[derive(Debug, ClapArgs)]
#[command(after_help = ROLLBACK)]
pub struct RollbackArgs {
    /// Package or Subscription.
    #[arg(add = complete::installed())]
    pub name: String,
    /// Target version; the previous version when absent.
    #[arg(long, add = complete::versions())]
    pub to: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const ROLLBACK: &str = "\
Examples:
  olm rollback etcd -n etcd --wait
  olm rollback etcd --to 0.10.1

The command changes the Subscription: it pins the version, allows a change against the catalog's
upgrade edges, and pauses the operator at that version. Where plans require approval, it approves
the plan of the rollback. A rollback that loses data is refused; `olm plan rollback` previews it.
To resume upgrades: olm unpin NAME; olm resume NAME";

pub(super) const HISTORY: &str = "\
Examples:
  olm history etcd
  olm history etcd -n etcd -o wide";

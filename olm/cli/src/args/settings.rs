//! Arguments of the commands that change update settings or roll back.

use clap::Args as ClapArgs;

use super::{OutputArgs, WaitArgs, complete};

/// `olm skip`.
#[derive(Debug, ClapArgs)]
pub struct SkipArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    /// Versions to exclude; the available upgrade when absent.
    pub versions: Vec<String>,
    /// Allow the versions again.
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm pause`, `olm resume`, `olm unpin`.
#[derive(Debug, ClapArgs)]
pub struct NameArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm snooze`.
#[derive(Debug, ClapArgs)]
pub struct SnoozeArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    /// Show upgrades again.
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm set-channel`.
#[derive(Debug, ClapArgs)]
pub struct SetChannelArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    /// New channel.
    pub channel: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm rollback`.
#[derive(Debug, ClapArgs)]
#[command(after_help = ROLLBACK)]
pub struct RollbackArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    /// Target version; the previous version when absent.
    #[arg(long)]
    pub to: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const ROLLBACK: &str = "\
The command changes the Subscription: it pins the version, allows a change against the catalog's upgrade edges, and
pauses the operator at that version. Where plans require approval, it approves the plan of the rollback. A rollback
that loses data is refused; `olm plan rollback` previews it.
To resume upgrades: olm unpin NAME; olm resume NAME";

/// `olm history`.
#[derive(Debug, ClapArgs)]
pub struct HistoryArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

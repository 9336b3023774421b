//! What a user says about upgrades, and the way back.

use clap::Args as ClapArgs;

use super::{OutputArgs, WaitArgs, complete};

/// `olm skip`.
#[derive(Debug, ClapArgs)]
pub struct SkipArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    /// Versions never to install; the one that is offered when absent.
    pub versions: Vec<String>,
    /// Allow them again.
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
    /// Offer upgrades again.
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
    /// The channel to follow from now on.
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
    /// Version to go back to; what ran before when absent.
    #[arg(long)]
    pub to: Option<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

const ROLLBACK: &str = "\
It writes to the Subscription: the version as a pin, leave to go against the catalog's edges, and a pause that holds
from that version on. What would lose data is refused; `olm plan rollback` shows the plan beforehand.
To go on later: olm unpin NAME; olm resume NAME";

/// `olm history`.
#[derive(Debug, ClapArgs)]
pub struct HistoryArgs {
    /// Package or Subscription.
    #[arg(add = complete::packages())]
    pub name: String,
    #[command(flatten)]
    pub out: OutputArgs,
}

//! `olm skip`, `pause`, `resume`, `unpin`, `snooze` and `set-channel`: each changes one field of the Subscription.

use olm_ops::SettingChange;

use super::catalogs;
use crate::{
    args::{Global, NameArgs, OutputArgs, SetChannelArgs, SkipArgs, SnoozeArgs},
    context,
    exit::Failure,
    output::print_one,
};

pub async fn skip(global: &Global, args: SkipArgs) -> Result<(), Failure> {
    let change =
        if args.undo { SettingChange::Unskip(args.versions) } else { SettingChange::Skip(args.versions) };
    set(global, &args.name, &change, &args.out).await
}

pub async fn pause(global: &Global, args: NameArgs, paused: bool) -> Result<(), Failure> {
    let change = if paused { SettingChange::Pause } else { SettingChange::Resume };
    set(global, &args.name, &change, &args.out).await
}

pub async fn unpin(global: &Global, args: NameArgs) -> Result<(), Failure> {
    set(global, &args.name, &SettingChange::Unpin, &args.out).await
}

pub async fn snooze(global: &Global, args: SnoozeArgs) -> Result<(), Failure> {
    let change = if args.undo { SettingChange::Unsnooze } else { SettingChange::Snooze };
    set(global, &args.name, &change, &args.out).await
}

pub async fn set_channel(global: &Global, args: SetChannelArgs) -> Result<(), Failure> {
    set(global, &args.name, &SettingChange::Channel(args.channel), &args.out).await
}

async fn set(global: &Global, name: &str, change: &SettingChange, out: &OutputArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    // Only these changes need the versions and channels of the catalogs.
    let catalogs = match change {
        SettingChange::Snooze | SettingChange::Channel(_) => catalogs::fetch(client.clone()).await?,
        _ => Vec::new(),
    };
    let setting = olm_ops::set(&client, &catalogs, global.namespace.as_deref(), name, change).await?;
    print_one(&setting, &out.output, &setting.subscription, || {
        let already = if setting.changed { "" } else { " (unchanged)" };
        format!("{}{already}", setting.text)
    })
}

//! `olm skip`, `pause`, `resume`, `unpin`, `snooze` and `set-channel`: each writes one wish to the Subscription.

use olm_manager::{
    catalogs::Fetcher,
    ops::{self, Setting},
};

use super::wait;
use crate::{
    args::{Global, NameArgs, OutputArgs, SetChannelArgs, SkipArgs, SnoozeArgs},
    context,
    exit::{Code, Failure},
    output::print_one,
};

pub async fn skip(global: &Global, args: SkipArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = global.namespace.as_deref();
    let said = ops::skip(&client, namespace, &args.name, &args.versions, !args.undo).await;
    tell(said, &args.out)
}

pub async fn pause(global: &Global, args: NameArgs, paused: bool) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    tell(ops::pause(&client, global.namespace.as_deref(), &args.name, paused).await, &args.out)
}

pub async fn unpin(global: &Global, args: NameArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    tell(ops::unpin(&client, global.namespace.as_deref(), &args.name).await, &args.out)
}

pub async fn snooze(global: &Global, args: SnoozeArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    // Only what is newest now has to be looked up.
    let catalogs = match args.undo {
        true => Vec::new(),
        false => Fetcher::service_proxy(client.clone()).fetch().await.map_err(|e| {
            Failure::new(Code::Unexpected, e.to_string()).hint("is the manager running? olm self status")
        })?,
    };
    let namespace = global.namespace.as_deref();
    tell(ops::snooze(&client, &catalogs, namespace, &args.name, !args.undo).await, &args.out)
}

pub async fn set_channel(global: &Global, args: SetChannelArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let before = ops::set_channel(&client, global.namespace.as_deref(), &args.name, &args.channel)
        .await
        .map_err(wait::failure)?;
    let setting = Setting {
        changed: before.channel.as_deref() != Some(&args.channel),
        text: format!("{} follows channel {}", before.package, args.channel),
        namespace: before.namespace,
        subscription: before.name,
        package: before.package,
    };
    tell(Ok(setting), &args.out)
}

fn tell(said: Result<Setting, ops::Error>, out: &OutputArgs) -> Result<(), Failure> {
    let said = said.map_err(wait::failure)?;
    print_one(&said, out.output, &said.subscription, || {
        let already = if said.changed { "" } else { " (as before)" };
        format!("{}{already}", said.text)
    })
}

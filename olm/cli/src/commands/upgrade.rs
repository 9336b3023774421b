//! `olm upgrade`.

use olm_ops::{SettingChange, Upgraded};

use super::{bulk, catalogs, wait};
use crate::{
    args::{Global, UpgradeArgs},
    context,
    exit::Failure,
    output::print_one,
};

pub async fn run(global: &Global, args: UpgradeArgs) -> Result<(), Failure> {
    // Without a name, clap requires --all.
    let Some(name) = &args.name else { return bulk::run(global, true, &args.wait, &args.out).await };
    let client = context::connect(global).await?;
    let namespace = global.namespace.as_deref();
    if let Some(channel) = &args.channel {
        let change = SettingChange::Channel(channel.clone());
        let catalogs = catalogs::fetch(client.clone()).await?;
        let setting = olm_ops::set(&client, &catalogs, namespace, name, &change).await?;
        eprintln!("{}", setting.text);
    }
    let upgraded = olm_ops::upgrade(&client, namespace, name, args.to.as_deref()).await?;
    let csv = match &upgraded {
        Upgraded::Approved(approved) => Some(approved.csv.clone()),
        Upgraded::InProgress { csv, .. } => Some(csv.clone()),
        Upgraded::Latest { .. } | Upgraded::Held { .. } => None,
    };
    if args.wait.wait && csv.is_some() {
        let installed = olm_ops::find_installed(&client, namespace, name).await?;
        wait::installed(&client, &installed.namespace, &installed.name, csv, args.wait.timeout).await?;
    }
    print_one(&upgraded, &args.out.output, name, || match &upgraded {
        Upgraded::Approved(approved) => format!("plan {} approved: {}", approved.plan, approved.summary),
        Upgraded::InProgress { plan, csv } => format!("plan {plan} is being applied: {csv}"),
        Upgraded::Latest { version } => {
            format!("{name} {version} is the newest version of its channel")
        }
        Upgraded::Held { version, reason, fix } => {
            format!("{name} {version} is not upgraded: {reason}; {fix}")
        }
    })
}

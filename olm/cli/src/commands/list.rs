//! `olm list`.

use super::wait;
use crate::{
    args::{Global, ListArgs},
    context,
    exit::Failure,
    output::Listing,
};

pub async fn run(global: &Global, args: ListArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = if args.all_namespaces { None } else { global.namespace.as_deref() };
    let items = olm_ops::list_installed(&client, namespace).await.map_err(wait::failure)?;
    Listing {
        header: &["NAMESPACE", "NAME", "PACKAGE", "STATUS", "VERSION", "NEXT", "CHANNEL", "REASON"],
        items: &items,
        row: |i| {
            vec![
                i.namespace.clone(),
                i.name.clone(),
                i.package.clone(),
                i.status.to_string(),
                i.version.clone().unwrap_or_default(),
                i.next.clone().unwrap_or_default(),
                i.channel.clone().unwrap_or_default(),
                i.reason.clone(),
            ]
        },
        name: |i| i.name.clone(),
        empty: "No operators installed.",
    }
    .print(args.out.output, !args.out.no_headers)
}

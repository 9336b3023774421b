//! `olm list`.

use crate::{
    args::{Global, ListArgs},
    context,
    exit::Failure,
    output::Listing,
};

pub async fn run(global: &Global, args: ListArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = if args.all_namespaces { None } else { global.namespace.as_deref() };
    let items = olm_ops::list_installed(&client, namespace).await?;
    Listing {
        items: &items,
        columns: &[
            ("NAMESPACE", |i| i.namespace.clone()),
            ("NAME", |i| i.name.clone()),
            ("PACKAGE", |i| i.package.clone()),
            ("STATUS", |i| i.status.to_string()),
            ("VERSION", |i| i.version.clone().unwrap_or_default()),
            ("NEXT", |i| i.next.clone().unwrap_or_default()),
            ("CHANNEL", |i| i.channel.clone().unwrap_or_default()),
            ("REASON", |i| i.reason.clone()),
        ],
        name: |i| i.name.clone(),
        empty: "No operators installed.",
    }
    .print(args.out.output, !args.out.no_headers)
}

//! `olm instances`.

use super::installed;
use crate::{
    args::{Global, NameArgs},
    exit::{Code, Failure},
    output::{Listing, age_of},
};

pub async fn run(global: &Global, args: NameArgs) -> Result<(), Failure> {
    let (client, operator) = installed::find(global, &args.name).await?;
    let found = olm_ops::readable_instances(&client, &operator.namespace, &operator.name).await?;
    if found.instances.is_empty() && !found.not_listed.is_empty() {
        let message = format!("missing permission: {}", found.not_listed.join("; "));
        return Err(installed::whom_to_ask(
            &client,
            &operator.namespace,
            Failure::new(Code::Forbidden, message),
        )
        .await);
    }
    for what in &found.not_listed {
        eprintln!("warning: incomplete, missing permission: {what}");
    }
    Listing {
        items: &found.instances,
        columns: &[
            ("NAMESPACE", |i| i.namespace.clone().unwrap_or_default()),
            ("KIND", |i| i.kind.clone()),
            ("NAME", |i| i.name.clone()),
            ("STATE", |i| i.state.clone()),
            ("AGE", |i| i.created.as_deref().map(age_of).unwrap_or_default()),
        ],
        wide: &[("API VERSION", |i| i.api_version.clone())],
        name: |i| format!("{}/{}", i.plural, i.name),
        empty: "No custom resources found.",
    }
    .print(&args.out)
}

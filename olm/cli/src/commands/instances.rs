//! `olm instances`.

use olm_ops::Instance;

use super::installed;
use crate::{
    args::{Global, NameArgs},
    exit::{Code, Failure},
    output::{Listing, age},
};

pub async fn run(global: &Global, args: NameArgs) -> Result<(), Failure> {
    let (client, operator) = installed::find(global, &args.name).await?;
    let mut also = vec![operator.namespace.clone()];
    also.extend(operator.watches.iter().filter(|namespace| !namespace.is_empty()).cloned());
    also.sort();
    also.dedup();
    let found = olm_ops::readable_instances(&client, &operator.namespace, &operator.name, &also).await?;
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
            ("AGE", created),
        ],
        wide: &[("API VERSION", |i| i.api_version.clone())],
        name: |i| format!("{}/{}", i.plural, i.name),
        empty: "No custom resources found.",
    }
    .print(&args.out)
}

fn created(instance: &Instance) -> String {
    let created = instance.created.as_deref().and_then(|created| created.parse().ok());
    created.map(|created| age(created, jiff::Timestamp::now())).unwrap_or_default()
}

//! `olm catalog remove`: deletes a CatalogSource.

use std::fmt::Write as _;

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Preconditions},
};
use olm_api::{CatalogSource, Subscription};
use olm_engine::site::manager_namespace;
use olm_ops::manifests::PART_OF;
use serde::Serialize;

use crate::{
    args::{CatalogRemoveArgs, Global},
    commands::{catalogs, confirm::confirm},
    context,
    exit::{Code, Failure},
    output::{count, print_one},
};

/// A removed CatalogSource.
#[derive(Debug, Serialize)]
struct Removed {
    namespace: String,
    name: String,
    /// Subscriptions that name it, as NAMESPACE/NAME; absent when they could not be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    subscriptions: Option<Vec<String>>,
}

pub async fn run(global: &Global, args: CatalogRemoveArgs) -> Result<(), Failure> {
    let (namespace, name) = match args.name.split_once('/') {
        Some(both) => both,
        None => (global.namespace.as_deref().unwrap_or(manager_namespace()), args.name.as_str()),
    };
    let client = context::connect(global).await?;
    let api = Api::<CatalogSource>::namespaced(client.clone(), namespace);
    let source = match api.get_opt(name).await {
        Ok(Some(source)) => source,
        Ok(None) => return Err(absent(&client, &api, namespace, name).await),
        Err(error) => return Err(catalogs::failed(&client, error).await),
    };
    let removed = Removed {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subscriptions: users(&client, namespace, name).await?,
    };
    if !args.yes && removed.subscriptions.as_ref().is_none_or(|users| !users.is_empty()) {
        // The operators would get no upgrades any more, so the user has to type the name.
        eprint!("{}", warning(&removed));
        confirm(name, "remove the catalog", &format!("CatalogSource {namespace}/{name} may be in use"))?;
    }
    // Only the examined object is deleted, not a new one with its name.
    let preconditions = Some(Preconditions { uid: source.uid(), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    api.delete(name, &params).await?;
    if source.labels().get(PART_OF.0).is_some_and(|part_of| part_of == PART_OF.1) {
        eprintln!(
            "warning: the catalog is part of the installation of olm; `olm self upgrade` creates it again"
        );
    }
    print_one(&removed, &args.out.output, name, || format!("removed CatalogSource {namespace}/{name}"))
}

/// The failure of a missing CatalogSource, with similar names.
pub(super) async fn absent(
    client: &Client,
    api: &Api<CatalogSource>,
    namespace: &str,
    name: &str,
) -> Failure {
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        // The kind does not exist either.
        Err(error) => return catalogs::failed(client, error).await,
    };
    let names: Vec<String> = list.items.iter().map(|source| source.name_any()).collect();
    let failure = Failure::new(Code::NotFound, format!("CatalogSource {namespace}/{name} not found"));
    match olm_version::suggest(name, &names, 3) {
        nearest if nearest.is_empty() => failure.hint("`olm catalog sources` lists the catalogs"),
        nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
    }
}

/// The Subscriptions that use the catalog; `None` without the right to list them. A catalog in another namespace
/// than the manager's is visible only from that namespace.
async fn users(client: &Client, namespace: &str, name: &str) -> Result<Option<Vec<String>>, Failure> {
    let api: Api<Subscription> = if namespace == manager_namespace() {
        Api::all(client.clone())
    } else {
        Api::namespaced(client.clone(), namespace)
    };
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(kube::Error::Api(status)) if status.is_forbidden() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let users = list.items.iter().filter(|subscription| {
        subscription.spec.source == name && subscription.spec.source_namespace == namespace
    });
    let users = users.map(|user| format!("{}/{}", user.namespace().unwrap_or_default(), user.name_any()));
    Ok(Some(users.collect()))
}

fn warning(removed: &Removed) -> String {
    let Some(users) = &removed.subscriptions else {
        return "warning: no permission to list the Subscriptions that may use the catalog\n".to_owned();
    };
    let mut out = format!(
        "warning: the catalog is used by {}; installed operators are retained and get no upgrades:\n",
        count(users.len(), "Subscription")
    );
    for user in users {
        let _ = writeln!(out, "  {user}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subscriptions_of_a_catalog_are_listed_before_its_removal() {
        let removed = |subscriptions: Option<&[&str]>| Removed {
            namespace: "olm".into(),
            name: "acme".into(),
            subscriptions: subscriptions.map(|all| all.iter().map(|name| (*name).to_owned()).collect()),
        };
        assert_eq!(
            warning(&removed(Some(&["a/etcd", "b/etcd"]))),
            "warning: the catalog is used by 2 Subscriptions; installed operators are retained and get no \
                upgrades:\n  a/etcd\n  b/etcd\n"
        );
        assert!(warning(&removed(None)).contains("no permission"));
    }
}

//! `olm catalog remove`: deletes a CatalogSource.

use std::fmt::Write as _;

use kube::{Api, Client, ResourceExt as _, api::ListParams};
use olm_api::CatalogSource;
use olm_engine::site::manager_namespace;
use olm_ops::catalogs::ClusterCatalog;
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
    let client = context::connect(global).await?;
    let source = named(global, &client, &args.name).await?;
    let (namespace, name) = (&source.namespace().unwrap_or_default(), &source.name_any());
    let removed = Removed {
        namespace: namespace.clone(),
        name: name.clone(),
        subscriptions: match olm_ops::catalogs::subscriptions_of(&client, namespace, name).await {
            Ok(subscriptions) => subscriptions,
            Err(error) => return Err(catalogs::not_done(&client, error).await),
        },
    };
    if !args.yes && removed.subscriptions.as_ref().is_none_or(|users| !users.is_empty()) {
        // The operators would get no upgrades any more, so the user has to type the name.
        eprint!("{}", warning(&removed));
        confirm(name, "remove the catalog", &format!("CatalogSource {namespace}/{name} may be in use"))?;
    }
    if let Err(error) = olm_ops::catalogs::remove(&client, &source).await {
        return Err(catalogs::not_done(&client, error).await);
    }
    if ClusterCatalog::of(&source).part_of_olm {
        eprintln!(
            "warning: the catalog is part of the installation of olm; `olm self upgrade` creates it again"
        );
    }
    print_one(&removed, &args.out.output, name, || format!("removed CatalogSource {namespace}/{name}"))
}

/// The CatalogSource of an argument, `NAME` or `NAMESPACE/NAME`.
pub(super) async fn named(global: &Global, client: &Client, wanted: &str) -> Result<CatalogSource, Failure> {
    let home = global.namespace.as_deref().unwrap_or(manager_namespace());
    let (namespace, name) = wanted.split_once('/').unwrap_or((home, wanted));
    let api = Api::<CatalogSource>::namespaced(client.clone(), namespace);
    match api.get_opt(name).await {
        Ok(Some(source)) => Ok(source),
        Ok(None) => Err(absent(client, &api, namespace, name).await),
        Err(error) => Err(catalogs::failed(client, error).await),
    }
}

/// The failure of a missing CatalogSource, with similar names.
async fn absent(client: &Client, api: &Api<CatalogSource>, namespace: &str, name: &str) -> Failure {
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

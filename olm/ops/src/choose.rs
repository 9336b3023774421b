//! Default choices for omitted options.

use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use olm_api::{Subscription, names};

use crate::error::Error;
use olm_engine::catalogs::LoadedCatalog;
use olm_kube_schema::names::is_dns_label;

/// The default namespace of a package: the one that its newest version suggests
/// (`operatorframework.io/suggested-namespace`), else the package's name.
#[must_use]
pub fn suggested_namespace(catalogs: &[LoadedCatalog], package: &str) -> String {
    let summary = catalogs.iter().find_map(|c| c.catalog.summary(package));
    summary
        .and_then(|summary| summary.suggested_namespace.clone())
        // Text from a catalog is untrusted.
        .filter(|namespace| is_dns_label(namespace))
        .unwrap_or_else(|| package.to_owned())
}

/// Patches fields of a Subscription's spec, and no others.
pub(super) async fn patch_spec(
    client: &Client,
    namespace: &str,
    name: &str,
    spec: &serde_json::Value,
) -> Result<(), Error> {
    patch_subscription(client, namespace, name, &serde_json::json!({ "spec": spec })).await
}

/// Applies a merge patch to a Subscription.
pub(super) async fn patch_subscription(
    client: &Client,
    namespace: &str,
    name: &str,
    patch: &serde_json::Value,
) -> Result<(), Error> {
    let params =
        PatchParams { field_manager: Some(names::FIELD_MANAGER_CLI.into()), ..PatchParams::default() };
    Api::<Subscription>::namespaced(client.clone(), namespace)
        .patch(name, &params, &Patch::Merge(patch))
        .await
        .map_err(Error::kube(format!("change Subscription {namespace}/{name}")))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_that_is_no_name_is_not_taken() {
        assert!(is_dns_label("etcd") && is_dns_label("my-ns-2"));
        for bad in ["", "-a", "a-", "A", "a/b", "../x", &"a".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}

//! Reads the InstallPolicies of a decision.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::InstallPolicy;
use olm_plan::{Fact, Policies};
use olm_resolver::{CatalogRef, Package};

use crate::resources::short;

/// The policies that apply in a namespace. A caller who may not read them gets none.
pub async fn read(client: &Client, namespace: &str) -> Fact<Policies> {
    match list(client).await {
        Fact::Known(all) => among(client, all, namespace).await,
        Fact::Unknown(why) => Fact::Unknown(why),
        Fact::NotRead => Fact::NotRead,
    }
}

pub async fn list(client: &Client) -> Fact<Vec<Arc<InstallPolicy>>> {
    match Api::<InstallPolicy>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => Fact::Known(list.items.into_iter().map(Arc::new).collect()),
        // A kind that is not served has no objects.
        Err(kube::Error::Api(status)) if status.is_not_found() => Fact::Known(Vec::new()),
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            Fact::Unknown("no permission to list installpolicies".to_owned())
        }
        Err(error) => Fact::Unknown(format!("failed to list installpolicies: {}", short(&error))),
    }
}

/// The policies that apply in a namespace.
pub async fn among(client: &Client, all: Vec<Arc<InstallPolicy>>, namespace: &str) -> Fact<Policies> {
    if all.is_empty() {
        return Fact::Known(Policies::default());
    }
    match Api::<Namespace>::all(client.clone()).get_metadata_opt(namespace).await {
        Ok(Some(found)) => Fact::Known(Policies::of(all, Some(found.labels()))),
        Ok(None) => Fact::Known(Policies::of(all, Some(&Policies::labels_of_new(namespace)))),
        Err(error) => Fact::Unknown(format!("failed to get namespace {namespace}: {}", short(&error))),
    }
}

/// The channel of a bundle whose Subscription names none: the first one that policies allow, with the default
/// channel preferred.
pub(super) fn channel_of(
    package: &Package,
    bundle: &str,
    catalog: &CatalogRef,
    policies: &Fact<Policies>,
) -> String {
    let default = &package.default_channel;
    let lists = policies.known().map(Policies::allowlists).unwrap_or_default();
    let mut channels: Vec<&str> = package
        .channels()
        .iter()
        .filter(|channel| channel.entries.iter().any(|entry| entry.name == bundle))
        .map(|channel| channel.name.as_str())
        .collect();
    channels.sort_by_key(|name| (name != default, *name));
    let allowed = |name: &&&str| lists.iter().all(|list| list.allows(catalog, &package.name, name));
    let first = channels.iter().find(allowed).or_else(|| channels.first());
    first.map_or_else(|| default.clone(), |name| (*name).to_owned())
}

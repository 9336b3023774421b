//! Orphaned objects that garbage collection does not reach.

use std::{collections::BTreeSet, fmt::Debug};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use serde::de::DeserializeOwned;

use super::{CSV, GROUP, OWNED_KINDS, Owned, OwnedKind, OwnerKey, each_metadata, is_orphan, labelled_if};

/// All objects whose labels name an owner that does not exist. The objects are listed before their owners, so
/// that an owner made in between counts.
pub async fn orphans(client: &Client) -> Result<Vec<Owned>, kube::Error> {
    orphans_of(OWNED_KINDS, client, |_| true).await
}

/// Orphaned objects of some kinds, of owners that may be gone.
pub async fn orphans_of(
    kinds: &[OwnedKind],
    client: &Client,
    may_be_gone: impl Fn(&OwnerKey) -> bool,
) -> Result<Vec<Owned>, kube::Error> {
    let selector = format!("{},{}", names::LABEL_OWNER, names::LABEL_OWNER_KIND);
    // An empty set of owners: finds every candidate.
    let no_owners = BTreeSet::new();
    let wanted = |metadata: &ObjectMeta| {
        is_orphan(metadata, &no_owners) && OwnerKey::of(metadata).is_some_and(|owner| may_be_gone(&owner))
    };
    let mut owned = labelled_if(client, kinds, &selector, wanted).await?;
    if owned.is_empty() {
        return Ok(owned);
    }
    let mut alive = keys::<ClusterServiceVersion>(client, CSV).await?;
    alive.extend(keys::<OperatorGroup>(client, GROUP).await?);
    owned.retain(|object| is_orphan(&object.metadata, &alive));
    Ok(owned)
}

async fn keys<K>(client: &Client, kind: &str) -> Result<BTreeSet<OwnerKey>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut keys = BTreeSet::new();
    each_metadata(&Api::<K>::all(client.clone()), "", |metadata| {
        let (namespace, name) = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
        keys.insert(OwnerKey::new(kind, &namespace, &name));
    })
    .await?;
    Ok(keys)
}

//! Cluster-wide objects that installations of one package in several namespaces share.
//!
//! A bundle names its own cluster-wide objects (a ClusterRole for readers of metrics, a PriorityClass), so
//! they are the same object wherever the package is installed. Each installation adds its component label,
//! and the one that applied the object last owns it. When that one is removed, the object passes to a
//! remaining installation; the last one deletes it.

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, Preconditions},
    core::PartialObjectMeta,
};
use olm_api::{ClusterServiceVersion, names};
use serde_json::{Map, Value, json};

use super::{Owned, OwnerKey, labelled};

/// The result for an object whose owner is being removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// It is deleted, or was gone already.
    Deleted,
    /// It has another owner now.
    Passed(OwnerKey),
}

/// The component labels of an object: those of its owner's namespace, and those of the same packages in other
/// namespaces with these namespaces. Only cluster-wide objects are shared. Pure.
fn components(metadata: &ObjectMeta) -> (Vec<String>, Vec<(String, String)>) {
    let none = (Vec::new(), Vec::new());
    let Some(owner) = OwnerKey::of(metadata).filter(|_| metadata.namespace.is_none()) else { return none };
    let labels = metadata.labels.iter().flat_map(|labels| labels.keys());
    let parts = labels.filter_map(|key| {
        // A package name may have dots, a namespace never has.
        let (package, namespace) = key.strip_prefix(names::LABEL_COMPONENT_PREFIX)?.rsplit_once('.')?;
        Some((key.clone(), package.to_owned(), namespace.to_owned()))
    });
    let (own, others): (Vec<_>, Vec<_>) = parts.partition(|(_, _, namespace)| *namespace == owner.namespace);
    let shared = others.into_iter().filter(|(_, package, _)| own.iter().any(|(_, mine, _)| mine == package));
    let shared = shared.map(|(key, _, namespace)| (key, namespace)).collect();
    (own.into_iter().map(|(key, ..)| key).collect(), shared)
}

/// The version that an object passes to: the newest one of the first namespace that still has one.
async fn new_owner(shared: &[(String, String)], client: &Client) -> Result<Option<OwnerKey>, kube::Error> {
    for (label, namespace) in shared {
        let api = Api::<ClusterServiceVersion>::namespaced(client.clone(), namespace);
        let params = ListParams::default().labels(&format!("{label},!{}", names::LABEL_COPIED_FROM));
        let versions = api.list_metadata(&params).await?.items.into_iter();
        let stays =
            |csv: &PartialObjectMeta<ClusterServiceVersion>| csv.metadata.deletion_timestamp.is_none();
        let age = |csv: &PartialObjectMeta<ClusterServiceVersion>| {
            (csv.metadata.creation_timestamp.as_ref().map(|time| time.0), csv.name_any())
        };
        if let Some(newest) = versions.filter(stays).max_by_key(age) {
            return Ok(Some(OwnerKey::new("ClusterServiceVersion", namespace, &newest.name_any())));
        }
    }
    Ok(None)
}

/// Deletes an object whose owner is being removed, or passes it on. The write is bound to the observed
/// object: one that changed in the meantime may have another owner, and is a conflict.
pub async fn release(object: &Owned, client: &Client) -> Result<Released, kube::Error> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let api = object.api(client);
    let (own, shared) = components(&object.metadata);
    let done = if let Some(owner) = new_owner(&shared, client).await? {
        let mut labels: Map<String, Value> = own.into_iter().map(|label| (label, Value::Null)).collect();
        for (key, value) in names::owner_labels(&owner.name, &owner.namespace) {
            labels.insert(key.into(), value.into());
        }
        let patch =
            json!({ "metadata": { "labels": labels, "resourceVersion": object.metadata.resource_version } });
        api.patch_metadata(&name, &params(), &Patch::Merge(&patch)).await.map(|_| Released::Passed(owner))
    } else {
        let preconditions = Preconditions {
            uid: object.metadata.uid.clone(),
            resource_version: object.metadata.resource_version.clone(),
        };
        let params = DeleteParams::default().preconditions(preconditions);
        api.delete(&name, &params).await.map(|_| Released::Deleted)
    };
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Released::Deleted),
        done => done,
    }
}

/// Removes the component labels of a deleted version from objects that another namespace's installation owns,
/// unless another version of the package stays in the namespace: the labels would mark the objects as needed
/// here.
pub async fn leave(csv: &ClusterServiceVersion, client: &Client) -> Result<(), kube::Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let end = format!(".{namespace}");
    let ours = |key: &&String| key.starts_with(names::LABEL_COMPONENT_PREFIX) && key.ends_with(end.as_str());
    for label in csv.labels().keys().filter(ours) {
        let api = Api::<ClusterServiceVersion>::namespaced(client.clone(), &namespace);
        let versions = api.list_metadata(&ListParams::default().labels(label)).await?;
        if versions.items.iter().any(|other| other.metadata.deletion_timestamp.is_none()) {
            continue;
        }
        for object in labelled(client, label).await? {
            let elsewhere = OwnerKey::of(&object.metadata).is_some_and(|owner| owner.namespace != namespace);
            if object.metadata.namespace.is_some() || !elsewhere {
                continue;
            }
            let patch = json!({ "metadata": { "labels": { label: null } } });
            let name = object.metadata.name.clone().unwrap_or_default();
            match object.api(client).patch_metadata(&name, &params(), &Patch::Merge(&patch)).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                done => drop(done?),
            }
        }
    }
    Ok(())
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(names::FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(namespace: Option<&str>, labels: &[&str]) -> ObjectMeta {
        let owner = [
            (names::LABEL_OWNER, "thing.v1"),
            (names::LABEL_OWNER_NAMESPACE, "db"),
            (names::LABEL_OWNER_KIND, "ClusterServiceVersion"),
        ];
        let labels = labels.iter().map(|label| (format!("operators.coreos.com/{label}"), String::new()));
        ObjectMeta {
            namespace: namespace.map(str::to_owned),
            labels: Some(
                owner.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).chain(labels).collect(),
            ),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_cluster_wide_object_is_shared_with_the_same_package_in_other_namespaces() {
        let (own, shared) = components(&of(None, &["my.thing.db", "my.thing.web", "other.web", "thing.x"]));
        assert_eq!(own, ["operators.coreos.com/my.thing.db"]);
        assert_eq!(shared, [("operators.coreos.com/my.thing.web".to_owned(), "web".to_owned())]);
    }

    #[test]
    fn namespaced_objects_and_unowned_ones_are_not_shared() {
        assert_eq!(components(&of(Some("x"), &["thing.db", "thing.web"])), (vec![], vec![]));
        assert_eq!(components(&of(None, &["thing.web"])).1, []);
        assert_eq!(components(&ObjectMeta::default()), (vec![], vec![]));
    }
}

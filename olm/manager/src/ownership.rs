//! Who owns what a plan makes: references for garbage collection where it reaches, labels where it does not.

use kube::{Resource, ResourceExt};
use olm_api::{ClusterServiceVersion, names};
use serde_json::{Map, Value, json};

/// The ClusterServiceVersion that objects are made for.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    name: String,
    namespace: String,
    uid: String,
    component: Option<String>,
}

impl Owner {
    pub(crate) fn of(csv: &ClusterServiceVersion, package: Option<&str>) -> Self {
        let namespace = csv.namespace().unwrap_or_default();
        Self {
            name: csv.name_any(),
            uid: csv.uid().unwrap_or_default(),
            component: package.map(|package| names::component_label(package, &namespace)),
            namespace,
        }
    }
}

/// Makes the owner own a manifest.
///
/// Objects in the owner's namespace get an owner reference. Applied by server-side apply with one field manager, the
/// reference to an older version goes away in the same write: an object of the same name in the next version is
/// handed over, and the deletion of the old version never takes it along. Objects elsewhere get labels, by which the
/// finalizer of the ClusterServiceVersion finds them.
pub(crate) fn own(manifest: &mut Value, owner: &Owner) {
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        for (key, value) in names::owner_labels(&owner.name, &owner.namespace) {
            labels.insert(key.into(), value.into());
        }
        if let Some(component) = &owner.component {
            labels.insert(component.clone(), json!(""));
        }
    }
    if metadata.get("namespace").and_then(Value::as_str) == Some(&owner.namespace) {
        metadata.insert("ownerReferences".into(), json!([reference(owner)]));
    }
}

fn reference(owner: &Owner) -> Value {
    let mut reference = Map::new();
    reference.insert("apiVersion".into(), ClusterServiceVersion::api_version(&()).into());
    reference.insert("kind".into(), ClusterServiceVersion::kind(&()).into());
    reference.insert("name".into(), owner.name.clone().into());
    reference.insert("uid".into(), owner.uid.clone().into());
    reference.insert("controller".into(), false.into());
    reference.insert("blockOwnerDeletion".into(), false.into());
    reference.into()
}

/// The selector of everything that carries the owner's labels.
pub(crate) fn selector(csv: &str, namespace: &str) -> String {
    format!(
        "{}={csv},{}={namespace},{}=ClusterServiceVersion",
        names::LABEL_OWNER,
        names::LABEL_OWNER_NAMESPACE,
        names::LABEL_OWNER_KIND
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            name: "etcd.v1".into(),
            namespace: "db".into(),
            uid: "u".into(),
            component: Some("operators.coreos.com/etcd.db".into()),
        }
    }

    #[test]
    fn an_object_beside_its_owner_is_garbage_collected_with_it() {
        let mut manifest =
            json!({ "kind": "ServiceAccount", "metadata": { "name": "a", "namespace": "db" } });
        own(&mut manifest, &owner());
        assert_eq!(manifest["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(manifest["metadata"]["labels"]["olm.owner"], "etcd.v1");
        assert_eq!(manifest["metadata"]["labels"]["operators.coreos.com/etcd.db"], "");
    }

    #[test]
    fn an_object_elsewhere_is_found_by_its_labels() {
        for mut manifest in [
            json!({ "kind": "ClusterRole", "metadata": { "name": "a" } }),
            json!({ "kind": "Role", "metadata": { "name": "a", "namespace": "other" } }),
        ] {
            own(&mut manifest, &owner());
            assert!(manifest["metadata"].get("ownerReferences").is_none());
            assert_eq!(manifest["metadata"]["labels"]["olm.owner.namespace"], "db");
        }
    }
}

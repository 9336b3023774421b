//! Ownership: selectors and controller references.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::{
    Resource,
    core::{Selector, SelectorExt},
};

/// A selector that selects nothing when it is empty or malformed: a controller must never claim the whole
/// namespace.
pub(crate) fn selector(selector: &LabelSelector) -> Option<Selector> {
    let selector: Selector = selector.clone().try_into().ok()?;
    (!selector.selects_all()).then_some(selector)
}

pub(crate) fn matches<K: Resource>(selector: &Selector, object: &K) -> bool {
    let none = BTreeMap::new();
    selector.matches(object.meta().labels.as_ref().unwrap_or(&none))
}

/// The reference of the object's controller.
pub(crate) fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

pub(crate) fn is_controlled_by<K: Resource>(object: &K, uid: &str) -> bool {
    controller_of(object).is_some_and(|owner| owner.uid == uid)
}

/// Candidates by the required action.
#[derive(Debug)]
pub(crate) struct Claims<K> {
    /// Owned, and matched by the selector.
    pub(crate) owned: Vec<K>,
    /// Matched by the selector and without a controller: to be adopted.
    pub(crate) orphans: Vec<K>,
    /// Owned, but no longer matched by the selector: to be released.
    pub(crate) strays: Vec<K>,
}

/// Sorts `candidates` (of one namespace) by their relation to the owner with this `uid` and `selector`.
pub(crate) fn claim<K, R>(uid: &str, selector: &Selector, candidates: Vec<R>) -> Claims<R>
where
    K: Resource,
    R: std::ops::Deref<Target = K>,
{
    let mut claims = Claims { owned: Vec::new(), orphans: Vec::new(), strays: Vec::new() };
    for object in candidates {
        let fits = matches(selector, &*object);
        match controller_of(&*object) {
            Some(owner) if owner.uid == uid && fits => claims.owned.push(object),
            Some(owner) if owner.uid == uid => claims.strays.push(object),
            Some(_) => {}
            None if fits && object.meta().deletion_timestamp.is_none() => claims.orphans.push(object),
            None => {}
        }
    }
    claims
}

/// The reference that makes `owner` the controller of an object.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The owner references of an object after it was adopted.
pub(crate) fn adopted<K: Resource>(object: &K, owner: &OwnerReference) -> Vec<OwnerReference> {
    let mut references = object.meta().owner_references.clone().unwrap_or_default();
    references.retain(|reference| reference.uid != owner.uid);
    references.push(owner.clone());
    references
}

/// The owner references of an object after it was released.
pub(crate) fn released<K: Resource>(object: &K, uid: &str) -> Vec<OwnerReference> {
    let mut references = object.meta().owner_references.clone().unwrap_or_default();
    references.retain(|reference| reference.uid != uid);
    references
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, app: &str, owner: Option<&str>) -> Box<Pod> {
        let owners: Vec<_> = owner
            .map(|uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        let pod = json!({"metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owners}});
        Box::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn claims() {
        let selector =
            selector(&serde_json::from_value(json!({"matchLabels": {"app": "x"}})).unwrap()).unwrap();
        let mut dying = pod("dying", "x", None);
        dying.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let claims = claim(
            "me",
            &selector,
            vec![
                pod("mine", "x", Some("me")),
                pod("stray", "y", Some("me")),
                pod("other", "x", Some("you")),
                pod("orphan", "x", None),
                pod("stranger", "y", None),
                dying,
            ],
        );
        let names = |list: &[Box<Pod>]| -> Vec<String> {
            list.iter().map(|p| p.metadata.name.clone().unwrap_or_default()).collect()
        };
        assert_eq!(names(&claims.owned), ["mine"]);
        assert_eq!(names(&claims.orphans), ["orphan"]);
        assert_eq!(names(&claims.strays), ["stray"]);
    }

    #[test]
    fn an_empty_selector_claims_nothing() {
        assert!(selector(&LabelSelector::default()).is_none());
    }
}

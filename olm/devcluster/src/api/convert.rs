//! From the stored shape of an object to the version that was asked for, and back.
//!
//! Custom resources convert by their apiVersion alone (strategy `None`). Events are stored as core/v1 and shown as
//! events.k8s.io/v1 too.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::registry::Resource;

/// Field names of a core event and of an events.k8s.io event.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("source", "deprecatedSource"),
];

fn is_new_event(resource: &Resource) -> bool {
    resource.is("events.k8s.io", "events")
}

fn rename(object: &mut Value, fields: impl Iterator<Item = (&'static str, &'static str)> + Clone) {
    let Some(map) = object.as_object_mut() else { return };
    let renamed: Map<String, Value> = std::mem::take(map)
        .into_iter()
        .map(|(key, value)| {
            let new = fields.clone().find(|(from, _)| *from == key).map_or(key, |(_, to)| to.to_owned());
            (new, value)
        })
        .collect();
    *map = renamed;
}

/// The object in the version of `resource`.
pub(crate) fn present(resource: &Resource, object: &Arc<Value>) -> Arc<Value> {
    let api_version = resource.api_version();
    if object.get("apiVersion").and_then(Value::as_str) == Some(&api_version) {
        return object.clone();
    }
    let mut shown = Value::clone(object);
    if is_new_event(resource) {
        rename(&mut shown, EVENT_FIELDS.iter().copied());
    }
    if let Some(map) = shown.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
    }
    Arc::new(shown)
}

/// The object in the version in which it is stored.
pub(crate) fn store_form(resource: &Resource, object: &mut Value) {
    if is_new_event(resource) {
        rename(object, EVENT_FIELDS.iter().map(|(old, new)| (*new, *old)));
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), "v1".into());
        }
    } else if let super::registry::Body::Custom { crd, .. } = &resource.body {
        let storage = format!("{}/{}", crd.group, crd.storage().name);
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), storage.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::registry::Registry;

    #[test]
    fn events_have_two_shapes() {
        let registry = Registry::new();
        let served = registry.served();
        let new = served.find("events.k8s.io", "v1", "events").expect("built in");
        let written = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "hello", "regarding": {"name": "x"}});
        let mut stored = written.clone();
        store_form(new, &mut stored);
        assert_eq!(
            stored,
            json!({"apiVersion": "v1", "kind": "Event", "message": "hello", "involvedObject": {"name": "x"}})
        );
        assert_eq!(*present(new, &Arc::new(stored)), written);
    }
}

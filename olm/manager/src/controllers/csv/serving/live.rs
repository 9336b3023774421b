//! Compares live objects with desired ones, and reads their CA bundles. Pure.

use base64::{Engine, engine::general_purpose::STANDARD};
use olm_bundle::{CaPlace, Endpoint};
use serde_json::{Map, Value};

use crate::certs::Authority;

/// Whether the live object contains all desired fields. Additions by the API server or others do not count.
pub(super) fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| match live.get(key) {
                // Several owners may own an object.
                Some(Value::Array(there)) if key == "ownerReferences" => value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .all(|owner| there.iter().any(|one| covers(one, owner))),
                Some(there) => covers(there, value),
                // The API server omits empty values.
                None => is_empty(value),
            })
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Sets a field by its JSON pointer. Missing maps on the path are created; list elements are not.
pub(super) fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for key in pointer.split('/').skip(1) {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        let next = match at {
            Value::Array(list) => key.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
            other => other.as_object_mut().map(|map| map.entry(key).or_insert(Value::Null)),
        };
        let Some(next) = next else { return };
        at = next;
    }
    *at = value;
}

/// The authorities in a field with a CA bundle.
pub(super) fn authorities_at(live: &Value, pointer: &str) -> Vec<Authority> {
    let text = live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    STANDARD.decode(text).map(|pem| Authority::all(&pem)).unwrap_or_default()
}

/// Whether an object with a place for a CA bundle calls the endpoint's Service, and no other.
pub(super) fn calls(live: &Value, place: &CaPlace, endpoint: &Endpoint) -> bool {
    let client = place.pointer.trim_end_matches("/caBundle");
    let service = live.pointer(&format!("{client}/service"));
    service.is_some_and(|s| {
        s["name"] == endpoint.service.as_str() && s["namespace"] == endpoint.namespace.as_str()
    })
}

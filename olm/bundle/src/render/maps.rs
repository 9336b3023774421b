//! Maps of a manifest.

use serde_json::{Map, Value};

/// The map at a path, created if missing.
pub(crate) fn map_at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut value = value;
    for key in path {
        value = as_map(value).entry(*key).or_insert(Value::Null);
    }
    as_map(value)
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made a map above")
}

/// Merges a map into another, overwriting.
pub(crate) fn merge(map: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        map.insert(key, value);
    }
}

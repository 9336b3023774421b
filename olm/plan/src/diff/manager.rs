//! Owner of a field, from the managed fields.

use olm_api::names::FIELD_MANAGER;
use serde_json::Value;

use super::lists::unescaped;

/// The field managers other than ours that own a field of an object, or a field below it; `None` without one.
/// `path` is a JSON pointer, as in a [`FieldDiff`](crate::FieldDiff).
#[must_use]
pub fn managers(live: &Value, path: &str) -> Option<String> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let mut names: Vec<&str> = entries
        .iter()
        .filter(|entry| entry.get("fieldsV1").is_some_and(|fields| owns(fields, path)))
        .filter_map(|entry| entry.get("manager")?.as_str())
        .filter(|name| *name != FIELD_MANAGER)
        .collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", "))
}

fn owns(fields: &Value, path: &str) -> bool {
    let mut at = fields;
    for segment in path.split('/').skip(1) {
        let (key, selector) = match segment.strip_suffix(']').and_then(|s| s.split_once('[')) {
            Some((key, selector)) => (key, Some(unescaped(selector))),
            None => (segment, None),
        };
        // an empty entry is a leaf: its owner owns everything below it
        if at.as_object().is_some_and(serde_json::Map::is_empty) {
            return true;
        }
        let Some(below) = at.get(format!("f:{}", unescaped(key))) else { return false };
        at = below;
        let Some(selector) = selector else { continue };
        if at.as_object().is_some_and(serde_json::Map::is_empty) {
            return true;
        }
        let element = at.as_object().into_iter().flatten().find(|(name, _)| selected_by(name, &selector));
        let Some((_, below)) = element else { return false };
        at = below;
    }
    true
}

/// Whether `k:{"name":"a"}` and `name=a` select the same element.
fn selected_by(name: &str, selector: &str) -> bool {
    let keys = name.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Value>(keys).ok());
    let Some(Value::Object(keys)) = keys else { return false };
    let mut parts: Vec<String> = keys
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}={text}"),
            other => format!("{key}={other}"),
        })
        .collect();
    let mut wanted: Vec<&str> = selector.split(',').collect();
    parts.sort_unstable();
    wanted.sort_unstable();
    parts == wanted
}

//! Strategic merge patch: a merge patch with support for keyed lists.

use serde_json::{Map, Value};

use super::PatchError;
use crate::layout::{Layout, Merge};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `target` by the layout of the type; custom types have no such layout and are refused
/// with 415, as in Kubernetes.
pub fn strategic_patch(target: &Value, patch: &Value, layout: Layout<'_>) -> Result<Value, PatchError> {
    if layout.is_custom() {
        return Err(PatchError::UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                .to_owned(),
        ));
    }
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return Err(bad("the patch must be a JSON object"));
    };
    merge_map(target, patch, layout).map(Value::Object)
}

fn bad(text: impl Into<String>) -> PatchError {
    PatchError::BadRequest(text.into())
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE
        || key == RETAIN_KEYS
        || key.starts_with(ELEMENT_ORDER)
        || key.starts_with(DELETE_PRIMITIVES)
}

/// The value of `$patch` in an object.
fn directive(map: &Map<String, Value>) -> Result<&str, PatchError> {
    match map.get(DIRECTIVE) {
        None => Ok("merge"),
        Some(Value::String(text)) if matches!(text.as_str(), "merge" | "replace" | "delete") => Ok(text),
        Some(other) => Err(bad(format!("unrecognized patch directive {other} in $patch"))),
    }
}

fn merge_map(
    target: &Map<String, Value>,
    patch: &Map<String, Value>,
    layout: Layout<'_>,
) -> Result<Map<String, Value>, PatchError> {
    match directive(patch)? {
        "replace" => {
            let mut result = patch.clone();
            result.shift_remove(DIRECTIVE);
            return Ok(result);
        }
        "delete" => return Ok(Map::new()),
        _ => {}
    }
    let mut result = target.clone();
    retain_keys(&mut result, patch)?;
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_PRIMITIVES) {
            delete_primitives(&mut result, list, value)?;
            continue;
        }
        if is_directive(key) {
            continue;
        }
        if value.is_null() {
            result.shift_remove(key);
            continue;
        }
        let merged = match (result.get(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                Value::Object(merge_map(old, new, layout.field(key))?)
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Value::Array(merge_list(old, new, layout.field(key))?)
            }
            (_, Value::Object(new)) if directive(new)? == "delete" => {
                result.shift_remove(key);
                continue;
            }
            _ => without_directives(value),
        };
        result.insert(key.clone(), merged);
    }
    for (key, order) in patch {
        if let Some(list) = key.strip_prefix(ELEMENT_ORDER) {
            reorder(&mut result, target, list, order, layout.field(list))?;
        }
    }
    Ok(result)
}

/// `$retainKeys` lists the keys that stay; it must contain those that the patch sets.
fn retain_keys(result: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(keep) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keep: Vec<&str> = keep
        .as_array()
        .ok_or_else(|| bad("invalid patch format of $retainKeys: must be a list"))?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let missing = patch
        .iter()
        .find(|(key, value)| !is_directive(key) && !value.is_null() && !keep.contains(&key.as_str()));
    if let Some((key, _)) = missing {
        return Err(bad(format!(
            "invalid patch format of $retainKeys: the patch sets `{key}`, which is not listed"
        )));
    }
    result.retain(|key, _| keep.contains(&key.as_str()));
    Ok(())
}

fn delete_primitives(result: &mut Map<String, Value>, key: &str, delete: &Value) -> Result<(), PatchError> {
    let delete = delete.as_array().ok_or_else(|| bad(format!("{DELETE_PRIMITIVES}{key} must be a list")))?;
    if let Some(Value::Array(list)) = result.get_mut(key) {
        list.retain(|value| !delete.contains(value));
    }
    Ok(())
}

fn merge_list(target: &[Value], patch: &[Value], layout: Layout<'_>) -> Result<Vec<Value>, PatchError> {
    match layout.merge() {
        None => Ok(patch.iter().map(without_directives).collect()),
        Some(Merge::Primitives) => {
            let mut result = target.to_vec();
            for value in patch {
                if !result.contains(value) {
                    result.push(value.clone());
                }
            }
            Ok(result)
        }
        Some(Merge::ByKey(key)) => merge_keyed(target, patch, key, layout),
    }
}

fn merge_keyed(
    target: &[Value],
    patch: &[Value],
    merge_key: &str,
    layout: Layout<'_>,
) -> Result<Vec<Value>, PatchError> {
    let mut items = Vec::new();
    let mut replace = false;
    let mut result = target.to_vec();
    for item in patch {
        let map = item.as_object().ok_or_else(|| bad("items of a keyed list in a patch must be objects"))?;
        match directive(map)? {
            "replace" => {
                replace = true;
                if map.len() > 1 {
                    items.push(map);
                }
            }
            "delete" => {
                let id = identity(map, merge_key)?;
                result.retain(|value| value.get(merge_key) != Some(id));
            }
            _ => items.push(map),
        }
    }
    if replace {
        return Ok(items.into_iter().map(|map| without_directives(&Value::Object(map.clone()))).collect());
    }
    for map in items {
        let id = identity(map, merge_key)?;
        match result.iter_mut().find(|value| value.get(merge_key) == Some(id)) {
            Some(Value::Object(old)) => *old = merge_map(old, map, layout.item())?,
            _ => result.push(without_directives(&Value::Object(map.clone()))),
        }
    }
    Ok(result)
}

fn identity<'a>(map: &'a Map<String, Value>, merge_key: &str) -> Result<&'a Value, PatchError> {
    map.get(merge_key).ok_or_else(|| {
        bad(format!("map: {} does not contain declared merge key: {merge_key}", Value::Object(map.clone())))
    })
}

/// Restores the order that the client saw. Items unknown to the client keep their position relative to their
/// neighbours.
fn reorder(
    result: &mut Map<String, Value>,
    target: &Map<String, Value>,
    key: &str,
    order: &Value,
    layout: Layout<'_>,
) -> Result<(), PatchError> {
    let order = order.as_array().ok_or_else(|| bad(format!("{ELEMENT_ORDER}{key} must be a list")))?;
    let id = |value: &Value| -> Value {
        match layout.merge() {
            Some(Merge::ByKey(merge_key)) => value.get(merge_key).cloned().unwrap_or_default(),
            _ => value.clone(),
        }
    };
    if layout.merge().is_none() {
        return Ok(());
    }
    let Some(Value::Array(list)) = result.get_mut(key) else { return Ok(()) };
    let order: Vec<Value> = order.iter().map(id).collect();
    let before: Vec<Value> =
        target.get(key).and_then(Value::as_array).map(|l| l.iter().map(id).collect()).unwrap_or_default();
    let place = |wanted: &Value| before.iter().position(|value| value == wanted);
    let (mut known, mut others): (Vec<Value>, Vec<Value>) =
        std::mem::take(list).into_iter().partition(|value| order.contains(&id(value)));
    known.sort_by_key(|value| order.iter().position(|wanted| *wanted == id(value)));
    others.sort_by_key(|value| place(&id(value)));
    let mut others = others.into_iter().peekable();
    for value in known {
        if let Some(here) = place(&id(&value)) {
            while let Some(other) = others.next_if(|other| place(&id(other)).is_some_and(|at| at < here)) {
                list.push(other);
            }
        }
        list.push(value);
    }
    list.extend(others);
    Ok(())
}

/// A value that is new to the object: its directives and nulls have no effect.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !is_directive(key) && !value.is_null())
                .map(|(key, value)| (key.clone(), without_directives(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(
            list.iter()
                .filter(|item| item.get(DIRECTIVE).and_then(Value::as_str) != Some("delete"))
                .map(without_directives)
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;

//! Defaulting and pruning.

use serde_json::Value;

use super::{Additional, Node, child_path};

pub(super) fn default(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in &node.properties {
                let Some(default) = &child.default else { continue };
                // A null where none is allowed counts as unset.
                let unset = map.get(key).is_none_or(|v| v.is_null() && !child.nullable);
                if unset {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(child) = node.child(key) {
                    if value.is_null()
                        && !child.nullable
                        && let Some(default) = &child.default
                    {
                        *value = default.clone();
                    }
                    self::default(child, value);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for value in list {
                    if value.is_null()
                        && !items.nullable
                        && let Some(default) = &items.default
                    {
                        *value = default.clone();
                    }
                    self::default(items, value);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn prune(node: &Node, value: &mut Value, resource: bool, path: &str, unknown: &mut Vec<String>) {
    let resource = resource || node.embedded;
    match value {
        Value::Object(map) => {
            let open = node.preserve_unknown || matches!(node.additional, Additional::Any);
            let implicit = |key: &str| resource && matches!(key, "apiVersion" | "kind" | "metadata");
            map.retain(|key, value| {
                if implicit(key) {
                    return true;
                }
                if let Some(child) = node.child(key) {
                    if value.is_null() && !child.nullable && child.default.is_none() {
                        return false;
                    }
                    prune(child, value, false, &child_path(path, key), unknown);
                    return true;
                }
                if !open {
                    unknown.push(child_path(path, key));
                }
                open
            });
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (index, value) in list.iter_mut().enumerate() {
                    prune(items, value, false, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

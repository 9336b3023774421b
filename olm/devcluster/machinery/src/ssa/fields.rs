//! The fields of an object, and the differences between two objects.

use serde_json::{Map, Value};

use super::set::{Element, FieldSet};
use crate::layout::{Layout, List};

/// The items of a list as path elements; `None` when their identities are not unique, then the list counts as
/// atomic.
pub(super) fn elements(layout: Layout<'_>, list: &[Value]) -> Option<Vec<Element>> {
    let elements: Vec<Element> = match layout.list() {
        List::Atomic => return None,
        List::Set => list.iter().map(|value| Element::Value(value.to_string())).collect(),
        List::Map => list
            .iter()
            .map(|item| layout.key_of(item).map(|key| Element::Key(Value::from(key).to_string())))
            .collect::<Option<_>>()?,
    };
    let mut sorted: Vec<&Element> = elements.iter().collect();
    sorted.sort();
    let unique = sorted.windows(2).all(|pair| pair[0] != pair[1]);
    unique.then_some(elements)
}

/// Reports a list in an applied object whose items have no unique identity.
pub(super) fn check_lists(layout: Layout<'_>, value: &Value, path: &str) -> Result<(), String> {
    match value {
        Value::Object(map) if !layout.is_atomic_object() => {
            for (key, value) in map {
                check_lists(layout.field(key), value, &format!("{path}.{key}"))?;
            }
        }
        Value::Array(list) if layout.list() != List::Atomic => {
            if layout.list() == List::Map
                && let Some(index) = list.iter().position(|item| layout.key_of(item).is_none())
            {
                let keys = layout.key_names().join("\", \"");
                return Err(format!(
                    "{path}: element {index}: associative list with keys has an element that omits key field \
                     \"{keys}\" (and doesn't have default value)"
                ));
            }
            if elements(layout, list).is_none() {
                return Err(format!("{path}: duplicate entries: the list must not contain an item twice"));
            }
            for (index, item) in list.iter().enumerate() {
                check_lists(layout.item(), item, &format!("{path}[{index}]"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The fields that an applied object sets.
pub(super) fn fields_of(layout: Layout<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(layout, value, &mut Vec::new(), &mut set);
    set
}

fn collect(layout: Layout<'_>, value: &Value, path: &mut Vec<Element>, set: &mut FieldSet) {
    match value {
        Value::Object(map) if !layout.is_atomic_object() => {
            for (key, value) in map {
                path.push(Element::Field(key.clone()));
                collect(layout.field(key), value, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !layout.is_named(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Value::Array(list) => match elements(layout, list) {
            Some(elements) if !list.is_empty() => {
                for (element, item) in elements.into_iter().zip(list) {
                    path.push(element);
                    collect(layout.item(), item, path, set);
                    set.insert(path);
                    path.pop();
                }
            }
            _ => set.insert(path),
        },
        _ => set.insert(path),
    }
}

/// Differences between two objects.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

pub(super) fn compare(layout: Layout<'_>, old: &Value, new: &Value) -> Comparison {
    let mut result = Comparison::default();
    both(layout, old, new, &mut Vec::new(), &mut result);
    result
}

fn both(layout: Layout<'_>, old: &Value, new: &Value, path: &mut Vec<Element>, out: &mut Comparison) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if !layout.is_atomic_object() => {
            for (key, value) in new {
                path.push(Element::Field(key.clone()));
                match old.get(key) {
                    Some(old) => both(layout.field(key), old, value, path, out),
                    None => {
                        let implied = layout.is_always_present(key)
                            && value.as_object().is_some_and(|map| !map.is_empty());
                        whole(layout.field(key), value, path, implied, &mut out.added);
                    }
                }
                path.pop();
            }
            for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
                path.push(Element::Field(key.clone()));
                whole(layout.field(key), value, path, false, &mut out.removed);
                path.pop();
            }
        }
        (Value::Array(old_list), Value::Array(new_list)) => {
            let (Some(old_ids), Some(new_ids)) = (elements(layout, old_list), elements(layout, new_list))
            else {
                if old_list != new_list {
                    out.modified.insert(path);
                }
                return;
            };
            let find =
                |id: &Element| old_ids.iter().position(|old| old == id).and_then(|at| old_list.get(at));
            for (id, item) in new_ids.iter().zip(new_list) {
                path.push(id.clone());
                match find(id) {
                    Some(old) => both(layout.item(), old, item, path, out),
                    None => whole(layout.item(), item, path, false, &mut out.added),
                }
                path.pop();
            }
            for (id, item) in old_ids.iter().zip(old_list).filter(|(id, _)| !new_ids.contains(id)) {
                path.push(id.clone());
                whole(layout.item(), item, path, false, &mut out.removed);
                path.pop();
            }
        }
        _ if old != new => out.modified.insert(path),
        _ => {}
    }
}

/// Everything at and below a value that exists on one side only.
fn whole(layout: Layout<'_>, value: &Value, path: &mut Vec<Element>, implied: bool, set: &mut FieldSet) {
    if !implied {
        set.insert(path);
    }
    match value {
        Value::Object(map) if !layout.is_atomic_object() => {
            for (key, value) in map {
                let implied =
                    layout.is_always_present(key) && value.as_object().is_some_and(|map| !map.is_empty());
                path.push(Element::Field(key.clone()));
                whole(layout.field(key), value, path, implied, set);
                path.pop();
            }
        }
        Value::Array(list) => {
            let Some(ids) = elements(layout, list) else { return };
            for (id, item) in ids.into_iter().zip(list) {
                path.push(id);
                whole(layout.item(), item, path, false, set);
                path.pop();
            }
        }
        _ => {}
    }
}

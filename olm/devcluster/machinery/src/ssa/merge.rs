//! Merges an applied object into the live one, and removes fields that are no longer applied.

use serde_json::{Map, Value};

use super::{
    fields::elements,
    set::{Element, Entry, FieldSet},
};
use crate::layout::Layout;

/// The live value merged with the applied one.
pub(super) fn merge(layout: Layout<'_>, live: Option<&Value>, config: &Value) -> Value {
    match (live, config) {
        (live, Value::Object(config)) if !layout.is_atomic_object() => {
            let live = live.and_then(Value::as_object);
            let mut result = live.cloned().unwrap_or_else(Map::new);
            for (key, value) in config {
                let merged = merge(layout.field(key), live.and_then(|live| live.get(key)), value);
                result.insert(key.clone(), merged);
            }
            Value::Object(result)
        }
        (Some(Value::Array(live)), Value::Array(config)) => {
            match (elements(layout, live), elements(layout, config)) {
                (Some(live_ids), Some(config_ids)) => {
                    Value::Array(merge_lists(layout, live, &live_ids, config, &config_ids))
                }
                _ => Value::Array(config.clone()),
            }
        }
        _ => config.clone(),
    }
}

/// Items are in the order of the applied list; items only in the live list keep their position relative to
/// their neighbours, and come before new items.
fn merge_lists(
    layout: Layout<'_>,
    live: &[Value],
    live_ids: &[Element],
    config: &[Value],
    config_ids: &[Element],
) -> Vec<Value> {
    let mut result = Vec::with_capacity(live.len().max(config.len()));
    let mut at = 0;
    for (item, id) in config.iter().zip(config_ids) {
        let here = live_ids.iter().position(|live| live == id);
        while at < live.len() && here.is_none_or(|here| at < here) {
            let only_live = !config_ids.contains(&live_ids[at]);
            if only_live {
                result.push(live[at].clone());
            } else if here.is_none() {
                break;
            }
            at += 1;
        }
        if here == Some(at) {
            at += 1;
        }
        result.push(merge(layout.item(), here.map(|here| &live[here]), item));
    }
    for (item, id) in live.iter().zip(live_ids).skip(at) {
        if !config_ids.contains(id) {
            result.push(item.clone());
        }
    }
    result
}

/// Removes from `value` what its manager applied last time (`last`) and no manager owns now (`managed`).
pub(super) fn prune(layout: Layout<'_>, value: &mut Value, last: &FieldSet, managed: &FieldSet) {
    let nothing = FieldSet::default();
    match value {
        Value::Object(map) if !layout.is_atomic_object() => {
            map.retain(|key, value| {
                let element = Element::Field(key.clone());
                let Some(was) = last.get(&element) else { return true };
                let is = managed.get(&element);
                let named = layout.is_named(key);
                let holds = |entry: &Entry| entry.member || named && !entry.below.is_empty();
                if holds(was) && !is.is_some_and(holds) {
                    return false;
                }
                prune(layout.field(key), value, &was.below, is.map_or(&nothing, |is| &is.below));
                true
            });
        }
        Value::Array(list) => {
            let Some(ids) = elements(layout, list) else { return };
            let mut ids = ids.into_iter();
            list.retain_mut(|value| {
                let Some(id) = ids.next() else { return true };
                let Some(was) = last.get(&id) else { return true };
                let is = managed.get(&id);
                if was.member && !is.is_some_and(|is| is.member) {
                    return false;
                }
                prune(layout.item(), value, &was.below, is.map_or(&nothing, |is| &is.below));
                true
            });
        }
        _ => {}
    }
}

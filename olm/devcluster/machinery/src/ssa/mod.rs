//! Server-side apply, and the tracking of field ownership.
//!
//! The rules are those of structured-merge-diff: an applier owns the fields that it applied last; applying a
//! different value to a field of another manager is a conflict unless forced; a field that its applier no
//! longer applies is removed unless another manager owns it too. An update or patch makes its manager the
//! owner of the changed fields.
//!
//! `managedFields` store sets of paths (`fieldsV1`): a [`set::FieldSet`] in memory.

mod conflict;
mod fields;
mod last_applied;
mod managers;
mod merge;
mod set;
mod undeclared;
mod update;

use serde_json::Value;

use self::{
    conflict::conflicts_with,
    fields::{check_lists, compare, fields_of},
    managers::{Id, Managers, bare, without_identity},
};
pub use self::{
    conflict::{ApplyError, Conflict},
    undeclared::undeclared,
    update::{manager_from_user_agent, track_update},
};

use super::layout::Layout;

/// Owner of all fields of an object that was not tracked before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// One server-side apply.
#[derive(Debug, Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The stored object, if it exists.
    pub live: Option<&'a Value>,
    /// The applied configuration. The caller checks its preconditions (`metadata.resourceVersion`,
    /// `metadata.uid`).
    pub config: &'a Value,
    /// `fieldManager`.
    pub manager: &'a str,
    /// Take over conflicting fields.
    pub force: bool,
    /// `Some("status")` when that subresource is applied: then only `status` of the configuration is used.
    /// Otherwise the caller removes `status` from the configuration of types that have the subresource.
    pub subresource: Option<&'a str>,
    /// Layout of the type.
    pub layout: Layout<'a>,
    /// Time of the managedFields entry, RFC 3339 with seconds.
    pub now: &'a str,
}

/// An object merged with fields as in an apply, without tracking of ownership.
pub fn merged(layout: Layout<'_>, object: &Value, fields: &Value) -> Value {
    merge::merge(layout, Some(object), fields)
}

/// Result of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object to default, validate and store.
    pub object: Value,
    /// Whether it differs from the live one. If not, no write is needed: the resourceVersion stays.
    pub changed: bool,
}

/// Merges a configuration into the live object and computes the ownership.
pub fn apply(request: &ApplyRequest<'_>) -> Result<Applied, ApplyError> {
    let layout = request.layout;
    let config = applied_object(request)?;
    let api_version = config["apiVersion"].as_str().unwrap_or_default();
    let id = Id::new(request.manager, true, request.subresource, api_version);
    check_lists(layout, &config, "").map_err(ApplyError::Invalid)?;

    let empty = Value::Object(serde_json::Map::new());
    let live = request.live.map(bare);
    let live_or_empty = live.as_ref().unwrap_or(&empty);
    let mut managers = request.live.map(Managers::read).unwrap_or_default();
    if let Some(live) = live.as_ref().filter(|_| managers.is_empty()) {
        let set = without_identity(&compare(layout, &empty, live).added);
        let version = live["apiVersion"].as_str().unwrap_or_default();
        managers.set(&Id::new(BEFORE_FIRST_APPLY, false, None, version), version, set, request.now);
    }
    let before = managers.clone();

    let mut object = merge::merge(layout, live.as_ref(), &config);
    let set = fields_of(layout, &config);
    let last = managers.get(&id).map(|manager| manager.set.clone()).unwrap_or_default();
    if !last.is_empty() {
        let managed = managers.others(&id).fold(set.clone(), |all, manager| all.union(&manager.set));
        merge::prune(layout, &mut object, &last, &managed);
    }
    keep_server_fields(live.as_ref(), &mut object);

    let difference = compare(layout, live_or_empty, &object);
    let taken = difference.modified.union(&difference.added);
    let last_applied_fields = last_applied::last_applied_fields(request, live.as_ref());
    let conflicts = conflicts_with(&managers, &id, &taken.difference(&last_applied_fields));
    if !conflicts.is_empty() && !request.force {
        return Err(ApplyError::Conflicts(conflicts));
    }
    for manager in managers.others_mut(&id) {
        manager.set = manager.set.difference(&taken).difference(&difference.removed);
    }
    managers.set(&id, api_version, without_identity(&set), request.now);

    last_applied::update(request, &config, &mut object);
    if live.as_ref() == Some(&object)
        && before == managers
        && let Some(live) = request.live
    {
        return Ok(Applied { object: live.clone(), changed: false });
    }
    managers.write(&mut object);
    let changed = request.live != Some(&object);
    Ok(Applied { object, changed })
}

/// The part of the configuration in the scope of this request, without fields that have no owner.
fn applied_object(request: &ApplyRequest<'_>) -> Result<Value, ApplyError> {
    let invalid = |text: &str| Err(ApplyError::Invalid(text.to_owned()));
    let Some(config) = request.config.as_object() else {
        return invalid("the applied configuration must be an object");
    };
    if request.manager.is_empty() {
        return invalid("fieldManager is required for apply patch");
    }
    let mut config = config.clone();
    if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut) {
        if metadata.get("managedFields").is_some_and(|m| m.as_array().is_none_or(|m| !m.is_empty())) {
            return invalid("metadata.managedFields must be nil");
        }
        for key in SERVER_FIELDS.iter().chain(&["managedFields"]) {
            metadata.shift_remove(*key);
        }
        if request.subresource.is_some() {
            metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace"));
        }
    }
    if let Some(subresource) = request.subresource {
        config.retain(|key, _| {
            key == subresource || matches!(key.as_str(), "apiVersion" | "kind" | "metadata")
        });
    }
    let mut config = Value::Object(config);
    if !request.layout.is_custom() {
        drop_nulls(&mut config);
    }
    Ok(config)
}

/// Built-in types do not store nulls: a null is an unset field.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Metadata managed by the server.
const SERVER_FIELDS: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

fn keep_server_fields(live: Option<&Value>, object: &mut Value) {
    let Some(live) = live.and_then(|live| live.get("metadata")?.as_object()) else { return };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for key in SERVER_FIELDS.iter().chain(&["name", "namespace"]) {
        if let Some(value) = live.get(*key) {
            metadata.insert((*key).to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests;

//! Field ownership after a create, update or patch.

use serde_json::{Map, Value};

use super::{
    fields::compare,
    managers::{Id, Managers, bare, strip_managed_fields, without_identity},
};
use crate::layout::Layout;

/// Tracks in `new` the changes of `manager` relative to `live`: it owns what it added or changed, and removed
/// fields lose their owners. Call it last, on the object as stored.
///
/// A client may set `metadata.managedFields` itself, for example to transfer fields; an explicit empty list
/// resets all owners.
pub fn track_update(
    live: Option<&Value>,
    new: &mut Value,
    manager: &str,
    subresource: Option<&str>,
    layout: Layout<'_>,
    now: &str,
) {
    if is_reset(new) {
        strip_managed_fields(new);
        return;
    }
    let mut managers = Managers::read(new);
    if managers.is_empty() {
        managers = live.map(Managers::read).unwrap_or_default();
    }
    let new_bare = bare(new);
    let live_bare = live.map_or_else(|| Value::Object(Map::new()), bare);
    let difference = compare(layout, &live_bare, &new_bare);
    let api_version = new["apiVersion"].as_str().unwrap_or_default().to_owned();
    let id = Id::new(manager, false, subresource, &api_version);
    let taken = difference.modified.union(&difference.added);
    for other in managers.others_mut(&id) {
        other.set = other.set.difference(&taken).difference(&difference.removed);
    }
    let mine = managers.get(&id).map(|manager| manager.set.clone()).unwrap_or_default();
    let mine = without_identity(&mine.difference(&difference.removed).union(&taken));
    managers.set(&id, &api_version, mine, now);
    managers.cap();
    managers.write(new);
}

/// `managedFields: []` or `[{}]`.
fn is_reset(object: &Value) -> bool {
    match object["metadata"].get("managedFields").and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// The default manager of a request: its user agent up to the first slash.
pub fn manager_from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

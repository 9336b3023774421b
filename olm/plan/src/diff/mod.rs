//! Field differences between the live object, the last applied one, and the new one.
//!
//! Plans are applied by server-side apply, so the differences follow its rules: fields that are not in the
//! manifest stay unless they were ours before; lists with keys are merged by key; all other lists are
//! replaced as a whole. Server-side defaults are not differences. Paths are JSON pointers, in which an
//! element of a list that is merged by key is selected by it:
//! `/spec/template/spec/containers[name=manager]/image`.

mod applied;
mod compare;
mod defaults;
mod lists;
mod manager;
mod mask;
mod view;

use std::borrow::Cow;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::planned::FieldDiff;
use applied::Last;
use compare::{Change, compare};
pub use manager::managers as field_managers;
pub use mask::without_secrets;

#[derive(Debug, Default)]
pub(crate) struct Diff {
    /// By path.
    pub(crate) fields: Vec<FieldDiff>,
    /// Whether a secret value among them was masked.
    pub(crate) masked: bool,
    /// Whether `/spec/versions` is known to be unchanged; false only means unknown.
    pub(crate) same_versions: bool,
}

/// The fields that change when `new` is applied over `live`; `previous` is the last applied object. Without
/// it, it is reconstructed from the live object: by our managed fields, or by the annotation of `kubectl
/// apply`.
pub(crate) fn difference(live: &Value, previous: Option<&Value>, new: &Value) -> Diff {
    let new = normalized(new);
    let previous = previous.map(normalized);
    let last = match &previous {
        Some(previous) => Last::rendered(previous),
        None => Last::read(live),
    };
    let (changes, same_versions) = changes(live, &last, &new);
    let mut diff = Diff { same_versions, ..Diff::default() };
    for change in changes {
        let (field, masked) = view::view(&change, live, &new);
        diff.fields.push(field);
        diff.masked |= masked;
    }
    diff
}

/// The fields of [`difference`].
pub(crate) fn diff(live: &Value, previous: Option<&Value>, new: &Value) -> Vec<FieldDiff> {
    difference(live, previous, new).fields
}

fn changes<'a>(live: &'a Value, last: &'a Last<'a>, new: &'a Value) -> (Vec<Change<'a>>, bool) {
    let (mut list, same_versions) = compare(live, last, new);
    list.sort_by(|a, b| a.path.cmp(&b.path));
    (list, same_versions)
}

/// `stringData` is another form of `data`.
fn normalized(manifest: &Value) -> Cow<'_, Value> {
    let strings = manifest.get("stringData").and_then(Value::as_object);
    let Some(strings) = strings.filter(|_| manifest["kind"] == "Secret") else {
        return Cow::Borrowed(manifest);
    };
    let mut out = manifest.clone();
    for (key, value) in strings {
        let text = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        if !out["data"].is_object() {
            out["data"] = json!({});
        }
        out["data"][key] = json!(text);
    }
    if let Some(object) = out.as_object_mut() {
        object.remove("stringData");
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;

//! The last applied object, as far as known.

use std::borrow::Cow;

use olm_api::names::FIELD_MANAGER;
use serde_json::{Map, Value};

/// Annotation of `kubectl apply` with a copy of the object.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Debug)]
pub(super) struct Last<'a> {
    /// The manifest, or its known part.
    pub(super) manifest: Option<Cow<'a, Value>>,
    /// Whether a missing field was certainly not applied; otherwise that is unknown.
    pub(super) complete: bool,
    /// Whether this manager applied it: then removed fields are pruned.
    pub(super) ours: bool,
}

impl<'a> Last<'a> {
    /// The rendering of the installed version.
    pub(super) fn rendered(manifest: &'a Value) -> Self {
        Self { manifest: Some(Cow::Borrowed(manifest)), complete: true, ours: true }
    }

    /// Reconstructed from the live object. Fields that the manager still owns have their applied values: a
    /// change of a value changes its owner.
    pub(super) fn read(live: &'a Value) -> Self {
        let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
        let ours = entries.into_iter().flatten().find(|entry| {
            entry["manager"] == FIELD_MANAGER
                && entry["operation"] == "Apply"
                && entry["subresource"].is_null()
        });
        if let Some(fields) = ours.and_then(|entry| entry.get("fieldsV1")) {
            let manifest = Some(Cow::Owned(owned_part(live, fields)));
            return Self { manifest, complete: false, ours: true };
        }
        let annotation = live.pointer("/metadata/annotations").and_then(|a| a.get(LAST_APPLIED)?.as_str());
        let manifest = annotation.and_then(|text| serde_json::from_str(text).ok()).map(Cow::Owned);
        Self { complete: manifest.is_some(), manifest, ours: false }
    }
}

/// The part of an object in `fieldsV1`.
fn owned_part(live: &Value, fields: &Value) -> Value {
    let names = fields.as_object().filter(|names| names.keys().any(|name| name != "."));
    let Some(names) = names else { return live.clone() };
    match live {
        Value::Object(live) => {
            let part = names.iter().filter_map(|(name, below)| {
                let key = name.strip_prefix("f:")?;
                Some((key.to_owned(), owned_part(live.get(key)?, below)))
            });
            Value::Object(part.collect::<Map<_, _>>())
        }
        Value::Array(live) => {
            let part = names.iter().filter_map(|(name, below)| {
                let element = live.iter().find(|element| names_element(name, element))?;
                Some(owned_part(element, below))
            });
            Value::Array(part.collect())
        }
        other => other.clone(),
    }
}

/// Whether `k:{"name":"a"}` or `v:"a"` selects an element of a list.
pub(super) fn names_element(name: &str, element: &Value) -> bool {
    if let Some(keys) = name.strip_prefix("k:") {
        let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
        return !keys.is_empty() && keys.iter().all(|(key, value)| element.get(key) == Some(value));
    }
    name.strip_prefix("v:").and_then(|value| serde_json::from_str::<Value>(value).ok()).as_ref()
        == Some(element)
}

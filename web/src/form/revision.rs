//! The part of a live object that users edit, and two edits of one object. Pure.

use olm_plan::field_managers;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    field::escape,
    secrets::{Secrets, renumber},
};

/// Metadata that users edit.
const METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
/// The copy of the object that `kubectl apply` records; it repeats secret values.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The object that an edit started from, as the page contains it: secret values are hidden.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Base {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) generation: Option<i64>,
    pub(crate) document: Value,
}

impl Base {
    pub(crate) fn of(live: &Value, secrets: &Secrets<'_>) -> Self {
        let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Self {
            uid: text("/metadata/uid"),
            resource_version: text("/metadata/resourceVersion"),
            generation: live.pointer("/metadata/generation").and_then(Value::as_i64),
            document: secrets.hide(&editable(live)),
        }
    }

    /// Whether the edit still applies to the `current` state: reports of the operator in `status` also change
    /// the resource version, and do not matter. Hidden values are compared by the generation, and their numbers
    /// by the document: an upgrade of the operator may change which values are hidden.
    pub(crate) fn applies_to(&self, current: &Self, has_secrets: bool) -> bool {
        let is_same = self.resource_version.is_some() && self.resource_version == current.resource_version;
        if is_same && !has_secrets {
            return true;
        }
        self.uid == current.uid
            && self.document == current.document
            && (!has_secrets || self.generation == current.generation)
    }

    /// Whether this is another object with the same name.
    pub(crate) fn is_another(&self, current: &Self) -> bool {
        self.uid.is_some() && self.uid != current.uid
    }
}

/// The part of an object that users edit: neither status nor the metadata of the API server.
pub(crate) fn editable(live: &Value) -> Value {
    let field = |name: &str| live.get(name).cloned().unwrap_or_default();
    let mut metadata = Map::new();
    for key in ["name", "namespace"].into_iter().chain(METADATA) {
        let Some(mut value) = live["metadata"].get(key).cloned() else { continue };
        if let Some(annotations) = value.as_object_mut().filter(|_| key == "annotations") {
            annotations.shift_remove(LAST_APPLIED);
            if annotations.is_empty() {
                continue;
            }
        }
        metadata.insert(key.to_owned(), value);
    }
    let mut out = json!({ "apiVersion": field("apiVersion"), "kind": field("kind"), "metadata": metadata });
    for (key, value) in live.as_object().into_iter().flatten() {
        if is_content(key) {
            out[key] = value.clone();
        }
    }
    out
}

fn is_content(key: &str) -> bool {
    !matches!(key, "apiVersion" | "kind" | "metadata" | "status")
}

/// The object to write: the live one with the content of an edited document.
///
/// # Errors
/// The field that cannot be changed.
pub(crate) fn written(live: &Value, document: &Value) -> Result<Value, String> {
    for (pointer, name) in [
        ("/apiVersion", "apiVersion"),
        ("/kind", "kind"),
        ("/metadata/name", "metadata.name"),
        ("/metadata/namespace", "metadata.namespace"),
    ] {
        let (old, new) = (live.pointer(pointer), document.pointer(pointer));
        if old != new {
            let old = old.and_then(Value::as_str).unwrap_or("no value");
            return Err(format!("{name}: cannot be changed, expected {old}"));
        }
    }
    let given = document["metadata"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let fixed = |key: &&str| !METADATA.contains(key) && !matches!(*key, "name" | "namespace");
    if let Some(key) = given.into_iter().find(fixed) {
        return Err(format!("metadata.{key}: cannot be changed here, expected no value"));
    }
    if document.get("status").is_some() {
        return Err("status: cannot be changed here, expected no value".into());
    }
    let mut out = live.clone();
    let content = |(key, value): (&String, &Value)| is_content(key).then(|| (key.clone(), value.clone()));
    if let (Some(out), Some(document)) = (out.as_object_mut(), document.as_object()) {
        out.retain(|key, _| !is_content(key) || document.contains_key(key));
        out.extend(document.iter().filter_map(content));
    }
    let Some(metadata) = out["metadata"].as_object_mut() else { return Ok(out) };
    let applied = metadata.get("annotations").and_then(|a| a.get(LAST_APPLIED)).cloned();
    // Absent managed fields stay as they are.
    metadata.shift_remove("managedFields");
    for key in METADATA {
        match document["metadata"].get(key) {
            Some(value) => _ = metadata.insert(key.to_owned(), value.clone()),
            None => _ = metadata.shift_remove(key),
        }
    }
    if let Some(applied) = applied {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(LAST_APPLIED.to_owned(), applied);
        }
    }
    Ok(out)
}

/// A changed field.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    /// JSON pointer.
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<Value>,
    /// The field managers that own the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
}

/// The fields that differ between two objects, in the order of their paths. Values are those of the masked
/// objects; `owned` is the object whose managed fields name the owners.
pub(crate) fn differences(
    live: (&Value, &Value),
    new: (&Value, &Value),
    owned: Option<&Value>,
) -> Vec<Difference> {
    let mut paths = Vec::new();
    compare(Some(live.0), Some(new.0), "", &mut paths);
    let difference = |path: String| Difference {
        live: live.1.pointer(&path).cloned(),
        new: new.1.pointer(&path).cloned(),
        by: owned.and_then(|owned| field_managers(owned, &path)),
        path,
    };
    paths.into_iter().map(difference).collect()
}

fn compare(old: Option<&Value>, new: Option<&Value>, at: &str, out: &mut Vec<String>) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                compare(old.get(key), new.get(key), &format!("{at}/{}", escape(key)), out);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                compare(Some(old), Some(new), &format!("{at}/{i}"), out);
            }
        }
        _ => out.push(at.to_owned()),
    }
}

/// The document `mine`, made from `base`, on top of the `current` state, and the paths that both changed: there
/// the value of `mine` is kept. All documents have hidden secrets.
pub(crate) fn merge(base: &Value, mine: &Value, current: &Value) -> (Value, Vec<String>) {
    let (old, mine) = (renumber(base, base, current), renumber(mine, base, current));
    let mut both = Vec::new();
    let merged = merge_at(Some(&old), Some(&mine), Some(current), "", &mut both);
    (merged.unwrap_or_default(), both)
}

/// Two states of one object with the same numbers for the same hidden values.
pub(crate) fn renumbered(base: &Value, current: &Value) -> (Value, Value) {
    (renumber(base, base, current), current.clone())
}

fn merge_at(
    base: Option<&Value>,
    mine: Option<&Value>,
    current: Option<&Value>,
    at: &str,
    both: &mut Vec<String>,
) -> Option<Value> {
    if mine == base {
        return current.cloned();
    }
    if current == base || mine == current {
        return mine.cloned();
    }
    if let (Some(Value::Object(mine)), Some(Value::Object(current))) = (mine, current) {
        let empty = Map::new();
        let base = base.and_then(Value::as_object).unwrap_or(&empty);
        let mut out = Map::new();
        for key in current.keys().chain(mine.keys().filter(|key| !current.contains_key(*key))) {
            let at = format!("{at}/{}", escape(key));
            if let Some(value) = merge_at(base.get(key), mine.get(key), current.get(key), &at, both) {
                out.insert(key.clone(), value);
            }
        }
        return Some(Value::Object(out));
    }
    both.push(at.to_owned());
    mine.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Value {
        json!({
            "apiVersion": "a/v1", "kind": "X",
            "metadata": {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": 2,
                "annotations": {LAST_APPLIED: "{}", "note": "x"}, "managedFields": [{}]},
            "spec": {"size": 3, "unknown": {"kept": true}, "list": [1, 2]},
            "extra": 1,
            "status": {"phase": "Running"},
        })
    }

    #[test]
    fn an_edit_writes_back_everything_else() {
        let mut document = editable(&live());
        assert_eq!(
            document,
            json!({"apiVersion": "a/v1", "kind": "X",
                "metadata": {"name": "n", "namespace": "ns", "annotations": {"note": "x"}},
                "spec": {"size": 3, "unknown": {"kept": true}, "list": [1, 2]}, "extra": 1})
        );
        document["spec"]["size"] = 5.into();
        document.as_object_mut().unwrap().shift_remove("extra");
        document["metadata"].as_object_mut().unwrap().shift_remove("annotations");
        let mut expected = live();
        expected["spec"]["size"] = 5.into();
        expected.as_object_mut().unwrap().shift_remove("extra");
        expected["metadata"].as_object_mut().unwrap().shift_remove("managedFields");
        expected["metadata"]["annotations"] = json!({LAST_APPLIED: "{}"});
        assert_eq!(written(&live(), &document).unwrap(), expected);
    }

    #[test]
    fn identity_and_status_are_not_edited() {
        for (change, field) in [
            (json!({"kind": "Y"}), "kind"),
            (json!({"metadata": {"name": "m", "namespace": "ns"}}), "metadata.name"),
            (json!({"metadata": {"name": "n"}}), "metadata.namespace"),
            (json!({"metadata": {"name": "n", "namespace": "ns", "uid": "v"}}), "metadata.uid"),
            (json!({"status": {}}), "status"),
        ] {
            let mut document = editable(&live());
            for (key, value) in change.as_object().unwrap() {
                document[key] = value.clone();
            }
            let error = written(&live(), &document).unwrap_err();
            assert!(error.starts_with(&format!("{field}: ")), "{error}");
        }
    }

    #[test]
    fn a_report_of_the_operator_is_no_conflict() {
        let secrets = Secrets::new(None, &[]);
        let base = Base::of(&live(), &secrets);
        let mut reported = live();
        reported["metadata"]["resourceVersion"] = "6".into();
        reported["status"]["phase"] = "Failed".into();
        assert!(base.applies_to(&Base::of(&reported, &secrets), true));
        reported["metadata"]["generation"] = 3.into();
        let now = Base::of(&reported, &secrets);
        assert!(base.applies_to(&now, false) && !base.applies_to(&now, true));
        reported["spec"]["size"] = 4.into();
        assert!(!base.applies_to(&Base::of(&reported, &secrets), false));
        reported["metadata"]["uid"] = "v".into();
        assert!(base.is_another(&Base::of(&reported, &secrets)));
    }

    #[test]
    fn two_edits_are_merged_and_mine_wins() {
        let base = json!({"spec": {"a": 1, "b": 1, "c": 1, "list": [1], "gone": 1}});
        let mine = json!({"spec": {"a": 2, "b": 2, "c": 1, "list": [1, 2], "gone": 1, "added": 1}});
        let current = json!({"spec": {"a": 1, "b": 3, "c": 3, "list": [3]}});
        let (merged, both) = merge(&base, &mine, &current);
        assert_eq!(merged, json!({"spec": {"a": 2, "b": 2, "c": 3, "list": [1, 2], "added": 1}}));
        assert_eq!(both, ["/spec/b", "/spec/list"]);
    }

    #[test]
    fn differences_name_owners_and_mask_values() {
        let (mut old, mut new) = (live(), live());
        old["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:size": {}}}}]);
        new["spec"]["size"] = 5.into();
        new["spec"]["list"] = json!([1]);
        let masked = |object: &Value| {
            let mut out = object.clone();
            out["spec"]["size"] = "hidden".into();
            out
        };
        let found = differences((&old, &masked(&old)), (&new, &masked(&new)), Some(&old));
        let found: Vec<_> = found.iter().filter(|d| d.path.starts_with("/spec")).collect();
        assert_eq!(found[0].path, "/spec/list");
        assert_eq!((&found[1].live, &found[1].new), (&Some(json!("hidden")), &Some(json!("hidden"))));
        assert_eq!(found[1].by.as_deref(), Some("kubectl"));
    }
}

//! Field ownership of objects that OLM v0 wrote. Pure.
//!
//! OLM v0 updates objects; a field that it set keeps OLM as its owner, and would remain when the next version
//! of an operator no longer has it. So its entries are renamed to ours: the next apply of a whole manifest
//! removes what is not in it.
//!
//! Annotations of pod templates are the exception. Our manifest may lack some that OLM added, and removing
//! one restarts the operator. They stay under OLM's name, unchanged.

use serde_json::{Map, Value, json};

use super::LEGACY_MANAGERS;

/// The fields that keep their owner.
const KEPT: [&str; 4] = ["f:spec", "f:template", "f:metadata", "f:annotations"];

/// The new entries of an object, or `None` when OLM owns none of them.
pub(super) fn adopted(entries: &[Value], ours: &str) -> Option<Vec<Value>> {
    let theirs = |entry: &Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        // Status is written by its subresource and keeps its owner.
        LEGACY_MANAGERS.contains(&manager) && entry["subresource"].as_str().unwrap_or_default().is_empty()
    };
    let version = entries.iter().find(|entry| theirs(entry))?["apiVersion"].clone();
    let mine = |entry: &Value| {
        entry["manager"] == ours && entry["operation"] == "Apply" && entry["subresource"].is_null()
    };
    // Field sets of different API versions are not merged.
    let foreign = |entry: &Value| (theirs(entry) || mine(entry)) && entry["apiVersion"] != version;
    if entries.iter().any(foreign) {
        return None;
    }
    let mut moved = Map::new();
    let mut out = Vec::new();
    let mut changed = false;
    for entry in entries {
        let fields = entry["fieldsV1"].as_object().cloned().unwrap_or_default();
        if mine(entry) {
            merge(&mut moved, &fields);
        } else if theirs(entry) {
            let (kept, rest) = split(fields, &KEPT);
            changed |= !rest.is_empty();
            merge(&mut moved, &rest);
            if !kept.is_empty() {
                let mut entry = entry.clone();
                entry["fieldsV1"] = kept.into();
                out.push(entry);
            }
        } else {
            out.push(entry.clone());
        }
    }
    out.push(json!({
        "manager": ours,
        "operation": "Apply",
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": moved,
    }));
    changed.then_some(out)
}

/// The fields under a path, and all others.
fn split(mut fields: Map<String, Value>, path: &[&str]) -> (Map<String, Value>, Map<String, Value>) {
    let Some((first, rest)) = path.split_first() else { return (fields, Map::new()) };
    let Some(Value::Object(below)) = fields.remove(*first) else { return (Map::new(), fields) };
    let (kept, others) = split(below, rest);
    if !others.is_empty() {
        fields.insert((*first).to_owned(), others.into());
    }
    let kept =
        if kept.is_empty() { Map::new() } else { Map::from_iter([((*first).to_owned(), kept.into())]) };
    (kept, fields)
}

/// The union of two field sets. The recursion is bounded by the depth limit of the API server's JSON.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => merge(there, more),
            (Some(_), _) => {}
            (None, _) => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({ "manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": fields })
    }

    #[test]
    fn what_olm_updated_becomes_ours_but_for_the_annotations_of_pods() {
        // given a Deployment that OLM wrote, with status and revision by other managers
        let template = json!({ "f:metadata": { "f:annotations": { "f:capabilities": {} }, "f:labels": { "f:app": {} } },
                               "f:spec": { "f:containers": {} } });
        let status = json!({ "manager": "olm", "operation": "Update", "apiVersion": "apps/v1", "subresource": "status",
                             "fieldsType": "FieldsV1", "fieldsV1": { "f:status": {} } });
        let entries = [
            entry("olm", "Update", json!({ "f:spec": { "f:replicas": {}, "f:template": template } })),
            entry("kube-controller-manager", "Update", json!({ "f:metadata": { "f:annotations": {} } })),
            status.clone(),
        ];
        // when
        let taken = adopted(&entries, "ours").unwrap();
        // then
        assert_eq!(
            taken,
            [
                entry(
                    "olm",
                    "Update",
                    json!({ "f:spec": { "f:template": { "f:metadata": { "f:annotations": {
                    "f:capabilities": {} } } } } })
                ),
                entries[1].clone(),
                status,
                entry(
                    "ours",
                    "Apply",
                    json!({ "f:spec": { "f:replicas": {}, "f:template": {
                    "f:metadata": { "f:labels": { "f:app": {} } }, "f:spec": { "f:containers": {} } } } })
                ),
            ]
        );
        // and a second run changes nothing
        assert_eq!(adopted(&taken, "ours"), None);
    }

    #[test]
    fn what_is_ours_already_is_added_to() {
        let entries = [
            entry("ours", "Apply", json!({ "f:a": {}, "f:b": { "f:c": {} } })),
            entry("catalog", "Update", json!({ "f:b": { "f:d": {} } })),
        ];
        let taken = adopted(&entries, "ours").unwrap();
        assert_eq!(taken, [entry("ours", "Apply", json!({ "f:a": {}, "f:b": { "f:c": {}, "f:d": {} } }))]);
    }

    #[test]
    fn fields_of_other_managers_are_ignored() {
        assert_eq!(adopted(&[entry("kubectl", "Update", json!({ "f:a": {} }))], "ours"), None);
        assert_eq!(adopted(&[], "ours"), None);
        // and fields of another API version are not merged
        let mut old = entry("olm", "Update", json!({ "f:a": {} }));
        old["apiVersion"] = "apps/v1beta1".into();
        let mine = entry("ours", "Apply", json!({ "f:b": {} }));
        assert_eq!(adopted(&[mine, old], "ours"), None);
    }
}

//! The API server's status of a CustomResourceDefinition: accepted names, conditions, stored versions.

use serde_json::{Map, Value, json};

use super::is_established;

/// Computes the status of a valid CRD; returns whether it changed.
///
/// `taken` returns the other CRD that holds a plural, singular, short name, kind or list kind in the group.
/// Names that another resource holds are not accepted; a CRD none of whose names were ever accepted is not
/// established.
pub fn compute_status(crd: &mut Value, taken: &dyn Fn(&str) -> Option<String>, now: &str) -> bool {
    let before = crd.get("status").cloned();
    let names = crd["spec"]["names"].clone();
    let mut accepted = before
        .as_ref()
        .and_then(|status| status.get("acceptedNames"))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let mut conflicts: Vec<(&str, String)> = Vec::new();
    for (key, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let Some(requested) = names.get(key) else {
            accepted.shift_remove(key);
            continue;
        };
        let texts: Vec<&str> = match requested {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            other => other.as_str().into_iter().collect(),
        };
        let holders: Vec<_> = texts.iter().filter_map(|text| Some((*text, taken(text)?))).collect();
        if holders.is_empty() {
            accepted.insert(key.to_owned(), requested.clone());
        } else {
            let quoted: Vec<_> = holders.iter().map(|(text, _)| format!("\"{text}\"")).collect();
            conflicts.push((reason, format!("{} is already in use", quoted.join(", "))));
        }
    }
    match names.get("categories") {
        Some(categories) => accepted.insert("categories".to_owned(), categories.clone()),
        None => accepted.shift_remove("categories"),
    };
    for key in ["plural", "kind"] {
        accepted.entry(key).or_insert_with(|| json!(""));
    }

    let (names_accepted, reason, message) = match conflicts.first() {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, _)) => {
            let texts: Vec<_> = conflicts.iter().map(|(_, text)| text.clone()).collect();
            ("False", *reason, texts.join(", "))
        }
    };
    let established = is_established(crd) || names_accepted == "True";
    let mut conditions: Vec<Value> =
        before.as_ref().and_then(|s| s.get("conditions")?.as_array().cloned()).unwrap_or_default();
    set_condition(&mut conditions, "NamesAccepted", names_accepted, reason, &message, now);
    if established {
        set_condition(
            &mut conditions,
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
            now,
        );
    } else {
        set_condition(
            &mut conditions,
            "Established",
            "False",
            "NotAccepted",
            "not all names are accepted",
            now,
        );
    }

    let mut stored: Vec<Value> =
        before.as_ref().and_then(|s| s.get("storedVersions")?.as_array().cloned()).unwrap_or_default();
    let storage = crd["spec"]["versions"]
        .as_array()
        .and_then(|list| list.iter().find(|v| v["storage"] == true))
        .map(|v| v["name"].clone());
    if let Some(storage) = storage
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }

    let mut status = before.as_ref().and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    status.insert("acceptedNames".to_owned(), accepted.into());
    status.insert("conditions".to_owned(), conditions.into());
    status.insert("storedVersions".to_owned(), stored.into());
    let after = Value::from(status);
    let changed = before.as_ref() != Some(&after);
    if changed && let Some(crd) = crd.as_object_mut() {
        crd.insert("status".to_owned(), after);
    }
    changed
}

/// Whether all requested names of a CRD are accepted. True without a status.
#[must_use]
pub fn has_accepted_names(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    !conditions.into_iter().flatten().any(|c| c["type"] == "NamesAccepted" && c["status"] != "True")
}

fn set_condition(
    conditions: &mut Vec<Value>,
    ty: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut new = json!({
        "type": ty, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|c| c["type"] == ty) {
        Some(old) => {
            if old["status"] == status && !old["lastTransitionTime"].is_null() {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

//! Masks secret values.
//!
//! Masked are the data of Secrets, and the values of environment variables with the name of a credential
//! (`DB_PASSWORD`, `API_TOKEN`). A variable with only the location of a credential (`TOKEN_FILE`,
//! `SECRET_NAME`) is shown, and so is one whose value is a switch or a number. ConfigMaps are shown: they are
//! not for secrets.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::applied::LAST_APPLIED;

pub(super) const MASK: &str = "***";

const CREDENTIALS: &[&str] = &[
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
];
/// `KEY` alone may be any key.
const KEYS: &[&str] = &["API", "ACCESS", "PRIVATE", "SECRET", "ENCRYPTION", "SIGNING", "AUTH"];
/// Suffixes for the location of a credential.
const PLACES: &[&str] = &[
    "NAME",
    "NAMES",
    "REF",
    "FILE",
    "PATH",
    "DIR",
    "URL",
    "URI",
    "NAMESPACE",
    "TYPE",
    "KIND",
    "TTL",
    "ISSUER",
];

/// A value with its secrets masked, and whether there were any.
pub(super) fn masked<'a>(kind: &str, path: &str, value: &'a Value) -> (Cow<'a, Value>, bool) {
    if kind == "Secret" && (path.starts_with("/data") || path.starts_with("/stringData")) {
        return (Cow::Owned(all_masked(value)), true);
    }
    // the value of one variable
    let variable = path.strip_suffix("/value").and_then(|path| path.rsplit_once("env[name="));
    if let Some((_, name)) = variable.and_then(|(head, name)| Some((head, name.strip_suffix(']')?))) {
        return match is_credential(name, value) {
            true => (json_mask(), true),
            false => (Cow::Borrowed(value), false),
        };
    }
    if kind == "CustomResourceDefinition" || !holds_credentials(value) {
        return (Cow::Borrowed(value), false);
    }
    (Cow::Owned(without_credentials(value)), true)
}

/// An object, or a `List` of objects, without the data of a Secret, without the values of environment variables
/// with the name of a credential, and without the copy of the object that `kubectl apply` records.
#[must_use]
pub fn without_secrets(object: &Value) -> Value {
    let Value::Object(map) = object else { return object.clone() };
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let shown = |(key, value): (&String, &Value)| {
        let shown = match value {
            Value::Array(items) if kind == "List" && key == "items" => {
                items.iter().map(without_secrets).collect()
            }
            value => masked(kind, &format!("/{key}"), value).0.into_owned(),
        };
        (key.clone(), shown)
    };
    let mut out = Value::Object(map.iter().map(shown).collect());
    if let Some(annotations) = out.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| key != LAST_APPLIED);
    }
    out
}

fn json_mask() -> Cow<'static, Value> {
    Cow::Owned(json!(MASK))
}

/// The keys stay visible.
fn all_masked(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.keys().map(|key| (key.clone(), json!(MASK))).collect::<Map<_, _>>().into(),
        _ => json!(MASK),
    }
}

/// Whether a value is, or contains, an element `{name: DB_PASSWORD, value: ...}`.
fn holds_credentials(value: &Value) -> bool {
    match value {
        Value::Object(map) => is_variable(map) || map.values().any(holds_credentials),
        Value::Array(list) => list.iter().any(holds_credentials),
        _ => false,
    }
}

fn is_variable(map: &Map<String, Value>) -> bool {
    match (map.get("name").and_then(Value::as_str), map.get("value")) {
        (Some(name), Some(value)) => is_credential(name, value),
        _ => false,
    }
}

fn without_credentials(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let secret = is_variable(map);
            let shown = |(key, value): (&String, &Value)| {
                let value = if secret && key == "value" { json!(MASK) } else { without_credentials(value) };
                (key.clone(), value)
            };
            map.iter().map(shown).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.iter().map(without_credentials).collect(),
        other => other.clone(),
    }
}

/// Whether a variable has the name of a credential.
fn is_credential(name: &str, value: &Value) -> bool {
    let Some(text) = value.as_str().filter(|text| !text.is_empty()) else { return false };
    if text.parse::<f64>().is_ok() || ["true", "false"].contains(&text.to_lowercase().as_str()) {
        return false;
    }
    let upper = name.to_uppercase();
    let words: Vec<&str> =
        upper.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    if words.last().is_none_or(|last| PLACES.contains(last)) {
        return false;
    }
    let key = words.windows(2).any(|pair| pair[1] == "KEY" && KEYS.contains(&pair[0]));
    key || words.iter().any(|word| CREDENTIALS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_without_secrets_keeps_its_keys() {
        let secret = json!({ "kind": "Secret", "metadata": { "name": "a" }, "data": { "key": "eA==" } });
        let shown = without_secrets(&secret);
        assert_eq!(shown["data"]["key"], MASK);
        assert_eq!(shown["metadata"], secret["metadata"]);
        // also in a list, with the copy of `kubectl apply` and with `stringData`
        let copied = json!({ LAST_APPLIED: "eA==", "note": "n" });
        let secret = json!({ "kind": "Secret", "metadata": { "annotations": copied }, "stringData": { "key": "eA==" } });
        let shown = without_secrets(&json!({ "kind": "List", "items": [secret] }));
        assert_eq!(shown["items"][0]["metadata"]["annotations"], json!({ "note": "n" }));
        assert_eq!(shown["items"][0]["stringData"], json!({ "key": MASK }));
        let env = json!([{ "name": "DB_PASSWORD", "value": "x" }, { "name": "MODE", "value": "fast" }]);
        let subscription = json!({ "kind": "Subscription", "spec": { "config": { "env": env } } });
        let shown = without_secrets(&subscription);
        assert_eq!(shown["spec"]["config"]["env"][0]["value"], MASK);
        assert_eq!(shown["spec"]["config"]["env"][1]["value"], "fast");
    }
}

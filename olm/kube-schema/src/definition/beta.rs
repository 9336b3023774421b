//! apiextensions.k8s.io/v1beta1: the same definitions with a different layout.
//!
//! A definition of the old API is rewritten as one of the new API, for which the rules are written, and the
//! paths of errors are mapped back.

use serde_json::{Map, Value, json};

use crate::field_error::FieldError;

/// Fields that the old API may set once for all versions, with their pointers in a version of the new API.
const SHARED: [(&str, &str); 3] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
];

/// The definition in the form of apiextensions.k8s.io/v1.
///
/// A version without a schema gets the unrestricted one, and so does one whose schema need not be structural
/// because unknown fields are preserved.
pub(super) fn to_v1(crd: &Value) -> Value {
    let mut crd = crd.clone();
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return crd };
    let is_structural = spec.shift_remove("preserveUnknownFields") == Some(Value::Bool(false));
    let single =
        spec.shift_remove("version").filter(|version| version.as_str().is_some_and(|v| !v.is_empty()));
    let shared: Vec<Option<Value>> =
        SHARED.iter().map(|(key, _)| spec.shift_remove(*key).filter(|value| !value.is_null())).collect();
    let versions = spec.entry("versions").or_insert_with(|| json!([]));
    if versions.as_array().is_none_or(Vec::is_empty)
        && let Some(name) = single
    {
        *versions = json!([{"name": name, "served": true, "storage": true}]);
    }
    for version in versions.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        for ((_, key), shared) in SHARED.iter().zip(&shared) {
            if let Some(shared) = shared
                && version.get(*key).is_none_or(Value::is_null)
            {
                version.insert((*key).to_owned(), shared.clone());
            }
        }
        let has_schema =
            version.get("schema").and_then(|s| s.get("openAPIV3Schema")).is_some_and(Value::is_object);
        if !has_schema || !is_structural {
            let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            version.insert("schema".to_owned(), json!({"openAPIV3Schema": anything}));
        }
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
            if let Some(path) = column.shift_remove("JSONPath") {
                column.insert("jsonPath".to_owned(), path);
            }
        }
    }
    if spec.get("scope").and_then(Value::as_str).is_none_or(str::is_empty) {
        spec.insert("scope".to_owned(), "Namespaced".into());
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        move_webhook(conversion);
    }
    crd
}

/// The old API has the webhook's fields next to the strategy.
fn move_webhook(conversion: &mut Map<String, Value>) {
    if conversion.get("strategy").and_then(Value::as_str).is_none_or(str::is_empty) {
        conversion.insert("strategy".to_owned(), "None".into());
    }
    let client = conversion.shift_remove("webhookClientConfig").filter(|client| !client.is_null());
    let versions = conversion.shift_remove("conversionReviewVersions").filter(|versions| !versions.is_null());
    if client.is_some() || versions.is_some() || conversion["strategy"] == "Webhook" {
        let mut webhook = json!({"clientConfig": client});
        // v1beta1 is the default.
        webhook["conversionReviewVersions"] = versions.unwrap_or_else(|| json!(["v1beta1"]));
        conversion.insert("webhook".to_owned(), webhook);
    }
}

/// Errors of the rewritten definition with the paths of the old API, without duplicates. The old API does not
/// require an approval of protected groups.
pub(super) fn to_beta_paths(crd: &Value, errors: Vec<FieldError>) -> Vec<FieldError> {
    let mut seen: Vec<FieldError> = Vec::new();
    for mut error in errors.into_iter().filter(|error| !error.path.starts_with("metadata.annotations")) {
        error.path = to_beta_path(crd, &error.path);
        if !seen.contains(&error) {
            seen.push(error);
        }
    }
    seen
}

fn to_beta_path(crd: &Value, path: &str) -> String {
    let path = path
        .replace("spec.conversion.webhook.clientConfig", "spec.conversion.webhookClientConfig")
        .replace("spec.conversion.webhook.", "spec.conversion.")
        .replace("].jsonPath", "].JSONPath");
    let Some((index, rest)) = path.strip_prefix("spec.versions[").and_then(|rest| rest.split_once("]."))
    else {
        return path;
    };
    for (shared, key) in SHARED {
        let is_of = |rest: &str| {
            rest.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if is_of(rest) {
            let own = crd.pointer(&format!("/spec/versions/{index}/{key}")).is_some_and(|own| !own.is_null());
            return if own { path } else { format!("spec.{shared}{}", &rest[key.len()..]) };
        }
    }
    path
}

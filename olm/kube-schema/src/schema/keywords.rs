//! The keywords that API servers support.

use serde_json::Value;

use super::{MAX_DEPTH, child_path};

const KNOWN: [&str; 43] = [
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "definitions",
    "dependencies",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
];

/// Keywords of a schema that API servers drop, or refuse under strict field validation: `readOnly`,
/// `minlength`. `path` is the path of the schema.
#[must_use]
pub fn unknown_keywords(schema: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(schema, path, 0, &mut found);
    found
}

fn walk(schema: &Value, path: &str, depth: usize, found: &mut Vec<String>) {
    let Some(map) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return };
    for (key, value) in map {
        match key.as_str() {
            "x-kubernetes-validations" => {}
            key if !KNOWN.contains(&key) => found.push(child_path(path, key)),
            "properties" => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    walk(schema, &format!("{path}.properties[{name}]"), depth + 1, found);
                }
            }
            "items" | "additionalProperties" | "not" => walk(value, &child_path(path, key), depth + 1, found),
            "allOf" | "anyOf" | "oneOf" => {
                for (index, schema) in value.as_array().into_iter().flatten().enumerate() {
                    walk(schema, &format!("{path}.{key}[{index}]"), depth + 1, found);
                }
            }
            _ => {}
        }
    }
}

//! Structural schemas: what the API server wants of an `openAPIV3Schema`.

use serde_json::{Map, Value};

use super::super::finding::{Of, quote};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// Keywords that no structural schema has.
const FORBIDDEN: [&str; 11] = [
    "$ref",
    "additionalItems",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
];
/// Keywords that may not stand below allOf, anyOf, oneOf and not.
const NOT_IN_LOGIC: [&str; 11] = [
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
];
/// No reader of ours gives deeper values; this keeps the walk from depending on that.
const MOST_LEVELS: usize = 128;

const CODE: &str = "crd-schema";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    Field,
    Item,
}

pub(super) fn check(schema: &Value, field: &str, findings: &mut Of<'_>) {
    node(schema, field, Position::Root, 0, findings);
}

fn is_set(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

fn has(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).is_some_and(|value| !value.is_null())
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn node(schema: &Value, field: &str, position: Position, level: usize, findings: &mut Of<'_>) {
    let Some(map) = schema.as_object() else {
        return findings.error(CODE, field, "a schema is a map", "write {type: ...}");
    };
    if level > MOST_LEVELS {
        return findings.error(CODE, field, "it is nested too deeply", "simplify it");
    }
    keywords(map, field, findings);
    check_type(map, field, position, findings);
    object(map, field, position, level, findings);
    array(map, field, level, findings);
    logic(map, map, field, level, findings);
}

fn keywords(map: &Map<String, Value>, field: &str, findings: &mut Of<'_>) {
    for key in FORBIDDEN.iter().filter(|key| has(map, key)) {
        let text = "a structural schema does not have it";
        findings.error(CODE, format!("{field}.{key}"), text, "remove it");
    }
    if is_set(map, "uniqueItems") {
        let text = "it would take too long to check, so that API servers refuse it";
        findings.error(CODE, format!("{field}.uniqueItems"), text, "write x-kubernetes-list-type: set");
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{field}.x-kubernetes-preserve-unknown-fields");
        findings.error(CODE, field, "it can only be true", "remove it");
    }
    let rules = map.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let field = format!("{field}.x-kubernetes-validations[{index}]");
        if rule.get("rule").and_then(Value::as_str).is_none_or(|rule| rule.trim().is_empty()) {
            findings.error(CODE, format!("{field}.rule"), "it is required", "write the rule, or remove it");
        }
        if let Some(message) = rule.get("message").and_then(Value::as_str)
            && (message.trim().is_empty() || message.contains('\n'))
        {
            findings.error(
                CODE,
                format!("{field}.message"),
                "it must be one line that is not empty",
                "correct it",
            );
        }
    }
}

fn check_type(map: &Map<String, Value>, field: &str, position: Position, findings: &mut Of<'_>) {
    let field = format!("{field}.type");
    let type_ = text(map, "type");
    let fix = format!("write one of {}", TYPES.join(", "));
    if !type_.is_empty() && !TYPES.contains(&type_) {
        return findings.error(CODE, field, format!("{} is no type", quote(type_)), fix);
    }
    if position == Position::Root {
        if type_ != "object" {
            findings.error(CODE, field.as_str(), "the type of the whole is object", "write object");
        }
    } else if is_set(map, "x-kubernetes-int-or-string") {
        if !type_.is_empty() {
            findings.error(CODE, field.as_str(), "x-kubernetes-int-or-string has no type", "remove it");
        }
    } else if type_.is_empty() && !is_set(map, "x-kubernetes-preserve-unknown-fields") {
        let text = match position {
            Position::Item => "items need a type",
            _ => "a field needs a type",
        };
        findings.error(CODE, field.as_str(), text, fix);
    }
    if is_set(map, "x-kubernetes-embedded-resource") && type_ != "object" {
        findings.error(CODE, field, "an embedded resource is an object", "write object");
    }
}

fn object(map: &Map<String, Value>, field: &str, position: Position, level: usize, findings: &mut Of<'_>) {
    let properties = map.get("properties").filter(|value| !value.is_null());
    for (key, schema) in properties.and_then(Value::as_object).into_iter().flatten() {
        let field = crate::yaml::join(&format!("{field}.properties"), key);
        if position == Position::Root && key == "metadata" {
            metadata(schema, &field, findings);
        }
        node(schema, &field, Position::Field, level + 1, findings);
    }
    let additional = format!("{field}.additionalProperties");
    match map.get("additionalProperties") {
        None | Some(Value::Null | Value::Bool(true)) => {}
        Some(Value::Bool(false)) => {
            let text = "API servers drop unknown fields; forbidding them is not supported";
            findings.error(CODE, additional, text, "remove it");
        }
        Some(_) if properties.and_then(Value::as_object).is_some_and(|properties| !properties.is_empty()) => {
            let text = "properties and additionalProperties exclude each other";
            findings.error(CODE, additional, text, "remove one of the two");
        }
        Some(schema) => node(schema, &additional, Position::Field, level + 1, findings),
    }
    if is_set(map, "x-kubernetes-embedded-resource")
        && !is_set(map, "x-kubernetes-preserve-unknown-fields")
        && properties.and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        let text = "an embedded resource needs properties, or x-kubernetes-preserve-unknown-fields";
        findings.error(CODE, format!("{field}.properties"), text, "add one of the two");
    }
    let map_type = text(map, "x-kubernetes-map-type");
    if !matches!(map_type, "" | "atomic" | "granular") {
        let text = format!("{} is no type of map", quote(map_type));
        findings.error(CODE, format!("{field}.x-kubernetes-map-type"), text, "write atomic or granular");
    }
}

/// Names are the only thing of the metadata that a schema may restrict.
fn metadata(schema: &Value, field: &str, findings: &mut Of<'_>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for key in properties
        .into_iter()
        .flat_map(Map::keys)
        .filter(|key| !matches!(key.as_str(), "name" | "generateName"))
    {
        let field = crate::yaml::join(&format!("{field}.properties"), key);
        let text = "of the metadata, a schema may restrict name and generateName only";
        findings.error(CODE, field, text, "remove it");
    }
}

fn array(map: &Map<String, Value>, field: &str, level: usize, findings: &mut Of<'_>) {
    let items_field = format!("{field}.items");
    match map.get("items") {
        Some(Value::Array(_)) => {
            let text = "items is one schema, not a list of them";
            return findings.error(CODE, items_field, text, "write the schema of every item");
        }
        None | Some(Value::Null) => {
            if text(map, "type") == "array" {
                findings.error(CODE, items_field, "an array needs it", "write the schema of the items");
            }
        }
        Some(items) => node(items, &items_field, Position::Item, level + 1, findings),
    }
    list_type(map, field, findings);
}

fn list_type(map: &Map<String, Value>, field: &str, findings: &mut Of<'_>) {
    let list_type = text(map, "x-kubernetes-list-type");
    let keys = map
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let empty = Map::new();
    let items = map.get("items").and_then(Value::as_object).unwrap_or(&empty);
    let type_field = format!("{field}.x-kubernetes-list-type");
    let keys_field = format!("{field}.x-kubernetes-list-map-keys");
    if !list_type.is_empty() && text(map, "type") != "array" {
        return findings.error(CODE, type_field, "only an array has it", "write type: array, or remove it");
    }
    match list_type {
        "" | "atomic" | "set" if !keys.is_empty() => {
            findings.error(
                CODE,
                keys_field,
                "only a list of type map has keys",
                "write x-kubernetes-list-type: map",
            );
        }
        "" | "atomic" => {}
        "set" => {
            let whole = match text(items, "type") {
                "object" => text(items, "x-kubernetes-map-type") == "atomic",
                "array" => text(items, "x-kubernetes-list-type") == "atomic",
                _ => true,
            };
            if !whole || is_set(items, "nullable") {
                let text = "the items of a set must be scalars, or atomic";
                findings.error(CODE, type_field, text, "write atomic, or change the items");
            }
        }
        "map" => map_keys(items, keys, &keys_field, findings),
        other => {
            let text = format!("{} is no type of list", quote(other));
            findings.error(CODE, type_field, text, "write atomic, set or map");
        }
    }
}

fn map_keys(items: &Map<String, Value>, keys: &[Value], field: &str, findings: &mut Of<'_>) {
    if keys.is_empty() {
        return findings.error(
            CODE,
            field,
            "a list of type map needs keys",
            "name the fields that tell items apart",
        );
    }
    let required = items.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let properties = items.get("properties").and_then(Value::as_object);
    for (index, key) in keys.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = key.as_str().unwrap_or_default();
        match properties.and_then(|properties| properties.get(name)) {
            None => {
                let text = format!("the items have no field {}", quote(name));
                findings.error(CODE, field, text, "add it to items.properties");
            }
            Some(schema)
                if matches!(schema.get("type").and_then(Value::as_str), Some("object" | "array")) =>
            {
                findings.error(CODE, field, format!("{} is no scalar", quote(name)), "choose another field");
            }
            Some(schema) if schema.get("default").is_none_or(Value::is_null) && !required.contains(key) => {
                let text = format!("{} is neither required nor has a default", quote(name));
                findings.error(CODE, field, text, "add it to items.required");
            }
            Some(_) => {}
        }
    }
}

/// What is below allOf, anyOf, oneOf and not may only restrict what the schema itself describes.
fn logic(
    map: &Map<String, Value>,
    structure: &Map<String, Value>,
    field: &str,
    level: usize,
    findings: &mut Of<'_>,
) {
    for key in ["allOf", "anyOf", "oneOf"] {
        let list = map.get(key).and_then(Value::as_array);
        for (index, inner) in list.into_iter().flatten().enumerate() {
            restriction(inner, structure, &format!("{field}.{key}[{index}]"), level + 1, findings);
        }
    }
    if let Some(inner) = map.get("not").filter(|inner| !inner.is_null()) {
        restriction(inner, structure, &format!("{field}.not"), level + 1, findings);
    }
}

fn restriction(
    value: &Value,
    structure: &Map<String, Value>,
    field: &str,
    level: usize,
    findings: &mut Of<'_>,
) {
    let Some(map) = value.as_object() else {
        return findings.error(CODE, field, "a schema is a map", "correct it");
    };
    if level > MOST_LEVELS {
        return findings.error(CODE, field, "it is nested too deeply", "simplify it");
    }
    let forbidden = NOT_IN_LOGIC
        .iter()
        .chain(&FORBIDDEN)
        .filter(|key| map.get(**key).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false))));
    for key in forbidden {
        let text = "below allOf, anyOf, oneOf and not there can only be restrictions";
        findings.error(CODE, format!("{field}.{key}"), text, "move it to the schema itself");
    }
    // An int-or-string is the one schema whose types are written this way.
    if has(map, "type") && !is_set(structure, "x-kubernetes-int-or-string") {
        let text = "below allOf, anyOf, oneOf and not there can be no type";
        findings.error(CODE, format!("{field}.type"), text, "move it to the schema itself");
    }
    let empty = Map::new();
    let described = structure.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for (key, inner) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let field = crate::yaml::join(&format!("{field}.properties"), key);
        match described.get(key).and_then(Value::as_object) {
            Some(structure) => restriction(inner, structure, &field, level + 1, findings),
            None => {
                let text = "the schema itself does not have this field";
                findings.error(CODE, field, text, "add it to properties of the schema");
            }
        }
    }
    if let Some(inner) = map.get("items").filter(|inner| inner.is_object()) {
        let field = format!("{field}.items");
        match structure.get("items").and_then(Value::as_object) {
            Some(structure) => restriction(inner, structure, &field, level + 1, findings),
            None => findings.error(CODE, field, "the schema itself has no items", "add them to the schema"),
        }
    }
    logic(map, structure, field, level, findings);
}

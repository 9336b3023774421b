//! Validation, with the messages of kube-openapi.

use serde_json::{Number, Value};

use super::{Additional, ListType, Node, Type, child_path, formats, node::Rules};
use crate::cel;
use crate::field_error::FieldError;

/// All errors of `value`, except uniqueness in lists and CEL rules. Values that are unchanged from `old` are
/// skipped.
pub(super) fn validate(node: &Node, value: &Value, old: Option<&Value>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(node, value, old, path, &mut errors);
    errors
}

fn check(node: &Node, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    if (value.is_null() && node.nullable) || old == Some(value) {
        return;
    }
    if let Some(error) = wrong_type(node, value, path) {
        errors.push(error);
        return;
    }
    if let Some(rules) = &node.rules {
        check_rules(rules, value, path, errors);
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(child) = node.child(key) {
                    let old = old.filter(|_| !node.atomic_map).and_then(|old| old.get(key));
                    check(child, value, old, &child_path(path, key), errors);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                let old_list = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for (index, value) in list.iter().enumerate() {
                    let old = match &node.list_type {
                        ListType::Map(keys) => cel::same_item(old_list, value, keys),
                        ListType::Atomic | ListType::Set => None,
                    };
                    check(items, value, old, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
    if let Some(rules) = &node.rules {
        check_logic(rules, value, path, errors);
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn wrong_type(node: &Node, value: &Value, path: &str) -> Option<FieldError> {
    let (good, expected) = if node.int_or_string {
        let good = match value {
            Value::String(_) => true,
            Value::Number(n) => is_whole(n),
            _ => false,
        };
        (good, "integer,string")
    } else {
        let ty = node.ty?;
        let good = match (ty, value) {
            (Type::Object, Value::Object(_))
            | (Type::Array, Value::Array(_))
            | (Type::String, Value::String(_))
            | (Type::Boolean, Value::Bool(_))
            | (Type::Number, Value::Number(_)) => true,
            (Type::Integer, Value::Number(n)) => is_whole(n),
            _ => false,
        };
        (good, ty.name())
    };
    if good {
        return None;
    }
    let actual = type_name(value);
    let detail = format!("{path} in body must be of type {expected}: \"{actual}\"");
    Some(FieldError::type_invalid(path, actual, detail))
}

fn check_rules(rules: &Rules, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(allowed) = &rules.enumeration
        && !allowed.iter().any(|candidate| same(candidate, value))
    {
        let names = allowed.iter().map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned));
        errors.push(FieldError::not_supported(path, value.clone(), names));
    }
    match value {
        Value::Number(number) => check_number(rules, number, path, errors),
        Value::String(text) => check_string(rules, text, path, errors),
        Value::Array(list) => {
            if let Some(min) = rules.min_items
                && (list.len() as u64) < min
            {
                let detail = format!("{path} in body should have at least {min} items");
                errors.push(FieldError::invalid(path, list.len(), detail));
            }
            if let Some(max) = rules.max_items
                && list.len() as u64 > max
            {
                errors.push(FieldError::too_many(path, list.len(), max));
            }
        }
        Value::Object(map) => {
            if let Some(min) = rules.min_properties
                && (map.len() as u64) < min
            {
                let detail = format!("{path} in body should have at least {min} properties");
                errors.push(FieldError::invalid(path, map.len(), detail));
            }
            if let Some(max) = rules.max_properties
                && map.len() as u64 > max
            {
                errors.push(FieldError::too_many(path, map.len(), max));
            }
            for key in &rules.required {
                if !map.contains_key(key) {
                    errors.push(FieldError::required(child_path(path, key), ""));
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Equality in which `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(std::cmp::Ordering::Equal),
        _ => a == b,
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or(number.as_u64().map(i128::from))
}

/// The order of two numbers, exact for integers.
pub(crate) fn compare(a: &Number, b: &Number) -> Option<std::cmp::Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// A limit in Kubernetes' format: integers without a fraction.
fn shown(limit: &Number) -> String {
    match limit.as_f64() {
        Some(n) if limit.is_f64() && n.fract() == 0.0 && n.abs() < 1e15 => format!("{n:.0}"),
        _ => limit.to_string(),
    }
}

fn check_number(rules: &Rules, number: &Number, path: &str, errors: &mut Vec<FieldError>) {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, number.clone(), detail));
    if let Some(format) = &rules.format {
        let fits = match (format.as_str(), whole(number)) {
            ("int32", Some(n)) => i32::try_from(n).is_ok(),
            ("int64", Some(n)) => i64::try_from(n).is_ok(),
            ("uint32", Some(n)) => u32::try_from(n).is_ok(),
            ("uint64", Some(n)) => u64::try_from(n).is_ok(),
            _ => true,
        };
        if !fits {
            refuse(format!("Checked value must be of type integer with format {format} in {path}"));
        }
    }
    if let Some(limit) = &rules.minimum {
        let shown = shown(limit);
        match compare(number, limit) {
            Some(Less) if !rules.exclusive_minimum => {
                refuse(format!("{path} in body should be greater than or equal to {shown}"));
            }
            Some(Less | Equal) if rules.exclusive_minimum => {
                refuse(format!("{path} in body should be greater than {shown}"));
            }
            _ => {}
        }
    }
    if let Some(limit) = &rules.maximum {
        let shown = shown(limit);
        match compare(number, limit) {
            Some(Greater) if !rules.exclusive_maximum => {
                refuse(format!("{path} in body should be less than or equal to {shown}"));
            }
            Some(Greater | Equal) if rules.exclusive_maximum => {
                refuse(format!("{path} in body should be less than {shown}"));
            }
            _ => {}
        }
    }
    if let Some(factor) = &rules.multiple_of {
        let multiple = match (whole(number), whole(factor)) {
            (Some(n), Some(f)) if f != 0 => n % f == 0,
            _ => match (number.as_f64(), factor.as_f64()) {
                (Some(n), Some(f)) if f > 0.0 => (n / f - (n / f).round()).abs() < 1e-9,
                _ => true,
            },
        };
        if !multiple {
            refuse(format!("{path} in body should be a multiple of {}", shown(factor)));
        }
    }
}

fn check_string(rules: &Rules, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    if let Some(min) = rules.min_length
        && length < min
    {
        let detail = format!("{path} in body should be at least {min} chars long");
        errors.push(FieldError::invalid(path, text, detail));
    }
    if let Some(max) = rules.max_length
        && length > max
    {
        errors.push(FieldError::too_long(path, max));
    }
    if let Some(pattern) = &rules.pattern
        && !pattern.matches(text)
    {
        let detail = format!("{path} in body should match '{}'", pattern.text);
        errors.push(FieldError::invalid(path, text, detail));
    }
    if let Some(format) = &rules.format
        && !formats::matches(format, text)
    {
        let detail = format!("{path} in body must be of type {format}: {text:?}");
        errors.push(FieldError::type_invalid(path, text, detail));
    }
}

fn check_logic(rules: &Rules, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let failures = |node: &Node| validate(node, value, None, path);
    // Kubernetes reports these without a field path.
    let mut refuse = |detail: String| errors.push(FieldError::invalid("", "", detail));
    let mut more = Vec::new();
    if !rules.any_of.is_empty() {
        let results: Vec<_> = rules.any_of.iter().map(failures).collect();
        if !results.iter().any(Vec::is_empty) {
            refuse(format!("\"{path}\" must validate at least one schema (anyOf)"));
            more.extend(best(results));
        }
    }
    if !rules.one_of.is_empty() {
        let results: Vec<_> = rules.one_of.iter().map(failures).collect();
        match results.iter().filter(|errors| errors.is_empty()).count() {
            1 => {}
            0 => {
                refuse(format!("\"{path}\" must validate one and only one schema (oneOf). Found none valid"));
                more.extend(best(results));
            }
            n => refuse(format!(
                "\"{path}\" must validate one and only one schema (oneOf). Found {n} valid alternatives"
            )),
        }
    }
    if !rules.all_of.is_empty() {
        let results: Vec<_> = rules.all_of.iter().map(failures).collect();
        let failed = results.iter().filter(|errors| !errors.is_empty()).count();
        if failed > 0 {
            let none = if failed == results.len() { ". None validated" } else { "" };
            refuse(format!("\"{path}\" must validate all the schemas (allOf){none}"));
            more.extend(results.into_iter().flatten());
        }
    }
    if let Some(not) = &rules.not
        && failures(not).is_empty()
    {
        refuse(format!("\"{path}\" must not validate the schema (not)"));
    }
    errors.extend(more);
}

/// The closest alternative: the one with the fewest errors.
fn best(results: Vec<Vec<FieldError>>) -> Vec<FieldError> {
    results.into_iter().min_by_key(Vec::len).unwrap_or_default()
}

/// Uniqueness in sets and list-maps, and the identity of embedded resources.
pub(super) fn lists_and_embedded(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(list) => {
            unique(&node.list_type, list, node.items.as_deref(), path, errors);
            if let Some(items) = &node.items {
                for (index, value) in list.iter().enumerate() {
                    lists_and_embedded(items, value, &format!("{path}[{index}]"), errors);
                }
            }
        }
        Value::Object(map) => {
            if node.embedded {
                for key in ["apiVersion", "kind"] {
                    if map.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                        errors.push(FieldError::required(child_path(path, key), "must not be empty"));
                    }
                }
            }
            if node.properties.is_empty() && !matches!(node.additional, Additional::Values(_)) {
                return;
            }
            for (key, value) in map {
                if let Some(child) = node.child(key) {
                    lists_and_embedded(child, value, &child_path(path, key), errors);
                }
            }
        }
        _ => {}
    }
}

fn unique(
    list_type: &ListType,
    list: &[Value],
    item: Option<&Node>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let identity = |value: &Value| -> Value {
        match list_type {
            ListType::Map(keys) => keys
                .iter()
                .filter_map(|key| {
                    let default = || item?.properties.get(key)?.default.as_ref();
                    value.get(key).or_else(default).map(|v| (key.clone(), v.clone()))
                })
                .collect::<serde_json::Map<_, _>>()
                .into(),
            ListType::Atomic | ListType::Set => value.clone(),
        }
    };
    if *list_type == ListType::Atomic {
        return;
    }
    let mut seen = std::collections::HashSet::new();
    for (index, value) in list.iter().enumerate() {
        let id = identity(value);
        if !seen.insert(id.to_string()) {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), id));
        }
    }
}

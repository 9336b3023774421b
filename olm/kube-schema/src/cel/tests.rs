mod language;
mod library;
mod objects;

use serde_json::{Value, json};

use crate::schema::Schema;

/// A schema whose `spec` has the given properties and the rule.
fn schema(properties: Value, rule: &str) -> Result<Schema, Vec<String>> {
    schema_with(properties, json!({ "rule": rule, "message": "broken" }))
}

fn schema_with(properties: Value, rule: Value) -> Result<Schema, Vec<String>> {
    let spec = json!({ "type": "object", "properties": properties, "x-kubernetes-validations": [rule] });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    Schema::compile(&schema, "schema").map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// The first error of the rule for `spec`, if any.
fn first_error(properties: Value, rule: &str, spec: Value) -> Option<String> {
    let schema = schema(properties, rule).unwrap_or_else(|errors| panic!("{rule}: {errors:?}"));
    schema.validate(&json!({ "spec": spec })).first().map(ToString::to_string)
}

/// Whether an expression without variables is true; the error is its text.
fn holds(expression: &str) -> Result<bool, String> {
    let schema =
        schema(json!({ "a": { "type": "string" } }), expression).map_err(|errors| errors.join("\n"))?;
    match schema.validate(&json!({ "spec": {} })).first() {
        None => Ok(true),
        Some(error) if error.detail == "broken" => Ok(false),
        Some(error) => Err(error.detail.clone()),
    }
}

/// The compile error of an expression.
fn refused(expression: &str) -> String {
    schema(json!({ "a": { "type": "string" } }), expression).expect_err(expression).join("\n")
}

fn all_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(holds(expression), Ok(true), "{expression}");
    }
}

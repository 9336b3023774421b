//! Uses `jsonschema` as an oracle for accepted values: every narrowing that it finds must be reported.

use serde_json::{Value, json};

use super::{Severity, field};

/// Values of every type, near the limits in [`schemas`].
fn values() -> Vec<Value> {
    vec![
        json!(0),
        json!(1),
        json!(2),
        json!(3),
        json!(6),
        json!(7),
        json!(-1),
        json!(2.5),
        json!(1e12),
        json!(""),
        json!("a"),
        json!("ab"),
        json!("abc"),
        json!("b"),
        json!("a@example.com"),
        json!(true),
        json!([]),
        json!(["a"]),
        json!(["a", "b"]),
        json!([1]),
        json!({}),
        json!({"x": "a"}),
        json!({"x": 1}),
        json!({"y": 1}),
        json!({"x": "a", "y": 1}),
        json!({"x": "a", "z": true}),
        json!([{"x": "a"}]),
        json!([{}]),
    ]
}

fn schemas() -> Vec<Value> {
    let number = |more: Value| merged(json!({"type": "integer"}), more);
    let string = |more: Value| merged(json!({"type": "string"}), more);
    let object = |more: Value| {
        let fields = json!({"x": {"type": "string"}, "y": {"type": "integer"}});
        merged(
            json!({"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": true}),
            more,
        )
    };
    let array = |items: Value, more: Value| merged(json!({"type": "array", "items": items}), more);
    vec![
        number(json!({})),
        json!({"type": "number"}),
        json!({"type": "boolean"}),
        number(json!({"minimum": 1})),
        number(json!({"minimum": 1, "exclusiveMinimum": true})),
        number(json!({"minimum": 2, "maximum": 6})),
        number(json!({"maximum": 7, "exclusiveMaximum": true})),
        number(json!({"maximum": 7})),
        number(json!({"multipleOf": 2})),
        number(json!({"multipleOf": 6})),
        number(json!({"multipleOf": 3})),
        number(json!({"enum": [1, 2]})),
        number(json!({"enum": [2, 3]})),
        number(json!({"not": {"minimum": 3}})),
        number(json!({"anyOf": [{"minimum": 3}, {"maximum": 1}]})),
        number(json!({"anyOf": [{"minimum": 3}]})),
        number(json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]})),
        number(json!({"oneOf": [{"multipleOf": 2}]})),
        number(json!({"allOf": [{"minimum": 1}]})),
        number(json!({"allOf": [{"minimum": 1}, {"maximum": 3}]})),
        string(json!({})),
        string(json!({"minLength": 1})),
        string(json!({"minLength": 2, "maxLength": 2})),
        string(json!({"maxLength": 1})),
        string(json!({"pattern": "^a"})),
        string(json!({"pattern": "^b"})),
        string(json!({"enum": ["a", "b"]})),
        string(json!({"enum": ["a"]})),
        array(json!({"type": "string"}), json!({})),
        array(json!({"type": "string"}), json!({"minItems": 1})),
        array(json!({"type": "string"}), json!({"maxItems": 1})),
        array(json!({"type": "integer"}), json!({})),
        array(json!({"type": "string", "enum": ["a"]}), json!({})),
        array(object(json!({})), json!({})),
        array(object(json!({"required": ["x"]})), json!({})),
        object(json!({})),
        object(json!({"required": ["x"]})),
        object(json!({"required": ["x", "y"]})),
        object(json!({"minProperties": 1})),
        object(json!({"maxProperties": 1})),
        object(json!({"properties": {"x": {"type": "integer"}}})),
        object(json!({"properties": {"x": {"type": "string", "enum": ["b"]}, "y": {"type": "integer"}}})),
        object(json!({"properties": {}})),
        object(json!({"properties": {"z": {"type": "string"}}})),
        object(json!({"anyOf": [{"required": ["x"]}, {"required": ["y"]}]})),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
    ]
}

fn merged(mut schema: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        schema[key] = value.clone();
    }
    schema
}

#[test]
fn no_value_is_refused_without_a_finding() {
    let (schemas, values) = (schemas(), values());
    // OpenAPI 3.0 has the exclusive limits of draft 4.
    let oracles: Vec<_> = schemas.iter().map(|schema| jsonschema::draft4::new(schema).unwrap()).collect();
    let (mut narrowed, mut quiet) = (0, 0);
    for (old, before) in schemas.iter().zip(&oracles) {
        for (new, after) in schemas.iter().zip(&oracles) {
            let changes = field(old.clone(), new.clone());
            let warned = changes.iter().any(|change| change.severity != Severity::Safe);
            let refused = values.iter().find(|value| before.is_valid(value) && !after.is_valid(value));
            if let Some(value) = refused {
                narrowed += 1;
                assert!(warned, "{value} fits {old} and not {new}");
            }
            quiet += usize::from(!warned);
        }
    }
    // The schemas do narrow each other, and widening is not reported.
    assert!(narrowed > 1_000, "{narrowed}");
    assert!(quiet > schemas.len() + 50, "{quiet}");
}

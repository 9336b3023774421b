//! Changes of the schema of one field.

use serde_json::{Value, json};

/// Schemas of `.spec.a` before and after, and the expected findings.
pub(super) fn fields() -> Vec<(&'static str, Value, Value, Vec<&'static str>)> {
    let string = || json!({"type": "string"});
    let integer = || json!({"type": "integer"});
    let object = |fields: Value| json!({"type": "object", "properties": fields});
    let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let array = |items: Value| json!({"type": "array", "items": items});
    let with = |mut schema: Value, more: Value| {
        for (key, value) in more.as_object().unwrap() {
            schema[key] = value.clone();
        }
        schema
    };
    let any_key = |values: Value| json!({"type": "object", "additionalProperties": values});
    let int_or_string =
        || json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    vec![
        // types
        ("type", string(), integer(), vec!["breaking type-changed v1 .spec.a"]),
        (
            "type, nothing inside",
            object(json!({"x": string()})),
            string(),
            vec!["breaking type-changed v1 .spec.a"],
        ),
        ("wider number", integer(), json!({"type": "number"}), vec![]),
        ("narrower number", json!({"type": "number"}), integer(), vec!["breaking type-changed v1 .spec.a"]),
        ("to int-or-string", integer(), int_or_string(), vec![]),
        ("from int-or-string", int_or_string(), string(), vec!["breaking int-or-string-removed v1 .spec.a"]),
        (
            "anything to something",
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            string(),
            vec!["breaking unknown-fields-pruned v1 .spec.a", "careful type-changed v1 .spec.a"],
        ),
        (
            "something to anything",
            object(json!({"x": string()})),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            vec![],
        ),
        // fields
        (
            "description",
            with(string(), json!({"description": "x"})),
            with(string(), json!({"description": "y"})),
            vec![],
        ),
        ("field added", object(json!({})), object(json!({"x": string()})), vec![]),
        (
            "field removed",
            object(json!({"x": string()})),
            object(json!({})),
            vec!["breaking property-removed v1 .spec.a.x"],
        ),
        (
            "field removed in a list",
            array(object(json!({"x": string()}))),
            array(object(json!({}))),
            vec!["breaking property-removed v1 .spec.a[].x"],
        ),
        (
            "field removed in a map",
            any_key(object(json!({"x": string()}))),
            any_key(object(json!({}))),
            vec!["breaking property-removed v1 .spec.a.*.x"],
        ),
        (
            "odd name",
            object(json!({"x.y/z": string()})),
            object(json!({})),
            vec!["breaking property-removed v1 .spec.a['x.y/z']"],
        ),
        (
            "field removed where unknown ones stay",
            with(object(json!({"x": string()})), json!({"x-kubernetes-preserve-unknown-fields": true})),
            open(),
            vec![],
        ),
        ("unknown fields", open(), object(json!({})), vec!["breaking unknown-fields-pruned v1 .spec.a"]),
        (
            "unknown fields validated",
            open(),
            with(open(), json!({"properties": {"x": string(), "y": string()}})),
            vec!["careful fields-validated v1 .spec.a"],
        ),
        // required
        (
            "required",
            object(json!({"x": string()})),
            with(object(json!({"x": string()})), json!({"required": ["x"]})),
            vec!["breaking required-added v1 .spec.a.x"],
        ),
        (
            "required and new",
            object(json!({})),
            with(object(json!({"x": string()})), json!({"required": ["x"]})),
            vec!["breaking required-added v1 .spec.a.x"],
        ),
        (
            "required with a default",
            object(json!({})),
            with(object(json!({"x": with(string(), json!({"default": "y"}))})), json!({"required": ["x"]})),
            vec![],
        ),
        (
            "required inside of a new optional object",
            object(json!({})),
            object(json!({"x": with(object(json!({"y": string()})), json!({"required": ["y"]}))})),
            vec![],
        ),
        (
            "no longer required",
            with(object(json!({"x": string()})), json!({"required": ["x"]})),
            object(json!({"x": string()})),
            vec![],
        ),
        // maps and fields
        (
            "map to fields",
            any_key(string()),
            object(json!({"x": string()})),
            vec!["breaking map-to-fields v1 .spec.a"],
        ),
        (
            "map to nothing",
            any_key(string()),
            json!({"type": "object"}),
            vec!["breaking map-to-fields v1 .spec.a"],
        ),
        (
            "map to open fields",
            any_key(string()),
            with(open(), json!({"properties": {"x": integer()}})),
            vec!["breaking type-changed v1 .spec.a.x"],
        ),
        (
            "fields to map",
            object(json!({"x": string()})),
            any_key(string()),
            vec!["careful fields-to-map v1 .spec.a"],
        ),
        (
            "fields to another map",
            object(json!({"x": string()})),
            any_key(integer()),
            vec!["breaking type-changed v1 .spec.a.x", "careful fields-to-map v1 .spec.a"],
        ),
        ("map values", any_key(string()), any_key(integer()), vec!["breaking type-changed v1 .spec.a.*"]),
        ("any map", any_key(json!(true)), any_key(string()), vec!["careful type-changed v1 .spec.a.*"]),
        ("to any map", any_key(string()), any_key(json!(true)), vec![]),
        // enumerations
        ("enum", string(), with(string(), json!({"enum": ["x"]})), vec!["breaking enum-added v1 .spec.a"]),
        (
            "enum value removed",
            with(string(), json!({"enum": ["x", "y"]})),
            with(string(), json!({"enum": ["x", "z"]})),
            vec!["breaking enum-value-removed v1 .spec.a"],
        ),
        (
            "enum value added",
            with(string(), json!({"enum": ["x"]})),
            with(string(), json!({"enum": ["y", "x"]})),
            vec![],
        ),
        ("enum removed", with(string(), json!({"enum": ["x"]})), string(), vec![]),
        (
            "enum of numbers",
            with(integer(), json!({"enum": [1]})),
            with(integer(), json!({"enum": [1.0]})),
            vec![],
        ),
        // numbers
        (
            "minimum",
            integer(),
            with(integer(), json!({"minimum": 1})),
            vec!["breaking minimum-raised v1 .spec.a"],
        ),
        (
            "minimum raised",
            with(integer(), json!({"minimum": 1})),
            with(integer(), json!({"minimum": 2})),
            vec!["breaking minimum-raised v1 .spec.a"],
        ),
        (
            "minimum excluded",
            with(integer(), json!({"minimum": 1})),
            with(integer(), json!({"minimum": 1.0, "exclusiveMinimum": true})),
            vec!["breaking minimum-raised v1 .spec.a"],
        ),
        (
            "minimum lowered",
            with(integer(), json!({"minimum": 1})),
            with(integer(), json!({"minimum": 0})),
            vec![],
        ),
        (
            "minimum lowered and excluded",
            with(integer(), json!({"minimum": 1})),
            with(integer(), json!({"minimum": 0, "exclusiveMinimum": true})),
            vec![],
        ),
        ("minimum removed", with(integer(), json!({"minimum": 1})), integer(), vec![]),
        (
            "maximum",
            integer(),
            with(integer(), json!({"maximum": 1})),
            vec!["breaking maximum-lowered v1 .spec.a"],
        ),
        (
            "maximum lowered",
            with(integer(), json!({"maximum": 3})),
            with(integer(), json!({"maximum": 2})),
            vec!["breaking maximum-lowered v1 .spec.a"],
        ),
        (
            "maximum excluded",
            with(integer(), json!({"maximum": 3})),
            with(integer(), json!({"maximum": 3, "exclusiveMaximum": true})),
            vec!["breaking maximum-lowered v1 .spec.a"],
        ),
        (
            "maximum raised",
            with(integer(), json!({"maximum": 3})),
            with(integer(), json!({"maximum": 4})),
            vec![],
        ),
        (
            "multiple",
            integer(),
            with(integer(), json!({"multipleOf": 2})),
            vec!["breaking multiple-of-changed v1 .spec.a"],
        ),
        (
            "other multiple",
            with(integer(), json!({"multipleOf": 3})),
            with(integer(), json!({"multipleOf": 2})),
            vec!["breaking multiple-of-changed v1 .spec.a"],
        ),
        (
            "wider multiple",
            with(integer(), json!({"multipleOf": 6})),
            with(integer(), json!({"multipleOf": 3})),
            vec![],
        ),
        // counts
        (
            "minLength",
            string(),
            with(string(), json!({"minLength": 1})),
            vec!["breaking length-narrowed v1 .spec.a"],
        ),
        ("minLength 0", string(), with(string(), json!({"minLength": 0})), vec![]),
        (
            "maxLength",
            string(),
            with(string(), json!({"maxLength": 9})),
            vec!["breaking length-narrowed v1 .spec.a"],
        ),
        (
            "maxLength smaller",
            with(string(), json!({"maxLength": 9})),
            with(string(), json!({"maxLength": 8})),
            vec!["breaking length-narrowed v1 .spec.a"],
        ),
        (
            "maxLength greater",
            with(string(), json!({"maxLength": 9})),
            with(string(), json!({"maxLength": 10})),
            vec![],
        ),
        (
            "both lengths",
            with(string(), json!({"minLength": 1, "maxLength": 9})),
            with(string(), json!({"minLength": 2, "maxLength": 8})),
            vec!["breaking length-narrowed v1 .spec.a", "breaking length-narrowed v1 .spec.a"],
        ),
        (
            "minItems",
            array(string()),
            with(array(string()), json!({"minItems": 1})),
            vec!["breaking items-narrowed v1 .spec.a"],
        ),
        (
            "maxItems",
            array(string()),
            with(array(string()), json!({"maxItems": 1})),
            vec!["breaking items-narrowed v1 .spec.a"],
        ),
        (
            "minProperties",
            any_key(string()),
            with(any_key(string()), json!({"minProperties": 1})),
            vec!["breaking properties-narrowed v1 .spec.a"],
        ),
        (
            "maxProperties",
            any_key(string()),
            with(any_key(string()), json!({"maxProperties": 1})),
            vec!["breaking properties-narrowed v1 .spec.a"],
        ),
        // patterns and formats
        (
            "pattern",
            string(),
            with(string(), json!({"pattern": "^x"})),
            vec!["breaking pattern-added v1 .spec.a"],
        ),
        (
            "other pattern",
            with(string(), json!({"pattern": "^x"})),
            with(string(), json!({"pattern": "^y"})),
            vec!["breaking pattern-changed v1 .spec.a"],
        ),
        ("pattern removed", with(string(), json!({"pattern": "^x"})), string(), vec![]),
        (
            "format",
            string(),
            with(string(), json!({"format": "email"})),
            vec!["breaking format-changed v1 .spec.a"],
        ),
        (
            "unchecked format",
            string(),
            with(string(), json!({"format": "fancy"})),
            vec!["safe format-changed v1 .spec.a"],
        ),
        (
            "narrower format",
            with(integer(), json!({"format": "int64"})),
            with(integer(), json!({"format": "int32"})),
            vec!["breaking format-changed v1 .spec.a"],
        ),
        (
            "wider format",
            with(integer(), json!({"format": "int32"})),
            with(integer(), json!({"format": "int64"})),
            vec![],
        ),
        ("format removed", with(string(), json!({"format": "email"})), string(), vec![]),
        // null and defaults
        (
            "not null",
            with(string(), json!({"nullable": true})),
            string(),
            vec!["breaking nullable-removed v1 .spec.a"],
        ),
        ("null", string(), with(string(), json!({"nullable": true})), vec![]),
        (
            "default",
            string(),
            with(string(), json!({"default": "x"})),
            vec!["careful default-added v1 .spec.a"],
        ),
        (
            "other default",
            with(string(), json!({"default": "x"})),
            with(string(), json!({"default": "y"})),
            vec!["careful default-changed v1 .spec.a"],
        ),
        (
            "same default",
            with(integer(), json!({"default": 1})),
            with(integer(), json!({"default": 1.0})),
            vec![],
        ),
        (
            "no default",
            with(string(), json!({"default": "x"})),
            string(),
            vec!["careful default-removed v1 .spec.a"],
        ),
        (
            "no default where required",
            with(object(json!({"x": with(string(), json!({"default": "y"}))})), json!({"required": ["x"]})),
            with(object(json!({"x": string()})), json!({"required": ["x"]})),
            vec!["breaking default-removed v1 .spec.a.x"],
        ),
        // lists and maps
        (
            "set",
            array(string()),
            with(array(string()), json!({"x-kubernetes-list-type": "set"})),
            vec!["breaking list-type-changed v1 .spec.a"],
        ),
        (
            "atomic, made explicit",
            array(string()),
            with(array(string()), json!({"x-kubernetes-list-type": "atomic"})),
            vec![],
        ),
        (
            "set no more",
            with(array(string()), json!({"x-kubernetes-list-type": "set"})),
            array(string()),
            vec!["careful list-type-changed v1 .spec.a"],
        ),
        (
            "other keys",
            with(
                array(object(json!({}))),
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["x", "y"]}),
            ),
            with(
                array(object(json!({}))),
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["x"]}),
            ),
            vec!["breaking list-type-changed v1 .spec.a"],
        ),
        (
            "atomic map",
            object(json!({})),
            with(object(json!({})), json!({"x-kubernetes-map-type": "atomic"})),
            vec!["safe map-type-changed v1 .spec.a"],
        ),
        (
            "embedded",
            open(),
            with(open(), json!({"x-kubernetes-embedded-resource": true})),
            vec!["breaking embedded-resource-changed v1 .spec.a"],
        ),
        (
            "embedded no more",
            with(open(), json!({"x-kubernetes-embedded-resource": true})),
            open(),
            vec!["careful embedded-resource-changed v1 .spec.a"],
        ),
        (
            "embedded and open no more",
            with(open(), json!({"x-kubernetes-embedded-resource": true})),
            json!({"type": "object"}),
            vec![
                "breaking unknown-fields-pruned v1 .spec.a",
                "breaking embedded-resource-changed v1 .spec.a",
            ],
        ),
        // logic
        (
            "anyOf",
            object(json!({})),
            with(object(json!({})), json!({"anyOf": [{"required": ["x"]}]})),
            vec!["breaking logic-added v1 .spec.a"],
        ),
        (
            "oneOf",
            object(json!({})),
            with(object(json!({})), json!({"oneOf": [{"required": ["x"]}]})),
            vec!["breaking logic-added v1 .spec.a"],
        ),
        (
            "allOf",
            object(json!({})),
            with(object(json!({})), json!({"allOf": [{"required": ["x"]}]})),
            vec!["breaking logic-added v1 .spec.a"],
        ),
        (
            "not",
            object(json!({})),
            with(object(json!({})), json!({"not": {"required": ["x"]}})),
            vec!["breaking logic-added v1 .spec.a"],
        ),
        (
            "anyOf wider",
            with(object(json!({})), json!({"anyOf": [{"required": ["x"]}]})),
            with(object(json!({})), json!({"anyOf": [{"required": ["y"]}, {"required": ["x"]}]})),
            vec![],
        ),
        (
            "oneOf wider",
            with(object(json!({})), json!({"oneOf": [{"required": ["x"]}]})),
            with(object(json!({})), json!({"oneOf": [{"required": ["y"]}, {"required": ["x"]}]})),
            vec!["careful logic-changed v1 .spec.a"],
        ),
        (
            "anyOf narrower",
            with(object(json!({})), json!({"anyOf": [{"required": ["y"]}, {"required": ["x"]}]})),
            with(object(json!({})), json!({"anyOf": [{"required": ["x"]}]})),
            vec!["breaking logic-changed v1 .spec.a"],
        ),
        (
            "allOf narrower",
            with(object(json!({})), json!({"allOf": [{"required": ["x"]}]})),
            with(object(json!({})), json!({"allOf": [{"required": ["x"]}, {"required": ["y"]}]})),
            vec!["breaking logic-changed v1 .spec.a"],
        ),
        (
            "other not",
            with(object(json!({})), json!({"not": {"required": ["x"]}})),
            with(object(json!({})), json!({"not": {"required": ["y"]}})),
            vec!["careful logic-changed v1 .spec.a"],
        ),
        (
            "logic removed",
            with(
                object(json!({})),
                json!({"anyOf": [{"required": ["x"]}], "oneOf": [{"required": ["x"]}], "allOf": [{"required": ["x"]}], "not": {"required": ["y"]}}),
            ),
            object(json!({})),
            vec![],
        ),
        (
            "rule",
            with(string(), json!({"x-kubernetes-validations": [{"rule": "self != ''"}]})),
            with(
                string(),
                json!({"x-kubernetes-validations": [{"rule": " self != '' ", "message": "m"}, {"rule": "self != 'x'"}]}),
            ),
            vec!["breaking rule-added v1 .spec.a"],
        ),
        (
            "rule removed",
            with(string(), json!({"x-kubernetes-validations": [{"rule": "self != ''"}]})),
            string(),
            vec![],
        ),
    ]
}

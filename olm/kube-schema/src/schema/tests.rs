use serde_json::{Value, json};

use super::{Schema, unknown_keywords};

fn compile(spec: Value) -> Schema {
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec}}), "s").unwrap()
}

fn messages(schema: &Schema, object: &Value) -> Vec<String> {
    schema.validate(object).iter().map(ToString::to_string).collect()
}

fn refused(schema: Value) -> Vec<String> {
    match Schema::compile(&schema, "s") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn etcd() -> Schema {
    compile(json!({
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 7},
            "version": {"type": "string", "default": "3.5.0", "pattern": "^\\d+\\.\\d+\\.\\d+$"},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "pod": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "port": {"x-kubernetes-int-or-string": true},
            "note": {"type": "string", "nullable": true, "maxLength": 3},
            "members": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "weight": {"type": "integer", "default": 1}}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        },
    }))
}

#[test]
fn messages_are_those_of_kubernetes() {
    let schema = etcd();
    let cases = [
        (
            json!({"size": 8}),
            vec!["spec.size: Invalid value: 8: spec.size in body should be less than or equal to 7"],
        ),
        (
            json!({"size": 0}),
            vec!["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
        ),
        (json!({}), vec!["spec.size: Required value"]),
        (
            json!({"size": "3"}),
            vec![
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ],
        ),
        (
            json!({"size": null}),
            vec!["spec.size: Invalid value: \"null\": spec.size in body must be of type integer: \"null\""],
        ),
        (json!({"size": 3.0}), vec![]),
        (
            json!({"size": 3.5}),
            vec![
                "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\"",
            ],
        ),
        (
            json!({"size": 1, "version": "x"}),
            vec![
                "spec.version: Invalid value: \"x\": spec.version in body should match '^\\d+\\.\\d+\\.\\d+$'",
            ],
        ),
        (
            json!({"size": 1, "mode": "C"}),
            vec!["spec.mode: Unsupported value: \"C\": supported values: \"A\", \"B\""],
        ),
        (json!({"size": 1, "note": null}), vec![]),
        (json!({"size": 1, "note": "abcd"}), vec!["spec.note: Too long: may not be more than 3 bytes"]),
        (json!({"size": 1, "port": "http"}), vec![]),
        (json!({"size": 1, "port": 80}), vec![]),
        (
            json!({"size": 1, "port": true}),
            vec![
                "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
            ],
        ),
        (
            json!({"size": 1, "labels": {"a": 1}}),
            vec![
                "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: \"integer\"",
            ],
        ),
        (
            json!({"size": 1, "members": [{"name": "a"}, {"name": "a"}]}),
            vec!["spec.members[1]: Duplicate value: {\"name\":\"a\"}"],
        ),
        (
            json!({"size": 1, "members": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            vec!["spec.members: Too many: 3: must have at most 2 items"],
        ),
        (json!({"size": 1, "members": [{}]}), vec!["spec.members[0].name: Required value"]),
        (json!({"size": 1, "tags": ["a", "b", "a"]}), vec!["spec.tags[2]: Duplicate value: \"a\""]),
    ];
    for (spec, expected) in cases {
        assert_eq!(messages(&schema, &json!({"spec": spec})), expected, "{spec}");
    }
}

#[test]
fn logic_messages() {
    let schema = compile(json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "n": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "not": {"required": ["n"]},
    }));
    assert_eq!(messages(&schema, &json!({"spec": {"a": "x"}})), Vec::<String>::new());
    assert_eq!(
        messages(&schema, &json!({"spec": {}})),
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
            "spec.a: Required value",
        ]
    );
    assert_eq!(
        messages(&schema, &json!({"spec": {"a": "x", "b": "y", "n": 1}})),
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            "<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)",
        ]
    );
}

#[test]
fn defaults_are_set_for_missing_fields() {
    let schema = etcd();
    let mut object = json!({"spec": {"size": 1, "members": [{"name": "a"}, {"name": "b", "weight": 5}]}});
    schema.default(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"size": 1, "version": "3.5.0",
            "members": [{"name": "a", "weight": 1}, {"name": "b", "weight": 5}]}})
    );
    let mut object = json!({"spec": {"version": null, "note": null}});
    schema.default(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"version": "3.5.0", "note": null}}),
        "null counts as unset unless nullable"
    );
    let mut object = json!({});
    schema.default(&mut object);
    assert_eq!(object, json!({}), "a missing parent stays missing");
}

#[test]
fn a_default_object_gets_its_own_defaults() {
    let schema = compile(
        json!({"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 3}}}),
    );
    let mut object = json!({});
    schema.default(&mut object);
    assert_eq!(object, json!({"spec": {"n": 3}}));
}

#[test]
fn pruning_names_unknown_fields() {
    let schema = etcd();
    let mut object = json!({
        "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "x", "anything": 1},
        "extra": 1,
        "spec": {
            "size": 1, "foo": {"bar": 1},
            "pod": {"free": {"x": 1}, "known": {"a": "x", "b": "y"}},
            "labels": {"any": "key"},
            "members": [{"name": "a", "oops": 1}],
        },
        "status": {},
    });
    let unknown = schema.prune(&mut object);
    assert_eq!(unknown, ["extra", "spec.foo", "spec.pod.known.b", "spec.members[0].oops", "status"]);
    assert_eq!(
        object,
        json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "x", "anything": 1},
            "spec": {"size": 1, "pod": {"free": {"x": 1}, "known": {"a": "x"}}, "labels": {"any": "key"},
                     "members": [{"name": "a"}]},
        })
    );
    assert_eq!(schema.prune(&mut object), Vec::<String>::new(), "pruning twice changes nothing");
}

#[test]
fn a_disallowed_null_is_removed_unless_a_default_replaces_it() {
    let schema = etcd();
    let mut object =
        json!({"spec": {"size": null, "version": null, "note": null, "members": [{"name": null}]}});
    assert_eq!(schema.prune(&mut object), Vec::<String>::new());
    assert_eq!(object, json!({"spec": {"version": null, "note": null, "members": [{}]}}));
}

#[test]
fn embedded_resources_retain_their_identity() {
    let schema = compile(json!({
        "type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }));
    let mut object =
        json!({"spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": {"b": 1}}});
    assert_eq!(schema.prune(&mut object), ["spec.spec.b"]);
    assert_eq!(messages(&schema, &object), Vec::<String>::new());
    assert_eq!(
        messages(&schema, &json!({"spec": {"kind": "Pod"}})),
        ["spec.apiVersion: Required value: must not be empty"]
    );
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let props = |spec: Value| json!({"type": "object", "properties": {"spec": spec}});
    let cases = [
        (json!({}), "s.type: Required value: must not be empty at the root"),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "s.type: Invalid value: \"array\": must be object at the root",
        ),
        (
            props(json!({})),
            "s.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            props(json!({"type": "array", "items": {}})),
            "s.properties[spec].items.type: Required value: must not be empty for specified array items",
        ),
        (props(json!({"type": "array"})), "s.properties[spec].items: Required value: must be specified"),
        (
            props(json!({"type": "text"})),
            "s.properties[spec].type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \
             \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            props(
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ),
            "s.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            props(json!({"type": "string", "pattern": "("})),
            "s.properties[spec].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"x": {"minimum": 1}}}]}),
            "s.properties[x]: Required value: because it is defined in s.anyOf[0].properties[x]",
        ),
        (
            props(json!({"type": "object", "anyOf": [{"type": "object"}]})),
            "s.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            props(json!({"type": "integer", "default": "x"})),
            "s.properties[spec].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            props(json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}})),
            "s.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata \
             is implicitly specified",
        ),
        (
            json!({"type": "object", "anyOf": [{"not": {"properties": {"x": {"minimum": 1}}}}]}),
            "s.properties[x]: Required value: because it is defined in s.anyOf[0].not.properties[x]",
        ),
        (
            props(
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": true}}),
            ),
            "s.properties[spec].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
        (
            props(json!({"type": "string", "x-kubernetes-validations": [{"message": "m"}]})),
            "s.properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified",
        ),
        (
            props(
                json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]}),
            ),
            "s.properties[spec].x-kubernetes-validations[0].message: Invalid value: \"a\\nb\": message must not contain line breaks",
        ),
        (
            props(json!({"$ref": "#/x", "type": "object"})),
            "s.properties[spec].$ref: Forbidden: $ref is not supported",
        ),
    ];
    for (schema, expected) in cases {
        let errors = refused(schema.clone());
        assert!(
            errors.iter().any(|error| error.starts_with(expected)),
            "{schema}: {errors:#?}\nwanted {expected}"
        );
    }
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert!(refused(deep)[0].contains("nested more than"));
}

#[test]
fn null_counts_as_absent() {
    let schema = compile(json!({
        "type": "string", "$ref": null, "properties": null, "additionalProperties": null, "items": null, "not": null,
        "minLength": null, "enum": null, "nullable": null, "x-kubernetes-list-type": null, "pattern": null,
    }));
    assert_eq!(messages(&schema, &json!({"spec": "x"})), Vec::<String>::new());
}

#[test]
fn int_or_string_may_be_spelt_out() {
    let schema = compile(json!({
        "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$",
    }));
    assert_eq!(messages(&schema, &json!({"spec": 5})), Vec::<String>::new());
    assert_eq!(messages(&schema, &json!({"spec": "5%"})), Vec::<String>::new());
    assert_eq!(messages(&schema, &json!({"spec": "x"})).len(), 1);
}

#[test]
fn patterns_are_those_of_go() {
    let schema = compile(json!({"type": "string", "pattern": "^[\\w\\-.~:\\/?#[\\]@!$&&'()*+,;=]+$"}));
    assert_eq!(messages(&schema, &json!({"spec": "a[b]&c/d"})), Vec::<String>::new());
    assert_eq!(messages(&schema, &json!({"spec": "a b"})).len(), 1);
    // given differences of Go's syntax: classes of ASCII, octal numbers, `{` and `\\<` as plain characters
    for (pattern, good, bad) in [
        ("^\\d+$", "12", "\u{663}"),
        ("^\\w+$", "a_1", "\u{e4}"),
        ("^[\\d-]+$", "1-2", "a"),
        ("^[^\\s]+$", "\u{a0}", " "),
        ("^\\S\\W\\D$", "a-b", "a-1"),
        ("^a\\b.$", "a\u{e4}", "ab"),
        ("^(/[^/\\0]+)+/?$", "/run/x", "//"),
        ("^\\101\\12$", "A\n", "A"),
        ("^[0-9]{1-4}$", "5{1-4}", "55"),
        ("^x{,2}$", "x{,2}", "xx"),
        ("^x{1,2}$", "xx", "xxx"),
        ("^\\<a\\>$", "<a>", "a"),
    ] {
        let schema = compile(json!({"type": "string", "pattern": pattern}));
        assert_eq!(messages(&schema, &json!({"spec": good})), Vec::<String>::new(), "{pattern} {good}");
        assert_eq!(messages(&schema, &json!({"spec": bad})).len(), 1, "{pattern} {bad}");
    }
    let schema = compile(json!({"type": "string", "pattern": "^[[:alpha:]]+$"}));
    assert_eq!(messages(&schema, &json!({"spec": "abc"})), Vec::<String>::new());
}

/// `jsonschema` must agree on validity, for the subset of the language that both support.
#[test]
fn agrees_with_an_independent_validator() {
    let schemas = [
        json!({"type": "integer", "minimum": 1, "maximum": 7}),
        json!({"type": "number", "multipleOf": 0.5, "maximum": 10}),
        json!({"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a"}),
        json!({"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer"}}),
        json!({"type": "object", "required": ["a"], "minProperties": 2,
               "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2}),
        json!({"type": "string", "enum": ["a", "ab"]}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
               "anyOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 5}}, "required": ["b"]}],
               "not": {"required": ["a", "b"]}}),
        json!({"type": "integer", "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}], "allOf": [{"minimum": 1}]}),
    ];
    let values = [
        json!(0),
        json!(1),
        json!(3),
        json!(6),
        json!(7),
        json!(8),
        json!(2.5),
        json!(2.3),
        json!(7.0),
        json!("a"),
        json!("ab"),
        json!("abcde"),
        json!("ba"),
        json!([]),
        json!([1]),
        json!([1, 2, 3, 4]),
        json!(["a"]),
        json!({}),
        json!({"a": "x", "b": true}),
        json!({"a": "x"}),
        json!({"a": 1}),
        json!({"b": 5}),
        json!({"b": 4}),
        json!({"a": 1, "b": 5}),
        json!({"x": 1, "y": 2, "z": 3}),
        json!(null),
        json!(true),
    ];
    let mut compared = 0;
    for spec in &schemas {
        let ours = compile(spec.clone());
        let oracle = jsonschema::draft6::new(spec).unwrap();
        for value in &values {
            let mine = ours.validate(&json!({"spec": value}));
            assert_eq!(mine.is_empty(), oracle.is_valid(value), "{spec} / {value}: {mine:?}");
            compared += 1;
        }
    }
    assert!(compared > 200);
}

#[test]
fn keywords_that_api_servers_drop_are_named() {
    let schema = json!({"type": "object", "readOnly": true, "properties": {
        "readOnly": {"type": "string", "minlength": 1},
        "list": {"type": "array", "items": {"type": "string", "xml": {}},
                 "anyOf": [{"discriminator": {}}], "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".x"}]},
    }});
    assert_eq!(
        unknown_keywords(&schema, "s"),
        [
            "s.readOnly",
            "s.properties[readOnly].minlength",
            "s.properties[list].items.xml",
            "s.properties[list].anyOf[0].discriminator",
        ]
    );
}

//! Rules of real definitions, on objects.

use serde_json::{Value, json};

use super::{first_error, schema, schema_with};
use crate::schema::Schema;

#[test]
fn values_have_the_types_of_the_schema() {
    let text = |more: Value| {
        let mut schema = json!({ "type": "string" });
        schema.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ "v": schema })
    };
    for (properties, rule, spec) in [
        (json!({ "v": { "x-kubernetes-int-or-string": true } }), "self.v == 5", json!({ "v": 5 })),
        (json!({ "v": { "x-kubernetes-int-or-string": true } }), "self.v == '50%'", json!({ "v": "50%" })),
        (
            json!({ "v": { "x-kubernetes-int-or-string": true } }),
            "type(self.v) == int ? self.v > 1 : self.v.endsWith('%')",
            json!({ "v": "5%" }),
        ),
        (json!({ "v": { "type": "number" } }), "self.v == 2.0", json!({ "v": 2 })),
        (json!({ "v": { "type": "integer" } }), "self.v == 2", json!({ "v": 2.0 })),
        (
            text(json!({ "format": "date-time" })),
            "self.v < timestamp('2025-01-01T00:00:00Z')",
            json!({ "v": "2024-01-01T00:00:00Z" }),
        ),
        (text(json!({ "format": "date" })), "self.v.getFullYear() == 2024", json!({ "v": "2024-01-01" })),
        (text(json!({ "format": "duration" })), "self.v == duration('1h')", json!({ "v": "60m" })),
        (text(json!({ "format": "byte" })), "self.v == b'abc'", json!({ "v": "YWJj" })),
        (
            json!({ "v": { "type": "object", "additionalProperties": { "type": "integer" } } }),
            "self.v.all(k, k.size() == 1 && self.v[k] > 0) && self.v.a == 1 && 'b' in self.v",
            json!({ "v": { "a": 1, "b": 2 } }),
        ),
        (
            json!({ "v": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" } }),
            "self.v == ['b', 'a'] && self.v + ['c', 'a'] == ['a', 'b', 'c']",
            json!({ "v": ["a", "b"] }),
        ),
        (json!({ "v": { "type": "string", "nullable": true } }), "has(self.v)", json!({ "v": null })),
        (
            json!({
                "namespace": { "type": "string" }, "a-b": { "type": "string" }, "c.d": { "type": "string" },
                "e/f": { "type": "string" }, "x__y": { "type": "string" },
            }),
            "self.__namespace__ == 'n' && self.a__dash__b == 'ab' && self.c__dot__d == 'cd' && self.e__slash__f == 'ef' && self.x__underscores__y == 'xy'",
            json!({ "namespace": "n", "a-b": "ab", "c.d": "cd", "e/f": "ef", "x__y": "xy" }),
        ),
        (
            json!({ "v": {
                "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            } }),
            "self.v.kind == 'Pod' && self.v.metadata.name == 'p'",
            json!({ "v": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" } } }),
        ),
    ] {
        assert_eq!(first_error(properties, rule, spec), None, "{rule}");
    }
}

#[test]
fn fields_outside_of_the_schema_are_not_visible() {
    let open = json!({ "v": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    for (properties, rule) in [
        (open, "self.v.anything == 1"),
        (json!({ "v": { "x-kubernetes-preserve-unknown-fields": true } }), "has(self.v)"),
        (json!({ "a-b": { "type": "string" } }), "self.a__b == ''"),
        (json!({ "v": { "type": "string" } }), "self.metadata.name == ''"),
    ] {
        let errors = schema(properties, rule).expect_err(rule);
        assert!(errors[0].contains("undefined field"), "{rule}: {errors:?}");
    }
}

#[test]
fn names_of_the_object_are_seen_at_its_root() {
    let root = |rule: &str| {
        let schema = json!({ "type": "object", "x-kubernetes-validations": [{ "rule": rule }] });
        Schema::compile(&schema, "schema")
    };
    let schema = root("self.metadata.name.startsWith('a-') && self.kind == 'K'").expect("it fits");
    let object = |name: &str| json!({ "apiVersion": "g/v1", "kind": "K", "metadata": { "name": name } });
    assert!(schema.validate(&object("a-1")).is_empty());
    assert_eq!(
        schema.validate(&object("b"))[0].to_string(),
        "<nil>: Invalid value: failed rule: self.metadata.name.startsWith('a-') && self.kind == 'K'"
    );
    assert!(root("self.metadata.labels.size() == 0").is_err());
}

#[test]
fn errors_have_the_field_path_of_the_rule() {
    let properties = || json!({ "replicas": { "type": "integer" }, "m": { "type": "object", "additionalProperties": { "type": "string" } } });
    for (rule, wanted) in [
        (json!({ "rule": "self.replicas < 5" }), "spec: Invalid value: failed rule: self.replicas < 5"),
        (json!({ "rule": "self.replicas < 5", "message": " few only " }), "spec: Invalid value: few only"),
        (
            json!({ "rule": "self.replicas < 5", "messageExpression": "'not ' + string(self.replicas)" }),
            "spec: Invalid value: not 7",
        ),
        (
            json!({ "rule": "self.replicas < 5", "message": "kept", "messageExpression": "string(1 / 0)" }),
            "spec: Invalid value: kept",
        ),
        (
            json!({ "rule": "self.replicas < 5", "message": "kept", "messageExpression": "'a\\nb'" }),
            "spec: Invalid value: kept",
        ),
        (
            json!({ "rule": "self.replicas < 5", "message": "m", "fieldPath": ".replicas", "reason": "FieldValueForbidden" }),
            "spec.replicas: Forbidden: m",
        ),
        (
            json!({ "rule": "self.replicas < 5", "message": "m", "fieldPath": ".m['a.b']", "reason": "FieldValueRequired" }),
            "spec.m[a.b]: Required value: m",
        ),
    ] {
        let schema = schema_with(properties(), rule).expect("it fits");
        let errors = schema.validate(&json!({ "spec": { "replicas": 7 } }));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);
    }
    // Scalar values are in the message.
    let schema = json!({ "type": "object", "properties": { "n": {
        "type": "integer", "x-kubernetes-validations": [{ "rule": "self % 2 == 0", "message": "odd" }],
    } } });
    let schema = Schema::compile(&schema, "schema").expect("it fits");
    assert_eq!(schema.validate(&json!({ "n": 3 }))[0].to_string(), "n: Invalid value: 3: odd");
}

#[test]
fn errors_of_rules_name_their_field() {
    let properties = || json!({ "a": { "type": "string" } });
    for (rule, wanted) in [
        (json!({ "rule": " " }), "[0].rule: Required value: rule is not specified"),
        (
            json!({ "rule": "true", "message": " " }),
            "[0].message: Invalid value: \" \": message must be non-empty if specified",
        ),
        (
            json!({ "rule": "true", "message": "a\nb" }),
            "[0].message: Invalid value: \"a\\nb\": message must not contain line breaks",
        ),
        (
            json!({ "rule": "true ||\nfalse" }),
            "[0].message: Required value: message must be specified if rule contains line breaks",
        ),
        (json!({ "rule": "true", "reason": "Other" }), "[0].reason: Unsupported value: \"Other\""),
        (
            json!({ "rule": "true", "fieldPath": ".b" }),
            "[0].fieldPath: Invalid value: \".b\": fieldPath must be a valid path: does not refer to a valid field",
        ),
        (json!({ "rule": "true", "fieldPath": "a" }), "fieldPath must be a valid path: expected [ or ."),
        (json!({ "rule": "true", "messageExpression": "1" }), "messageExpression must evaluate to a string"),
        (
            json!({ "rule": "true", "messageExpression": "self.b" }),
            "messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'b'",
        ),
        (
            json!({ "rule": "true", "optionalOldSelf": true }),
            "[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
        (json!({ "rule": 5 }), "[0].rule: Invalid value: 5: must be a string"),
    ] {
        let errors = schema_with(properties(), rule.clone()).expect_err("it is refused");
        assert!(errors[0].contains(wanted), "{rule}: {errors:?}");
    }
}

fn changed(schema: &Value, old: Value, new: Value) -> (Vec<String>, Vec<String>) {
    let schema = Schema::compile(schema, "schema").unwrap_or_else(|errors| panic!("{errors:?}"));
    let found = schema.validate_update(&new, &old);
    let shown = |errors: &[crate::FieldError]| errors.iter().map(ToString::to_string).collect();
    (shown(&found.errors), shown(&found.known))
}

#[test]
fn transition_rules_compare_with_the_old_value() {
    let schema = json!({ "type": "object", "properties": {
        "a": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "immutable" }] },
        "l": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": { "type": "object", "required": ["k"], "properties": {
                "k": { "type": "string" },
                "v": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self >= oldSelf", "message": "shrinks" }] },
            } },
        },
        "o": { "type": "integer", "x-kubernetes-validations": [
            { "rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": true, "message": "fixed" },
        ] },
    } });
    // a new field has no old value
    assert_eq!(changed(&schema, json!({}), json!({ "a": "x", "o": 1 })).0, [""; 0]);
    assert_eq!(
        changed(&schema, json!({ "a": "x" }), json!({ "a": "y" })).0,
        ["a: Invalid value: \"y\": immutable"]
    );
    assert_eq!(changed(&schema, json!({ "o": 1 }), json!({ "o": 2 })).0, ["o: Invalid value: 2: fixed"]);
    // items are identified by their keys
    let (errors, _) = changed(
        &schema,
        json!({ "l": [{ "k": "a", "v": 5 }, { "k": "b", "v": 1 }] }),
        json!({ "l": [{ "k": "b", "v": 2 }, { "k": "a", "v": 4 }, { "k": "c", "v": 0 }] }),
    );
    assert_eq!(errors, ["l[1].v: Invalid value: 4: shrinks"]);
}

#[test]
fn old_self_is_refused_on_items_without_identity() {
    let schema = json!({ "type": "object", "properties": { "l": {
        "type": "array", "items": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] },
    } } });
    let errors = Schema::compile(&schema, "schema").expect_err("it is refused");
    assert_eq!(
        errors[0].to_string(),
        "schema.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[l]"
    );
}

#[test]
fn stored_violations_do_not_reject_updates() {
    // given a schema that has become stricter
    let schema = json!({ "type": "object", "properties": {
        "a": { "type": "integer", "maximum": 5 },
        "b": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self <= 5", "message": "too many" }] },
        "c": { "type": "string" },
    } });
    let old = json!({ "a": 9, "b": 9, "c": "x" });
    // when other fields change, then the old values are accepted, and the violation is reported as known
    let (errors, known) = changed(&schema, old.clone(), json!({ "a": 9, "b": 9, "c": "y" }));
    assert_eq!((errors, known), (vec![], vec!["b: Invalid value: 9: too many".to_owned()]));
    // when they change, they must be valid
    let (errors, known) = changed(&schema, old, json!({ "a": 8, "b": 8, "c": "x" }));
    assert_eq!(
        errors,
        ["a: Invalid value: 8: a in body should be less than or equal to 5", "b: Invalid value: 8: too many"]
    );
    assert!(known.is_empty());
}

#[test]
fn rules_below_all_of_hold_too() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "allOf": [
        { "properties": { "a": { "x-kubernetes-validations": [{ "rule": "self > 1", "message": "small" }] } } },
    ] });
    let schema = Schema::compile(&schema, "schema").expect("it fits");
    assert_eq!(schema.validate(&json!({ "a": 1 }))[0].to_string(), "a: Invalid value: 1: small");
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "anyOf": [
        { "properties": { "a": { "x-kubernetes-validations": [{ "rule": "self > 1" }] } } },
    ] });
    let errors = Schema::compile(&schema, "schema").expect_err("it is refused");
    assert!(errors[0].to_string().contains("must be empty to be structural"), "{errors:?}");
}

#[test]
fn rules_do_not_run_on_values_of_the_wrong_type() {
    let properties = json!({ "a": { "type": "string" } });
    let schema = schema(properties, "self.a == 'x'").expect("it fits");
    let errors: Vec<String> =
        schema.validate(&json!({ "spec": { "a": 1 } })).iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(
        errors[1],
        "<nil>: Invalid value: \"null\": some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
    );
}

#[test]
fn an_object_has_a_budget() {
    // given rules that are each below their limit, on many items
    let schema = json!({ "type": "object", "properties": { "l": { "type": "array", "items": {
        "type": "array", "items": { "type": "integer" },
        "x-kubernetes-validations": [{ "rule": "self.all(a, self.all(b, a + b >= 0))", "message": "broken" }],
    } } } });
    let schema = Schema::compile(&schema, "schema").expect("it fits");
    let list: Vec<i64> = (0..300).collect();
    let object = json!({ "l": vec![list; 40] });
    let errors = schema.validate(&object);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].detail.starts_with("validation failed due to running out of cost budget"),
        "{errors:?}"
    );
}

#[test]
fn defaults_satisfy_the_rules() {
    let schema = json!({ "type": "object", "properties": { "a": {
        "type": "integer", "default": 9, "x-kubernetes-validations": [{ "rule": "self < 5", "message": "small only" }],
    } } });
    let errors = Schema::compile(&schema, "schema").expect_err("it is refused");
    assert_eq!(errors[0].to_string(), "schema.properties[a].default: Invalid value: 9: small only");
}

//! No definition or object causes a panic, and an unchanged definition has no findings.

use olm_kube_schema::{check_objects, compare, definition};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "enum",
    "default",
    "nullable",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxItems",
    "maxProperties",
    "pattern",
    "format",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "rule",
    "metadata",
    "a",
    "b.c",
    "",
];

const WORDS: &[&str] = &[
    "object", "array", "string", "integer", "number", "boolean", "set", "map", "atomic", "(", "a", "int32",
    "",
];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => proptest::sample::select(WORDS).prop_map(Value::from),
        2 => any::<bool>().prop_map(Value::from),
        2 => (-3i64..100).prop_map(Value::from),
        1 => proptest::num::f64::NORMAL.prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => ".{0,8}".prop_map(Value::from),
    ]
}

/// A value that partly resembles a schema.
fn anything() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            4 => proptest::collection::vec((proptest::sample::select(KEYWORDS), inner.clone()), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
            1 => proptest::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

fn crd(schema: &Value, odd: &Value) -> Value {
    let mut spec: Map<String, Value> = Map::new();
    spec.insert("group".into(), json!("example.com"));
    spec.insert("scope".into(), odd["type"].clone());
    spec.insert("names".into(), json!({"plural": "caches", "kind": "Cache", "shortNames": odd["enum"]}));
    spec.insert("conversion".into(), odd["default"].clone());
    spec.insert(
        "versions".into(),
        json!([
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": odd},
            {"name": odd["format"], "served": odd["nullable"], "schema": odd},
            odd,
        ]),
    );
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "caches.example.com"}, "spec": spec, "status": {"storedVersions": odd["required"]}})
}

proptest! {
    #[test]
    fn nothing_panics(old in anything(), new in anything(), odd in anything(), mut object in anything()) {
        let (live, mut next) = (crd(&old, &odd), crd(&new, &json!({})));
        let _ = (compare(&live, &next), compare(&next, &live), compare(&live, &odd));
        let _ = (definition::check(&live), definition::check(&next), definition::check(&odd));
        if let Some(object) = object.as_object_mut() {
            object.insert("apiVersion".into(), json!("example.com/v1"));
            object.insert("kind".into(), json!("Cache"));
        }
        let _ = (check_objects(&live, [&object, &odd]), check_objects(&next, [&object]));
        next["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
        let _ = (definition::check(&next), compare(&live, &next), check_objects(&next, [&object]));
    }

    #[test]
    fn an_unchanged_definition_has_no_findings(schema in anything(), odd in anything()) {
        let same = crd(&schema, &odd);
        let changes = compare(&same, &same);
        // A version that is in status.storedVersions and not in the definition is lost already.
        let own: Vec<_> = changes.iter().filter(|change| change.code.as_str() != "stored-version-removed").collect();
        prop_assert!(own.is_empty(), "{own:?}");
    }
}

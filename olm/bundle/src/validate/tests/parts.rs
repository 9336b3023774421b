//! Schemas, dependencies and properties.

use serde_json::{Value, json};

use super::good;
use crate::Bundle;

/// Findings for the schema of the single CustomResourceDefinition.
fn of_schema(schema: Value) -> Vec<String> {
    let (csv, mut objects) = good();
    objects[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    objects.push(csv);
    let findings = Bundle::from_objects(objects).unwrap().validate();
    assert!(findings.iter().all(|finding| finding.code == "crd-schema"), "{findings:?}");
    let prefix = "spec.versions[0].schema.openAPIV3Schema";
    findings.iter().map(|finding| finding.field.strip_prefix(prefix).unwrap().to_owned()).collect()
}

#[test]
fn schemas_must_be_structural() {
    let with = |properties: Value| of_schema(json!({"type": "object", "properties": properties}));
    let none = Vec::<String>::new();
    // given schemas that API servers accept
    assert_eq!(
        with(json!({"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}})),
        none
    );
    assert_eq!(
        with(
            json!({"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}})
        ),
        none
    );
    assert_eq!(with(json!({"a": {"x-kubernetes-preserve-unknown-fields": true}})), none);
    assert_eq!(
        with(
            json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "oneOf": [{"required": ["b"]}, {"properties": {"b": {"enum": ["c"]}}}]}})
        ),
        none
    );
    assert_eq!(with(json!({"a": {"type": "object", "additionalProperties": {"type": "string"}}})), none);
    assert_eq!(
        with(
            json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}})
        ),
        none
    );
    for schema in [
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "anyOf": [{"properties": {"b": {}}}]}),
        json!({"type": "string", "x-kubernetes-int-or-string": true}),
    ] {
        assert_eq!(with(json!({"a": schema})), none);
    }
    // and ones that they reject
    assert_eq!(of_schema(json!({"properties": {}})), [".type"]);
    for (schema, field) in [
        (json!({"description": "x"}), ".type"),
        (json!({"type": "text"}), ".type"),
        (json!({"type": "array"}), ".items"),
        (json!({"type": "array", "items": {}}), ".items.type"),
        (
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ".additionalProperties",
        ),
        (json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}), ".uniqueItems"),
        (json!({"type": "string", "anyOf": [{"type": "string"}]}), ".anyOf[0].type"),
        (json!({"type": "string", "allOf": [{"description": "x"}]}), ".allOf[0].description"),
        (json!({"type": "object", "patternProperties": {}}), ".patternProperties"),
        (json!({"type": "string", "x-kubernetes-list-type": "set"}), ".type"),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            ".items.x-kubernetes-map-type",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            ".x-kubernetes-list-map-keys",
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"message": "x"}]}),
            ".x-kubernetes-validations[0].rule",
        ),
    ] {
        assert_eq!(with(json!({"a": schema})), [format!(".properties[a]{field}")]);
    }
    assert_eq!(
        with(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
        [".properties[metadata]"]
    );
}

/// The errors in `metadata/`, for a dependency or property.
fn of_entry(key: &str, type_: &str, value: Value) -> Vec<(&'static str, String)> {
    let (csv, mut objects) = good();
    objects.push(csv);
    let mut bundle = Bundle::from_objects(objects).unwrap();
    let entry = crate::Property { type_: type_.into(), value };
    if key == "properties" {
        bundle.properties.push(entry)
    } else {
        bundle.dependencies.push(entry)
    }
    bundle.validate().into_iter().map(|finding| (finding.code, finding.field)).collect()
}

#[test]
fn dependencies_and_properties_follow_their_types() {
    let found = |key: &str, type_: &str, value: Value| {
        let findings = of_entry(key, type_, value);
        findings.into_iter().map(|(code, field)| format!("{code} {field}")).collect::<Vec<_>>()
    };
    let dependency = |type_: &str, value: Value| found("dependencies", type_, value);
    let property = |type_: &str, value: Value| found("properties", type_, value);
    let none = Vec::<String>::new();
    assert_eq!(dependency("olm.package", json!({"packageName": "a", "version": ">=1.0.0 <2.0.0"})), none);
    assert_eq!(
        dependency("olm.package", json!({"version": ">!1"})),
        ["dependency-incomplete value.packageName", "dependency-range-invalid value.version"]
    );
    assert_eq!(
        dependency("olm.gvk", json!({"group": "a"})),
        ["dependency-incomplete value.version", "dependency-incomplete value.kind"]
    );
    assert_eq!(dependency("olm.gvk", json!([])).len(), 3);
    assert_eq!(dependency("olm.label", json!({})), ["dependency-incomplete value.label"]);
    assert_eq!(dependency("olm.crd", json!({})), ["dependency-type-unknown type"]);
    let package = json!({"packageName": "a", "versionRange": ">=1.0.0"});
    assert_eq!(
        dependency(
            "olm.constraint",
            json!({"failureMessage": "x", "any": {"constraints": [{"package": package}]}})
        ),
        none
    );
    assert_eq!(dependency("olm.constraint", json!({"cel": {"rule": "true"}})), none);
    for rule in ["1 + 1", "properties.exists(p", "property.exists(p, true)"] {
        let cel = json!({"any": {"constraints": [{"cel": {"rule": rule}}]}});
        assert_eq!(
            dependency("olm.constraint", cel),
            ["constraint-cel-invalid value.any.constraints[0].cel.rule"]
        );
    }
    assert_eq!(dependency("olm.constraint", json!({})), ["constraint-empty value"]);
    assert_eq!(dependency("olm.constraint", json!({"cel": {}})), ["constraint-incomplete value.cel.rule"]);
    assert_eq!(
        dependency("olm.constraint", json!({"pakage": package})),
        ["constraint-key-unknown value.pakage", "constraint-empty value"]
    );
    assert_eq!(
        dependency(
            "olm.constraint",
            json!({"all": {"constraints": [{"not": {"constraints": [{"gvk": {"group": "a", "version": "v1", "name": "x"}}]}}]}})
        ),
        [
            "constraint-key-unknown value.all.constraints[0].not.constraints[0].gvk.name",
            "constraint-incomplete value.all.constraints[0].not.constraints[0].gvk.kind"
        ]
    );
    assert_eq!(
        dependency("olm.constraint", json!({"package": package, "cel": {"rule": "true"}})),
        ["constraint-ambiguous value"]
    );
    assert_eq!(
        dependency("olm.constraint", json!({"all": {"constraints": []}})),
        ["constraint-empty value.all.constraints"]
    );
    assert_eq!(
        dependency("olm.constraint", json!({"failureMessage": "x".repeat(140_000)})),
        ["constraint-too-large value"]
    );
    assert_eq!(property("custom", json!(null)), none);
    assert_eq!(property("", json!(1)), ["property-type-missing type"]);
    assert_eq!(
        property("olm.package.required", json!({"packageName": "a", "versionRange": "x"})),
        ["dependency-range-invalid value.versionRange"]
    );
    assert_eq!(property("olm.maxOpenShiftVersion", json!("4.12")), none);
    assert_eq!(property("olm.maxOpenShiftVersion", json!(4.1)), ["max-openshift-version value"]);
    assert_eq!(property("olm.maxOpenShiftVersion", json!("four")), ["max-openshift-version value"]);
}

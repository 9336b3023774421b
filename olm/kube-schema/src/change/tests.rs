use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

mod oracle;
mod table;
mod upstream;

/// A definition with one version and these fields in `.spec`.
fn crd(fields: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "caches.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "caches", "singular": "cache", "kind": "Cache", "listKind": "CacheList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields}}}},
            }],
        },
        "status": {"storedVersions": ["v1"]},
    })
}

/// Changes as `severity code version path`.
fn short(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| {
            let version = change.version.as_deref().unwrap_or("-");
            format!("{} {} {version} {}", change.severity.as_str(), change.code, change.path)
        })
        .collect()
}

/// Changes of the field `.spec.a` between two schemas.
fn field(old: Value, new: Value) -> Vec<Change> {
    compare(&crd(json!({"a": old})), &crd(json!({"a": new})))
}

#[test]
fn nothing_changes_into_itself() {
    let same = crd(json!({"a": {"type": "string", "enum": ["x"], "default": "x"}}));
    assert_eq!(compare(&same, &same), []);
}

#[test]
fn changes_have_old_and_new_values() {
    let changes = field(
        json!({"type": "integer", "maximum": 7, "description": "Members."}),
        json!({"type": "integer", "maximum": 5, "description": "Number of members."}),
    );
    assert_eq!(
        changes,
        [Change {
            code: ChangeCode::MaximumLowered,
            severity: Severity::Breaking,
            version: Some("v1".into()),
            path: ".spec.a".into(),
            text: "only numbers of at most 5 are accepted".into(),
            before: Some("at most 7".into()),
            after: Some("at most 5".into()),
        }]
    );
    assert_eq!(
        serde_json::to_value(&changes[0]).unwrap(),
        json!({"code": "maximum-lowered", "severity": "breaking", "version": "v1", "path": ".spec.a",
               "text": "only numbers of at most 5 are accepted", "before": "at most 7", "after": "at most 5"})
    );
}

#[test]
fn the_worst_comes_first() {
    let live = crd(json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    let mut new = crd(json!({"a": {"type": "string", "default": "x"}}));
    new["spec"]["versions"][0]["deprecated"] = json!(true);
    assert_eq!(
        short(&compare(&live, &new)),
        [
            "breaking property-removed v1 .spec.b",
            "careful default-added v1 .spec.a",
            "safe version-deprecated - .spec.versions",
        ]
    );
}

#[test]
fn values_are_cut_and_lists_end() {
    let members: Vec<String> = (0..10_000).map(|n| format!("member-{n}")).collect();
    let changes = field(json!({"type": "string", "enum": members}), json!({"type": "string", "enum": ["x"]}));
    assert!(changes[0].text.len() < 300 && changes[0].before.as_ref().unwrap().len() < 300, "{changes:?}");

    let many: serde_json::Map<String, Value> =
        (0..3_000).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
    let changes = compare(&crd(many.into()), &crd(json!({})));
    assert_eq!(changes.len(), 1_001);
    let last = changes.last().unwrap();
    assert_eq!((last.code, last.severity), (ChangeCode::NotCompared, Severity::Breaking));
    assert_eq!(last.text, "2000 more changes are not listed");
}

#[test]
fn deep_schemas_are_compared_to_a_limit() {
    let deep = |leaf: &str| {
        (0..100).fold(json!({"type": leaf}), |inner, _| json!({"type": "object", "properties": {"a": inner}}))
    };
    let changes = field(deep("string"), deep("integer"));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].code, ChangeCode::NotCompared);
    assert_eq!(field(deep("string"), deep("string")), []);
}

#[test]
fn an_unreadable_definition_is_a_finding() {
    let good = crd(json!({}));
    for bad in [json!(null), json!([]), json!({"kind": "Pod", "apiVersion": "v1"}), {
        let mut bad = good.clone();
        bad["spec"]["versions"] = json!("v1");
        bad
    }] {
        for changes in [compare(&good, &bad), compare(&bad, &good)] {
            assert_eq!(short(&changes), ["breaking unreadable - "], "{bad}");
        }
    }
    // Malformed parts do not end the comparison.
    let odd = crd(json!({"a": 5, "b": {"type": "array", "items": [1], "enum": "x", "required": {}}}));
    let _ = (compare(&good, &odd), compare(&odd, &good), compare(&odd, &odd));
}

#[test]
fn codes_are_unique_and_described() {
    let names: BTreeSet<&str> = ChangeCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(names.len(), ChangeCode::ALL.len());
    for code in ChangeCode::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        assert!(code.describe().ends_with('.') && !code.describe().starts_with(' '), "{code}");
    }
}

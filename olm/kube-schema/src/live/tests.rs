use serde_json::{Value, json};

use super::*;

fn crd(versions: &[(&str, bool, bool, Value)]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, served, storage, spec)| {
            json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec}}}})
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "caches.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
                 "names": {"plural": "caches", "kind": "Cache"}},
    })
}

fn sized() -> Value {
    json!({"type": "object", "required": ["mode"], "properties": {
        "size": {"type": "integer", "maximum": 7}, "mode": {"type": "string", "default": "A"}}})
}

fn object(name: &str, version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Cache",
           "metadata": {"namespace": "ns", "name": name, "labels": {"any": "thing"}}, "spec": spec})
}

fn paths(reports: &[ObjectReport]) -> Vec<(String, String)> {
    reports
        .iter()
        .flat_map(|report| report.fields.iter().map(|field| (report.name.clone(), field.path.clone())))
        .collect()
}

#[test]
fn objects_that_fit_are_clean() {
    let objects = [object("a", "v1", json!({"size": 3})), object("b", "v1", json!({"mode": "B"}))];
    let report = check_objects(&crd(&[("v1", true, true, sized())]), &objects);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.kind.as_str(), report.checked), ("Cache", 2));
}

#[test]
fn objects_that_fail_are_named_with_the_field_and_the_reason() {
    let objects = [object("a", "v1", json!({"size": 9})), object("b", "v1", json!({"size": 1}))];
    let report = check_objects(&crd(&[("v1", true, true, sized())]), &objects);
    assert_eq!((report.checked, report.failing, report.losing), (2, 1, 0));
    assert_eq!(
        report.failures,
        [ObjectReport {
            namespace: Some("ns".into()),
            name: "a".into(),
            version: "v1".into(),
            fields: vec![Field {
                path: ".spec.size".into(),
                text: "Invalid value: 9: spec.size in body should be less than or equal to 7".into(),
            }],
            total: 1,
        }]
    );
}

#[test]
fn fields_that_would_be_dropped_are_data_loss_and_no_failure() {
    let objects = [object("a", "v1", json!({"size": 1, "old": {"deep": 1}}))];
    let report = check_objects(&crd(&[("v1", true, true, sized())]), &objects);
    assert_eq!((report.failing, report.losing), (0, 1));
    assert_eq!(paths(&report.losses), [("a".into(), ".spec.old".into())]);
    assert_eq!(report.losses[0].fields[0].text, "it is dropped: the schema of v1 does not have it");
}

#[test]
fn objects_of_a_removed_version_are_read_at_the_storage_version() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let objects = [object("a", "v1alpha1", json!({"size": 9})), object("b", "v1beta1", json!({"size": 9}))];
    for (versions, failing) in [
        // v1alpha1 is gone, v1beta1 accepts any value
        (vec![("v1beta1", true, false, open.clone()), ("v1", true, true, sized())], vec!["a"]),
        // both exist but are not served
        (
            vec![
                ("v1alpha1", false, false, open.clone()),
                ("v1beta1", false, false, open),
                ("v1", true, true, sized()),
            ],
            vec!["a", "b"],
        ),
    ] {
        let report = check_objects(&crd(&versions), &objects);
        let names: Vec<&str> = report.failures.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, failing, "{report:?}");
        assert_eq!(report.failures[0].version, "v1");
    }
}

#[test]
fn fields_missing_in_the_storage_version_are_lost_as_well() {
    let wide =
        json!({"type": "object", "properties": {"size": {"type": "integer"}, "extra": {"type": "string"}}});
    let new = crd(&[("v1beta1", true, false, wide), ("v1", true, true, sized())]);
    let report = check_objects(&new, &[object("a", "v1beta1", json!({"size": 9, "extra": "x"}))]);
    assert_eq!((report.failing, report.losing), (0, 1), "9 is fine at v1beta1: {report:?}");
    assert_eq!(paths(&report.losses), [("a".into(), ".spec.extra".into())]);
    assert_eq!(report.losses[0].fields[0].text, "it is dropped: the schema of v1 does not have it");
}

#[test]
fn counts_are_exact_and_lists_are_short() {
    let many: Vec<Value> =
        (0..100).map(|n| object(&format!("o{n}"), "v1", json!({"size": 100 + n}))).collect();
    let report = check_objects(&crd(&[("v1", true, true, sized())]), &many);
    assert_eq!((report.checked, report.failing, report.failures.len()), (100, 100, MOST_OBJECTS));
    let wide: serde_json::Map<String, Value> = (0..50).map(|n| (format!("f{n}"), json!(n))).collect();
    let report = check_objects(&crd(&[("v1", true, true, sized())]), &[object("a", "v1", wide.into())]);
    assert_eq!((report.losses[0].total, report.losses[0].fields.len()), (50, MOST_FIELDS));
    let long = object("a", "v1", json!({"mode": "x", "size": "y".repeat(10_000)}));
    let pattern = json!({"type": "object", "properties": {"mode": {"type": "string"},
        "size": {"type": "string", "enum": ["small"]}}});
    let report = check_objects(&crd(&[("v1", true, true, pattern)]), &[long]);
    assert!(report.failures[0].fields[0].text.len() < 600);
}

#[test]
fn rules_in_cel_are_run() {
    let mut spec = sized();
    spec["x-kubernetes-validations"] = json!([
        {"rule": "self.size > 1", "message": "too small"}, {"rule": "self.size >= oldSelf.size"},
    ]);
    let objects = [object("a", "v1", json!({"size": 1})), object("b", "v1", json!({"size": 2}))];
    let report = check_objects(&crd(&[("v1", true, true, spec)]), &objects);
    assert_eq!((report.checked, report.failing), (2, 1));
    assert!(report.unchecked.is_empty());
    assert_eq!(paths(&report.failures), [("a".to_owned(), ".spec".to_owned())]);
    assert!(report.failures[0].fields[0].text.ends_with("too small"));
}

#[test]
fn unchecked_objects_are_reported() {
    let objects = [object("a", "v1", json!({}))];
    let bad = crd(&[("v1", true, true, json!({"type": "text"}))]);
    let report = check_objects(&bad, &objects);
    assert_eq!((report.checked, report.unchecked[0].what.as_str()), (0, "version v1"));
    assert!(report.unchecked[0].why.starts_with("API servers refuse its schema: "), "{report:?}");

    let report = check_objects(&json!({"kind": "Pod"}), &objects);
    assert_eq!(report.unchecked[0].why, "it is not a CustomResourceDefinition");

    let foreign = [json!({"apiVersion": "v1", "kind": "Pod"}), json!(null)];
    let report = check_objects(&crd(&[("v1", true, true, sized())]), &foreign);
    assert_eq!((report.checked, report.unchecked[0].objects), (0, 2));

    let mut webhook = crd(&[("v2", true, true, sized())]);
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let report = check_objects(&webhook, &objects);
    assert_eq!(report.unchecked[0].why, "the conversion webhook decides on the result");

    let report = check_objects(&crd(&[("v2", true, false, sized())]), &objects);
    assert!(report.unchecked[0].why.contains("no version of storage"), "{report:?}");
}

#[test]
fn the_old_api_preserves_unknown_fields() {
    let mut old = crd(&[("v1", true, true, sized())]);
    old["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    let objects = [object("a", "v1", json!({"size": 1, "more": 1}))];
    assert!(check_objects(&old, &objects).is_clean());
    old["spec"]["preserveUnknownFields"] = json!(false);
    assert_eq!(check_objects(&old, &objects).losing, 1);
    // Without a schema every object is valid.
    old["spec"]["versions"] = json!([{"name": "v1", "served": true, "storage": true}]);
    assert!(check_objects(&old, &objects).is_clean());
}

//! Kubernetes' own verdicts on schemas: one of each kind of schema that our validation and that of the API
//! server once judged differently, and similar ones. Recorded from `ValidateCustomResourceDefinition` of
//! Kubernetes 1.36.2.
#![allow(clippy::unwrap_used, clippy::panic)]

use olm_kube_schema::definition::{parse, set_defaults};
use serde_json::{Value, json};

/// Path of the first version's schema in a definition; the recorded errors begin with `schema`.
const SCHEMA: &str = "spec.versions[0].schema.openAPIV3Schema";

const VERDICTS: &str = include_str!("kubernetes_verdicts.jsonl");

#[test]
fn schemas_are_judged_as_by_kubernetes() {
    let mut wrong = Vec::new();
    for line in VERDICTS.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let theirs: Vec<&str> =
            row["errors"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
        let mut crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "cases.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "cases", "kind": "Case"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": row["schema"]}}],
            },
        });
        set_defaults(&mut crd);
        let ours: Vec<String> =
            parse(&crd).err().unwrap_or_default().iter().map(ToString::to_string).collect();
        // The same verdict, and for the same fields.
        let at = |field: &str| {
            ours.iter().any(|error| error.replace(SCHEMA, "schema").starts_with(&format!("{field}: ")))
        };
        let fields = theirs.iter().filter_map(|error| error.split_once(": ")).map(|(field, _)| field);
        if ours.is_empty() != theirs.is_empty() || !fields.into_iter().all(at) {
            wrong.push(format!("{}\n  Kubernetes: {theirs:?}\n  here: {ours:?}", row["schema"]));
        }
    }
    assert!(wrong.is_empty(), "{} schemas are judged differently:\n{}", wrong.len(), wrong.join("\n"));
}

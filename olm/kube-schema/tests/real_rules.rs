//! The CEL rules of real definitions: all of them compile, and the sample objects satisfy them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use olm_kube_schema::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

/// Rules in all definitions, distinct ones, and definitions with rules.
const COUNTS: (usize, usize, usize) = (341, 66, 23);

fn data() -> Option<PathBuf> {
    let root = std::env::var("OLM_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
    let dir = PathBuf::from(root);
    if dir.is_dir() {
        return Some(dir);
    }
    println!("skipped: real rules: no data at {}", dir.display());
    None
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml" || ext == "json") {
            out.push(path);
        }
    }
}

fn rules_of(schema: &Value, out: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                if key == "x-kubernetes-validations" {
                    let rules = value.as_array().into_iter().flatten();
                    out.extend(rules.filter_map(|rule| rule["rule"].as_str()).map(str::to_owned));
                } else {
                    rules_of(value, out);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| rules_of(value, out)),
        _ => {}
    }
}

#[test]
fn all_rules_of_real_definitions_compile() {
    let Some(dir) = data() else { return };
    let mut paths = Vec::new();
    files(&dir, &mut paths);
    paths.sort();
    let (mut rules, mut definitions, mut refused) = (Vec::new(), 0, Vec::new());
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if !text.contains("x-kubernetes-validations") {
            continue;
        }
        for document in serde_yaml::Deserializer::from_str(&text) {
            let Ok(object) = Value::deserialize(document) else { continue };
            if object["kind"] != "CustomResourceDefinition" {
                continue;
            }
            definitions += 1;
            for version in object["spec"]["versions"].as_array().into_iter().flatten() {
                let schema = &version["schema"]["openAPIV3Schema"];
                rules_of(schema, &mut rules);
                if let Err(errors) = Schema::compile(schema, "schema") {
                    refused.extend(errors.iter().map(|error| format!("{}: {error}", path.display())));
                }
            }
        }
    }
    let different: BTreeSet<&String> = rules.iter().collect();
    println!("{} rules, {} different ones, in {definitions} definitions", rules.len(), different.len());
    assert_eq!(refused, Vec::<String>::new());
    assert_eq!((rules.len(), different.len(), definitions), COUNTS);
}

/// The definition of a bundle, if the data is present.
fn definition(bundle: &str, file: &str) -> Option<Schema> {
    let path = data()?.join("bundles/operators").join(bundle).join("manifests").join(file);
    let text = fs::read_to_string(&path).expect("the bundle has the definition");
    let object: Value = serde_yaml::from_str(&text).expect("the definition is YAML");
    let schema = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    Some(Schema::compile(schema, "schema").expect("the definition is valid"))
}

#[test]
fn rules_of_real_definitions_are_enforced() {
    let object = |spec: Value| serde_json::json!({ "spec": spec });
    let of = |schema: &Schema, spec: Value| -> Vec<String> {
        schema.validate(&object(spec)).iter().map(ToString::to_string).collect()
    };
    let Some(limitador) = definition("limitador-operator/0.11.0", "limitador.kuadrant.io_limitadors.yaml")
    else {
        return;
    };
    // given a store on a disk, which cannot be shared
    let disk = |replicas: i64| serde_json::json!({ "storage": { "disk": {} }, "replicas": replicas });
    assert!(of(&limitador, disk(1)).is_empty());
    assert_eq!(
        of(&limitador, disk(2)),
        ["spec: Invalid value: disk storage does not allow multiple replicas"]
    );
    let Some(buckets) = definition("ack-s3-controller/1.3.0", "s3.services.k8s.aws_buckets.yaml") else {
        return;
    };
    let named = |name: &str| object(serde_json::json!({ "name": name }));
    assert!(buckets.validate_update(&named("a"), &named("a")).errors.is_empty());
    let errors = buckets.validate_update(&named("b"), &named("a")).errors;
    assert_eq!(errors[0].to_string(), "spec.name: Invalid value: \"b\": Value is immutable once set");
}

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn crontab() -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "shortNames": ["ct"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"}],
            }],
        },
    });
    set_defaults(&mut crd);
    crd
}

fn errors(edit: impl Fn(&mut Value)) -> Vec<String> {
    let mut crd = crontab();
    edit(&mut crd);
    match parse(&crd) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn reads_a_crd() {
    let crd = parse(&crontab()).unwrap();
    assert_eq!((crd.kind.as_str(), crd.list_kind.as_str(), crd.namespaced), ("CronTab", "CronTabList", true));
    let version = crd.storage();
    assert_eq!(version.name, "v1");
    assert!(version.status);
    assert_eq!(version.scale.as_ref().map(|s| s.spec_replicas_path.as_str()), Some(".spec.replicas"));
    assert_eq!(version.columns[0].json_path, ".spec.cronSpec");
}

#[test]
fn defaults_names_and_conversion() {
    let mut crd = json!({"spec": {"names": {"plural": "crontabs", "kind": "CronTab"}}});
    set_defaults(&mut crd);
    assert_eq!(crd["spec"]["names"]["singular"], "crontab");
    assert_eq!(crd["spec"]["names"]["listKind"], "CronTabList");
    assert_eq!(crd["spec"]["conversion"]["strategy"], "None");
}

#[test]
fn refuses_what_kubernetes_refuses() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 12] = [
        (
            |c| c["metadata"]["name"] = json!("x.stable.example.com"),
            "metadata.name: Invalid value: \"x.stable.example.com\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            |c| c["spec"]["scope"] = json!("Galaxy"),
            "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (|c| c["spec"]["versions"] = json!([]), "spec.versions: Required value"),
        (
            |c| c["spec"]["versions"][0]["storage"] = json!(false),
            "spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version",
        ),
        (
            |c| c["spec"]["versions"][0]["schema"] = json!({}),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            |c| {
                c["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] =
                    json!("")
            },
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            |c| c["spec"]["conversion"] = json!({"strategy": "Webhook"}),
            "spec.conversion.strategy: Forbidden: conversion webhooks are not supported by the dev cluster",
        ),
        (
            |c| c["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] = json!("spec.x"),
            "spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: \"spec.x\": is not a JSON path",
        ),
        (
            |c| c["spec"]["names"]["shortNames"] = json!(["CT"]),
            "spec.names.shortNames[0]: Invalid value: \"CT\"",
        ),
        (|c| c["spec"]["names"]["kind"] = json!(""), "spec.names.kind: Required value"),
        (
            |c| c["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = json!(".status.x"),
            "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".status.x\": should be a json path under .spec.",
        ),
        (|c| c["spec"] = json!(null), "spec.group: Required value"),
    ];
    for (edit, expected) in cases {
        let errors = errors(edit);
        assert!(errors.iter().any(|e| e.starts_with(expected)), "{errors:#?}\nwanted {expected}");
    }
    assert!(parse(&json!(null)).is_err());
}

#[test]
fn status_accepts_names_and_establishes() {
    let mut crd = crontab();
    assert!(compute_status(&mut crd, &|_| None, NOW));
    assert!(is_established(&crd));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["status"]["acceptedNames"]["shortNames"], json!(["ct"]));
    assert!(!compute_status(&mut crd, &|_| None, "2027-01-01T00:00:00Z"), "nothing changes the second time");
    // When the storage version moves, both stay recorded.
    crd["spec"]["versions"][0]["name"] = json!("v2");
    assert!(compute_status(&mut crd, &|_| None, NOW));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn taken_names_are_not_accepted() {
    let mut crd = crontab();
    let taken = |name: &str| (name == "ct").then(|| "cats.stable.example.com".to_owned());
    assert!(compute_status(&mut crd, &taken, NOW));
    assert!(!is_established(&crd));
    let condition = &crd["status"]["conditions"][0];
    assert_eq!(condition["reason"], "ShortNamesConflict");
    assert_eq!(condition["message"], "\"ct\" is already in use");
    assert_eq!(crd["status"]["acceptedNames"]["plural"], "crontabs");
    assert!(compute_status(&mut crd, &|_| None, NOW), "accepted as soon as the other is gone");
    assert!(is_established(&crd));
}

#[test]
fn updates_keep_what_is_immutable() {
    let mut old = crontab();
    compute_status(&mut old, &|_| None, NOW);
    let mut new = old.clone();
    assert!(validate_update(&new, &old).is_empty());
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["versions"][0]["name"] = json!("v2");
    let errors: Vec<String> = validate_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "status.storedVersions[0]: Invalid value: \"v1\": must appear in spec.versions",
        ]
    );
}

/// Every CRD in the bundles of real catalogs must be accepted.
#[test]
fn accepts_real_crds() {
    let root = std::env::var("OLM_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned())
        + "/bundles";
    let mut files = Vec::new();
    collect(std::path::Path::new(&root), &mut files);
    if files.is_empty() {
        eprintln!("skipped: no data at {root}");
        return;
    }
    let (mut seen, mut refused) = (0, Vec::new());
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        if text.len() > 4_000_000 || !text.contains("kind: CustomResourceDefinition") {
            continue;
        }
        for document in serde_yaml::Deserializer::from_str(&text) {
            use serde::Deserialize;
            let Ok(mut crd) = Value::deserialize(document) else { break };
            if crd["kind"] != "CustomResourceDefinition" || crd["apiVersion"] != "apiextensions.k8s.io/v1" {
                continue;
            }
            set_defaults(&mut crd);
            seen += 1;
            if let Err(errors) = parse(&crd) {
                let webhook = errors.iter().all(|e| e.to_string().contains("conversion webhooks"));
                if !webhook {
                    refused.push(format!("{}: {}", file.display(), errors[0]));
                }
            }
        }
    }
    eprintln!("read {seen} CRDs");
    assert!(refused.is_empty(), "{refused:#?}");
}

fn collect(dir: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
}

//! Real manifests round-trip through the types without losing known fields.
// the lints exempt `#[test]` functions, not their helpers
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use olm_api::{
    CatalogSource, ClusterServiceVersion, InstallPlan, OLMConfig, Operator, OperatorCondition, OperatorGroup,
    Subscription, crds,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn shared(path: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("OLM_SHARED_DATA").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let file = root.join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", file.display());
    None
}

fn yaml_files(dir: &Path, list: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, list);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            list.push(path);
        }
    }
}

/// The documents of a file; invalid YAML is skipped (some files are invalid on purpose).
fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_yaml::Deserializer::from_str(&text)
        .filter_map(|doc| serde::Deserialize::deserialize(doc).ok())
        .collect()
}

/// The parts of `before` that `after` lost, as JSON pointers. Absent, an empty text, an empty list and
/// `false` are equal.
fn lost(before: &Value, after: &Value, path: &str, list: &mut Vec<String>) {
    let empty = |v: &Value| {
        v.is_null()
            || v == ""
            || v == false
            || v.as_array().is_some_and(Vec::is_empty)
            || v == 0
            || v.as_object().is_some_and(serde_json::Map::is_empty)
    };
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                match b.get(key) {
                    Some(after) => lost(value, after, &format!("{path}/{key}"), list),
                    None if empty(value) || value.as_object().is_some_and(|m| m.values().all(empty)) => {}
                    None => list.push(format!("{path}/{key}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                lost(a, b, &format!("{path}/{i}"), list);
            }
        }
        (a, b) if a == b || (empty(a) && empty(b)) => {}
        // times are compared in one format
        (Value::String(a), Value::String(b))
            if a.starts_with("20") && a.trim_end_matches('Z')[..19] == b[..19] => {}
        _ => list.push(path.to_owned()),
    }
}

fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Vec<String>, String> {
    let typed: T = serde_json::from_value(object.clone()).map_err(|e| e.to_string())?;
    let after = serde_json::to_value(typed).map_err(|e| e.to_string())?;
    let mut list = Vec::new();
    lost(object, &after, "", &mut list);
    Ok(list)
}

#[test]
fn every_real_csv_survives() {
    let Some(dir) = shared("bundles") else { return };
    let mut files = Vec::new();
    yaml_files(&dir, &mut files);
    let (mut count, mut wrong, mut gone) = (0, Vec::new(), BTreeSet::new());
    for file in &files {
        for object in documents(file).iter().filter(|o| o["kind"] == "ClusterServiceVersion") {
            count += 1;
            match round_trip::<ClusterServiceVersion>(object) {
                Ok(list) => {
                    // the report ignores positions in lists
                    gone.extend(list.into_iter().map(|p| {
                        p.split('/')
                            .map(|s| if s.parse::<u32>().is_ok() { "N" } else { s })
                            .collect::<Vec<_>>()
                            .join("/")
                    }));
                }
                Err(error) => wrong.push(format!("{}: {error}", file.display())),
            }
        }
    }
    println!("{count} ClusterServiceVersions");
    assert!(count >= 200, "only {count} found under {}", dir.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // fields of real manifests that upstream's types do not have either
    let unknown: Vec<&String> =
        gone.iter().filter(|p| !NOT_IN_THE_API.iter().any(|k| p.starts_with(k))).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Fields of real manifests that upstream's API does not have: mistakes of their authors, pruned by any API
/// server.
const NOT_IN_THE_API: &[&str] = &[
    // not operators.coreos.com/v1alpha1, but its predecessor
    "/apiVersion",
    "/spec/MinKubeVersion",
    "/spec/customresourcedefinitions/owned/N/group",
    "/spec/install/spec/permissions/N/rules/N/apigroups",
    "/spec/relatedImages/N/value",
];

#[test]
fn what_olm_v0_leaves_in_a_cluster_can_be_read() {
    let Some(dir) = shared("olm-v0-installed") else { return };
    let mut files = Vec::new();
    yaml_files(&dir, &mut files);
    let mut kinds = BTreeSet::new();
    for file in files {
        let mut objects = documents(&file);
        // `kubectl get -o yaml` outputs lists
        let items: Vec<Value> =
            objects.iter().filter_map(|o| o["items"].as_array()).flatten().cloned().collect();
        objects.extend(items);
        for object in objects {
            if !object["apiVersion"].as_str().is_some_and(|v| v.starts_with("operators.coreos.com/")) {
                continue;
            }
            let kind = object["kind"].as_str().unwrap().to_owned();
            let result = match kind.as_str() {
                "CatalogSource" => round_trip::<CatalogSource>(&object),
                "Subscription" => round_trip::<Subscription>(&object),
                "InstallPlan" => round_trip::<InstallPlan>(&object),
                "ClusterServiceVersion" => round_trip::<ClusterServiceVersion>(&object),
                "OperatorGroup" => round_trip::<OperatorGroup>(&object),
                "OperatorCondition" => round_trip::<OperatorCondition>(&object),
                "Operator" => round_trip::<Operator>(&object),
                "OLMConfig" => round_trip::<OLMConfig>(&object),
                other => panic!("unknown kind {other}"),
            };
            let list = result.unwrap_or_else(|e| panic!("{kind} in {}: {e}", file.display()));
            assert!(list.is_empty(), "{kind} in {}: {list:#?}", file.display());
            kinds.insert(kind);
        }
    }
    for kind in ["CatalogSource", "Subscription", "InstallPlan", "ClusterServiceVersion", "OperatorGroup"] {
        assert!(kinds.contains(kind), "no {kind} in {}: {kinds:?}", dir.display());
    }
}

#[test]
fn nulls_unknown_fields_and_unknown_words_are_read() {
    let sub: Subscription = serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": { "name": "s" },
        "spec": { "name": "etcd", "source": "c", "sourceNamespace": "olm", "channel": "", "startingCSV": null,
                  "installPlanApproval": "Sometimes", "config": { "env": [] }, "fromTheFuture": 1 },
        "status": { "state": "Dancing", "conditions": null, "catalogHealth": null, "lastUpdated": null }
    }))
    .unwrap();
    assert_eq!(sub.spec.channel, None);
    // an unknown word has the safe meaning
    assert_eq!(sub.spec.install_plan_approval, olm_api::subscription::Approval::Manual);
    assert!(sub.status.unwrap().conditions.is_empty());
    let defaults: olm_api::SubscriptionSpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(defaults.install_plan_approval, olm_api::subscription::Approval::Automatic);
    assert_eq!(
        serde_json::to_value(&defaults).unwrap(),
        json!({ "name": "", "source": "", "sourceNamespace": "", "installPlanApproval": "Automatic" })
    );
}

// ---- the CRDs ----

/// The rules of structural schemas that an API server enforces.
fn structural(schema: &Value, path: &str, errors: &mut Vec<String>) {
    let Some(object) = schema.as_object() else {
        errors.push(format!("{path}: not an object"));
        return;
    };
    const KNOWN: &[&str] = &[
        "type",
        "description",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "format",
        "enum",
        "nullable",
        "default",
        "minimum",
        "maximum",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
    ];
    for key in object.keys().filter(|k| !KNOWN.contains(&k.as_str())) {
        errors.push(format!("{path}: keyword {key}"));
    }
    let any = object.contains_key("x-kubernetes-int-or-string")
        || object.contains_key("x-kubernetes-preserve-unknown-fields");
    match object.get("type") {
        None if any => {}
        Some(Value::String(_)) => {}
        other => errors.push(format!("{path}: type {other:?}")),
    }
    if object.contains_key("properties") && object.contains_key("additionalProperties") {
        errors.push(format!("{path}: properties and additionalProperties together"));
    }
    if object
        .get("format")
        .is_some_and(|f| !["int32", "int64", "date-time"].contains(&f.as_str().unwrap_or("")))
    {
        errors.push(format!("{path}: format {}", object["format"]));
    }
    if object.get("description").is_some_and(|d| d.as_str().unwrap().len() > 160) {
        errors.push(format!("{path}: the description is long"));
    }
    let properties = object.get("properties").and_then(Value::as_object);
    for name in object.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !properties.is_some_and(|p| p.contains_key(name.as_str().unwrap())) {
            errors.push(format!("{path}: requires {name}, which it does not have"));
        }
    }
    for (name, inner) in properties.into_iter().flatten() {
        if !(path.is_empty() && name == "metadata") {
            structural(inner, &format!("{path}/{name}"), errors);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get(key) {
            structural(inner, &format!("{path}/{key}"), errors);
        }
    }
    if object.get("type") == Some(&json!("array")) && !object.contains_key("items") {
        errors.push(format!("{path}: an array without items"));
    }
}

#[test]
fn crds_are_structural_and_small() {
    for crd in crds() {
        let name = crd.metadata.name.clone().unwrap();
        let value = serde_json::to_value(&crd).unwrap();
        let size = value.to_string().len();
        println!("{name}: {size} bytes");
        assert!(size < 40_000, "{name} has {size} bytes");
        assert_eq!(value["spec"]["names"]["categories"], json!(["olm"]), "{name}");
        for version in value["spec"]["versions"].as_array().unwrap() {
            let schema = &version["schema"]["openAPIV3Schema"];
            // A policy has no status.
            let status = if schema["properties"]["status"].is_null() { Value::Null } else { json!({}) };
            assert_eq!(version["subresources"]["status"], status, "{name}");
            let mut errors = Vec::new();
            structural(schema, "", &mut errors);
            assert!(errors.is_empty(), "{name}: {errors:#?}");
            assert_eq!(schema["type"], "object");
        }
    }
}

#[test]
fn columns_and_names_are_those_that_users_know() {
    let table: Vec<String> = crds()
        .iter()
        .map(|crd| {
            let version = &crd.spec.versions[0];
            let columns: Vec<&str> =
                version.additional_printer_columns.iter().flatten().map(|c| c.name.as_str()).collect();
            let short = crd.spec.names.short_names.clone().unwrap_or_default();
            format!("{}/{} {} [{}]", crd.spec.names.plural, version.name, short.join(","), columns.join(","))
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"), @r"
    catalogsources/v1alpha1 catsrc [Display,Type,Publisher,State,Packages,Age]
    subscriptions/v1alpha1 sub,subs [Package,Source,Channel,Installed,State]
    installplans/v1alpha1 ip [CSV,Approval,Approved,Phase]
    clusterserviceversions/v1alpha1 csv,csvs [Display,Version,Release,Replaces,Phase]
    operatorgroups/v1 og [Namespaces,Age]
    operatorconditions/v2 condition []
    operators/v1  []
    olmconfigs/v1  []
    installpolicies/v1alpha1  [Age]
    ");
}

#[test]
fn required_fields_are_upstreams() {
    let required = |kind: &str, pointer: &str| -> Value {
        let crd = crds().into_iter().find(|c| c.spec.names.kind == kind).unwrap();
        let value = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        value.pointer(&format!("/openAPIV3Schema{pointer}")).cloned().unwrap_or(Value::Null)
    };
    assert_eq!(
        required("Subscription", "/properties/spec/required"),
        json!(["name", "source", "sourceNamespace"])
    );
    assert_eq!(
        required("Subscription", "/properties/spec/properties/installPlanApproval/enum"),
        json!(["Automatic", "Manual", ""])
    );
    assert_eq!(required("CatalogSource", "/properties/spec/required"), json!(["sourceType"]));
    assert_eq!(
        required("OperatorGroup", "/properties/spec/default"),
        json!({ "upgradeStrategy": "Default" })
    );
    assert_eq!(required("OperatorGroup", "/required"), Value::Null);
    assert_eq!(required("ClusterServiceVersion", "/required"), json!(["spec"]));
}

//! The CustomResourceDefinitions of our kinds, as a real API server accepts them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{
    CatalogSource, ClusterServiceVersion, InstallPlan, OperatorCondition, OperatorGroup, Subscription,
};

/// All our CRDs, in the order in which users meet them.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        finish(CatalogSource::crd(), &[("spec", &["sourceType"])], &[]),
        finish(Subscription::crd(), &[("spec", &["name", "source", "sourceNamespace"])], &[]),
        finish(InstallPlan::crd(), &[("spec", &["approval", "approved", "clusterServiceVersionNames"])], &[]),
        finish(ClusterServiceVersion::crd(), &[("spec", &["displayName", "install"])], &[]),
        finish(OperatorGroup::crd(), &[], &[("spec", json!({ "upgradeStrategy": "Default" }))]),
        finish(OperatorCondition::crd(), &[], &[("spec", json!({}))]),
    ]
}

/// Longer descriptions (they are Kubernetes' own) are left out.
const DESCRIPTION: usize = 160;

/// Makes what schemars says into a structural schema: no defaults but the given ones (serde's defaults are about
/// reading, not about the API), required fields as upstream has them, one short sentence a field.
fn finish(
    crd: CustomResourceDefinition,
    required: &[(&str, &[&str])],
    defaults: &[(&str, Value)],
) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(&crd).expect("a CRD made by kube serializes");
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        simplify(schema);
        schema["required"] = json!(["spec"]);
        for (field, names) in required {
            schema["properties"][*field]["required"] = json!(names);
        }
        for (field, default) in defaults {
            schema["properties"][*field]["default"] = default.clone();
            if *field == "spec" {
                schema.as_object_mut().and_then(|schema| schema.remove("required"));
            }
        }
    }
    serde_json::from_value(value).expect("a CRD stays one when keywords of its schema are removed")
}

fn simplify(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("default");
    object.remove("title");
    object.remove("required");
    drop_unknown_format(object);
    let short = object.get("description").and_then(Value::as_str).map(first_sentence);
    match short {
        Some(text) if text.len() <= DESCRIPTION => object.insert("description".into(), text.into()),
        _ => object.remove("description"),
    };
    collapse_nullable(object);
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            simplify(inner);
        }
    }
}

/// schemars writes Rust's integer types; the API server knows int32 and int64 alone and ignores others loudly.
fn drop_unknown_format(object: &mut Map<String, Value>) {
    let known = ["int32", "int64", "float", "double", "date-time", "byte"];
    if object.get("format").and_then(Value::as_str).is_some_and(|f| !known.contains(&f)) {
        object.remove("format");
    }
}

/// `anyOf: [X, null]` is X that may be null; a structural schema has no other use for `anyOf` here.
fn collapse_nullable(object: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = object.remove("anyOf") else { return };
    let is_null = |b: &Value| b["type"] == "null" || b["enum"] == json!([null]) || b["nullable"] == true;
    for branch in branches.into_iter().filter(|b| !is_null(b)) {
        for (key, value) in branch.as_object().cloned().unwrap_or_default() {
            object.entry(key).or_insert(value);
        }
    }
    object.insert("nullable".into(), Value::Bool(true));
}

fn first_sentence(text: &str) -> String {
    let line = text.split("\n\n").next().unwrap_or(text).replace('\n', " ");
    match line.find(". ") {
        Some(end) => line[..=end].to_owned(),
        None => line,
    }
}

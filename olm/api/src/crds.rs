//! The CustomResourceDefinitions of the product, in a form that a real API server accepts.
//!
//! They are generated from the Rust types. The tables of `constraints` add what a type cannot express
//! (required fields, enumerations); `make crds` writes the result to `olm/api/crds`, and a test keeps the
//! files up to date.

mod constraints;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{
    CatalogSource, ClusterServiceVersion, InstallPlan, InstallPolicy, OLMConfig, Operator, OperatorCondition,
    OperatorGroup, Subscription,
};

/// All CRDs, in the order in which users encounter them.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        finish(CatalogSource::crd(), &[]),
        finish(Subscription::crd(), &[]),
        finish(InstallPlan::crd(), &[]),
        finish(ClusterServiceVersion::crd(), &[]),
        finish(
            OperatorGroup::crd(),
            &[Older { version: "v1alpha2", without: &["/spec/upgradeStrategy", "/status/conditions"] }],
        ),
        finish(OperatorCondition::crd(), &[Older { version: "v1", without: &["/spec/conditions"] }]),
        finish(Operator::crd(), &[]),
        finish(OLMConfig::crd(), &[]),
        finish(InstallPolicy::crd(), &[]),
    ]
}

/// The names of all CRDs.
pub fn crd_names() -> [&'static str; 9] {
    [
        CatalogSource::crd_name(),
        Subscription::crd_name(),
        InstallPlan::crd_name(),
        ClusterServiceVersion::crd_name(),
        OperatorGroup::crd_name(),
        OperatorCondition::crd_name(),
        Operator::crd_name(),
        OLMConfig::crd_name(),
        InstallPolicy::crd_name(),
    ]
}

/// A version that is still served: the stored one without some fields.
struct Older {
    version: &'static str,
    without: &'static [&'static str],
}

/// Longer descriptions (those of Kubernetes types) are omitted.
const DESCRIPTION: usize = 160;

/// Converts the output of schemars to a structural schema: only defaults of the tables (serde's defaults
/// concern reading, not the API), and one short sentence per field.
fn finish(crd: CustomResourceDefinition, older: &[Older]) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    let mut value = serde_json::to_value(&crd).expect("a CRD made by kube serializes");
    let Some(versions) = value["spec"]["versions"].as_array_mut() else { return crd };
    for version in &mut *versions {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        simplify(schema);
        constraints::apply(&kind, schema);
    }
    let stored = versions[0].clone();
    for older in older {
        let mut version = stored.clone();
        version["name"] = older.version.into();
        version["storage"] = false.into();
        let schema = &mut version["schema"]["openAPIV3Schema"];
        for path in older.without {
            remove(schema, path);
        }
        versions.push(version);
    }
    serde_json::from_value(value).expect("a CRD stays one when keywords of its schema change")
}

/// Removes a field, and a default that may contain it, from a schema.
fn remove(schema: &mut Value, path: &str) {
    let Some((holder, field)) = path.rsplit_once('/') else { return };
    let Some(holder) = constraints::at(schema, holder) else { return };
    for part in ["properties", "default"] {
        let Some(map) = holder.get_mut(part).and_then(Value::as_object_mut) else { continue };
        map.remove(field);
        if part == "default" && map.is_empty() {
            holder.as_object_mut().and_then(|holder| holder.remove("default"));
        }
    }
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

/// schemars emits Rust's integer types; the API server supports only int32 and int64 and warns about others.
fn drop_unknown_format(object: &mut Map<String, Value>) {
    let known = ["int32", "int64", "float", "double", "date-time", "byte"];
    if object.get("format").and_then(Value::as_str).is_some_and(|f| !known.contains(&f)) {
        object.remove("format");
    }
}

/// Replaces `anyOf: [X, null]` by a nullable X; a structural schema has no other use for `anyOf` here.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constraint_is_on_a_field_that_there_is() {
        for crd in crds() {
            let mut value = serde_json::to_value(&crd).unwrap();
            let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let dangling = constraints::dangling(&crd.spec.names.kind, schema);
            assert!(dangling.is_empty(), "{}: {dangling:?}", crd.spec.names.kind);
        }
    }
}

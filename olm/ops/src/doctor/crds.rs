//! Checks that the CRDs of the API are served and equal to those of this version of the program.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    facts::Facts,
    problem::{Code, Problem},
};
use crate::manifests::surplus;

/// Maximum number of differences that are named; the rest is counted.
const NAMED: usize = 3;

/// Keywords of a schema that do not affect validation or pruning.
const PROSE: &[&str] = &["description", "title", "example", "externalDocs"];
/// Keywords that contain schemas, which are compared one by one.
const NESTED: &[&str] = &["properties", "items", "additionalProperties"];
/// Keywords whose order has no meaning.
const SETS: &[&str] = &["required", "enum", "x-kubernetes-list-map-keys"];

pub(super) fn check(facts: &Facts) -> Vec<Problem> {
    let ours = olm_api::crds();
    let installed = facts.manager.as_ref().and_then(|manager| manager.version.as_deref());
    let same = installed.is_none_or(|version| version == env!("CARGO_PKG_VERSION"));
    ours.iter().filter_map(|ours| one(ours, facts.crds.get(&ours.name_any())?.as_ref(), same)).collect()
}

/// `same`: whether the installation is of this program's version, as far as that is known.
fn one(
    ours: &CustomResourceDefinition,
    live: Option<&CustomResourceDefinition>,
    same: bool,
) -> Option<Problem> {
    let object = Some(format!("CustomResourceDefinition {}", ours.name_any()));
    let fix = "olm self upgrade  # applies the CustomResourceDefinitions of this version";
    let Some(live) = live else {
        return Some(
            Problem::new(Code::CrdMissing, object, "missing from the cluster").fix("olm self install"),
        );
    };
    let conditions = live.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    if let Some(bad) = conditions
        .iter()
        .find(|c| ["Established", "NamesAccepted"].contains(&c.type_.as_str()) && c.status != "True")
    {
        let why = format!("{} is {}: {}", bad.type_, bad.status, bad.message.as_deref().unwrap_or_default());
        return Some(
            Problem::new(Code::CrdMissing, object, why)
                .fix(format!("kubectl describe crd {}", ours.name_any())),
        );
    }
    let found = compare(ours, live);
    // Another version may have other rules; fields that it lacks are lost in either case.
    if same && !found.changed.is_empty() {
        let why = format!(
            "it differs from the definition of this version in {}: objects may be validated or stored \
                incorrectly",
            listed(found.changed)
        );
        return Some(Problem::new(Code::CrdDiffers, object, why).fix(fix));
    }
    if found.missing.is_empty() {
        return None;
    }
    let why = format!("it lacks {}: values of these fields are dropped", listed(found.missing));
    Some(Problem::new(Code::CrdOutdated, object, why).fix(fix))
}

/// The fields and versions of this version of the program that a live definition lacks, as text.
pub(crate) fn lacks(ours: &CustomResourceDefinition, live: &CustomResourceDefinition) -> Option<String> {
    let missing = compare(ours, live).missing;
    (!missing.is_empty()).then(|| listed(missing))
}

fn listed(mut paths: Vec<String>) -> String {
    let more = paths.len().saturating_sub(NAMED);
    paths.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", paths.join(", "))
}

/// Differences between a CustomResourceDefinition of olm and the live one. Fields and versions that only the
/// live one has come from a newer version of olm, or from OLM v0, and are harmless.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    /// Fields and versions that the live one lacks.
    missing: Vec<String>,
    /// Definitions that differ in the live one.
    changed: Vec<String>,
}

fn compare(ours: &CustomResourceDefinition, live: &CustomResourceDefinition) -> Differences {
    let mut out = Differences::default();
    let (spec, there) = (&ours.spec, &live.spec);
    for (field, same) in [
        ("spec.scope", spec.scope == there.scope),
        ("spec.names.kind", spec.names.kind == there.names.kind),
        ("spec.names.plural", spec.names.plural == there.names.plural),
    ] {
        if !same {
            out.changed.push(field.to_owned());
        }
    }
    for field in surplus(&typed(ours), &typed(live)) {
        out.changed.push(field.join("."));
    }
    for version in &spec.versions {
        let name = &version.name;
        let Some(there) = there.versions.iter().find(|v| v.name == *name && v.served) else {
            out.missing.push(format!("version {name}"));
            continue;
        };
        if version.storage != there.storage {
            out.changed.push(format!("{name}: storage"));
        }
        let status = |v: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion| {
            v.subresources.as_ref().is_some_and(|s| s.status.is_some())
        };
        if status(version) != status(there) {
            out.changed.push(format!("{name}: subresources.status"));
        }
        // Both pass through the same types, which serialise empty and absent values alike.
        let (ours, live) = (json!(version.schema), json!(there.schema));
        let schema = "openAPIV3Schema";
        compare_schemas(&ours[schema], &live[schema], name, &mut out);
    }
    out
}

fn typed(crd: &CustomResourceDefinition) -> Value {
    json!({ "kind": "CustomResourceDefinition", "metadata": { "labels": crd.labels() },
            "spec": { "conversion": crd.spec.conversion } })
}

fn compare_schemas(ours: &Value, live: &Value, path: &str, out: &mut Differences) {
    let (Some(ours), Some(live)) = (ours.as_object(), live.as_object()) else {
        if ours != live {
            out.changed.push(path.to_owned());
        }
        return;
    };
    let keywords: BTreeSet<&String> = ours.keys().chain(live.keys()).collect();
    for keyword in keywords {
        if PROSE.contains(&keyword.as_str()) || NESTED.contains(&keyword.as_str()) {
            continue;
        }
        if !same_value(keyword, ours.get(keyword), live.get(keyword)) {
            out.changed.push(format!("{path}: {keyword}"));
        }
    }
    let keeps_unknown = live.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
        || live.get("additionalProperties").is_some_and(|v| *v != Value::Bool(false));
    for (name, below) in ours.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        match live.get("properties").and_then(|p| p.get(name)) {
            Some(live) => compare_schemas(below, live, &path, out),
            // It is stored without validation: the keyword itself is reported where it is not ours.
            None if keeps_unknown => {}
            None => out.missing.push(path),
        }
    }
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
        let path = format!("{path}{suffix}");
        match (ours.get(keyword), live.get(keyword)) {
            (Some(ours), Some(live)) => compare_schemas(ours, live, &path, out),
            (None, None) => {}
            _ => out.changed.push(path),
        }
    }
}

fn same_value(keyword: &str, ours: Option<&Value>, live: Option<&Value>) -> bool {
    let set = |value: &Value| {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(Value::to_string).collect::<BTreeSet<_>>()
    };
    match (ours, live) {
        (Some(ours), Some(live)) if SETS.contains(&keyword) => set(ours) == set(live),
        (Some(Value::Number(ours)), Some(Value::Number(live))) => ours.as_f64() == live.as_f64(),
        (Some(ours), Some(live)) => ours == live,
        (None, None) => true,
        // An absent keyword is a false or empty one.
        (Some(one), None) | (None, Some(one)) => {
            matches!(one, Value::Null | Value::Bool(false)) || one.as_array().is_some_and(Vec::is_empty)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriptions() -> CustomResourceDefinition {
        olm_api::crds().into_iter().find(|c| c.name_any().starts_with("subscriptions.")).unwrap()
    }

    /// The live CustomResourceDefinition after a change to its JSON.
    fn changed(change: impl FnOnce(&mut Value)) -> Differences {
        let mut live = json!(subscriptions());
        change(&mut live);
        compare(&subscriptions(), &serde_json::from_value(live).unwrap())
    }

    fn schema(crd: &mut Value) -> &mut Value {
        &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }

    #[test]
    fn defaults_prose_and_fields_of_newer_versions_are_no_difference() {
        for ours in olm_api::crds() {
            assert_eq!(compare(&ours, &ours), Differences::default(), "{}", ours.name_any());
        }
        let found = changed(|crd| {
            crd["spec"]["conversion"] = json!({ "strategy": "None" });
            let mut newer = crd["spec"]["versions"][0].clone();
            (newer["name"], newer["storage"]) = (json!("v9"), json!(false));
            crd["spec"]["versions"].as_array_mut().unwrap().push(newer);
            let schema = schema(crd);
            schema["description"] = json!("other words");
            schema["properties"]["status"]["required"] = json!([]);
            schema["properties"]["spec"]["properties"]["newer"] = json!({ "type": "string" });
        });
        assert_eq!(found, Differences::default());
    }

    #[test]
    fn a_schema_that_checks_nothing_is_a_difference() {
        let found = changed(|crd| {
            *schema(crd) = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        });
        let expected = ["v1alpha1: required", "v1alpha1: x-kubernetes-preserve-unknown-fields"];
        assert_eq!(found.changed, expected);
        assert_eq!(found.missing, [""; 0]);
    }

    #[test]
    fn each_changed_keyword_and_missing_field_is_named() {
        let found = changed(|crd| {
            crd["spec"]["versions"][0]["subresources"] = Value::Null;
            let spec = &mut schema(crd)["properties"]["spec"];
            spec["required"] = json!(["nothing"]);
            let fields = spec["properties"].as_object_mut().unwrap();
            fields.remove("deletionPolicy").unwrap();
            fields["source"]["type"] = json!("integer");
        });
        assert_eq!(found.missing, ["v1alpha1.spec.deletionPolicy"]);
        let expected =
            ["v1alpha1: subresources.status", "v1alpha1.spec: required", "v1alpha1.spec.source: type"];
        assert_eq!(found.changed, expected);
        assert_eq!(changed(|crd| crd["spec"]["scope"] = json!("Cluster")).changed, ["spec.scope"]);
        let unserved = changed(|crd| crd["spec"]["versions"][0]["served"] = json!(false));
        assert_eq!(unserved.missing, ["version v1alpha1"]);
    }

    #[test]
    fn another_version_of_olm_may_have_other_rules() {
        let mut live = json!(subscriptions());
        schema(&mut live)["properties"]["spec"]["required"] = json!(["nothing"]);
        let live: CustomResourceDefinition = serde_json::from_value(live).unwrap();
        assert_eq!(one(&subscriptions(), Some(&live), true).unwrap().code, Code::CrdDiffers);
        assert_eq!(one(&subscriptions(), Some(&live), false), None);
    }
}

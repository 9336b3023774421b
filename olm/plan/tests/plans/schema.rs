//! The JSON of plans.

use olm_api::subscription::{CrdPolicy, DeletionPolicy, DependencyRemoval, OperandPolicy};
use olm_plan::{FINDING_CODES, ObjectRef, Plan, plan_schema};
use serde_json::{Value, json};

use crate::uninstalls::{operand, uninstall};
use crate::world::*;

#[test]
fn the_json_is_the_one_schema_and_holds_no_secret() {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "password": "hunter2" } });
    let mut case = Case::of(bundle("1.0.0", vec![secret], |_| {}), None, "1.0.0");
    let mut live =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "ns" } });
    live["data"] = json!({ "password": "b2xk" });
    case.insert(live);
    let plan = case.plan();
    let text = serde_json::to_string_pretty(&plan).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("b2xk") && !text.contains("aHVudGVyMg"), "{text}");
    assert!(plan.objects.iter().any(|o| o.masked));
    let value: Value = serde_json::from_str(&text).unwrap();
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    insta::assert_snapshot!(keys.join(" "), @"action apiVersion bundle catalogDigest channel dependencies digest findings images namespace objects package path permissions requiresApproval reversible subscription to why");
    assert_eq!(value["apiVersion"], "plan.olm/v1");
    // it can be parsed again, without the manifests
    let back: Plan = serde_json::from_str(&text).unwrap();
    assert!(back.phases().is_empty());
    assert_eq!(back.digest, plan.digest);
}

#[test]
fn every_finding_has_a_page_with_cause_and_fix() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings");
    for code in FINDING_CODES {
        let page = std::fs::read_to_string(format!("{folder}/{code}.md"))
            .unwrap_or_else(|e| panic!("{code}.md: {e}"));
        assert!(page.starts_with(&format!("# {code}\n")), "{code}.md has another title");
        assert!(page.contains("\n## Cause\n") && page.contains("\n## Fix\n"), "{code}.md lacks cause or fix");
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = FINDING_CODES.iter().any(|code| name == format!("{code}.md"));
        assert!(known, "{name} is a page without a code");
    }
}

/// A plan of every kind.
fn plans() -> Vec<Plan> {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "password": "x" } });
    let install = Case::of(bundle("1.0.0", vec![secret], |_| {}), None, "1.0.0");
    let mut helm = Case::install("1.0.0");
    let mut foreign = crd(&["v1alpha1"]);
    foreign["metadata"]["annotations"] = json!({ "meta.helm.sh/release-name": "thing" });
    foreign["status"] = json!({ "storedVersions": ["v1alpha1"] });
    helm.insert(foreign);
    let everything = DeletionPolicy {
        operands: OperandPolicy::Delete,
        crds: CrdPolicy::Delete,
        dependencies: DependencyRemoval::Keep,
    };
    let leave = uninstall(&install, everything, &[operand(Some(2)), operand(None)]);
    let mut list = vec![install.plan(), helm.plan(), leave];
    let mut upgrade = install.upgrade(
        "1.0.1",
        bundle("1.0.1", vec![], |csv| {
            csv["spec"]["relatedImages"] = json!([{ "name": "a", "image": "localhost/a:1" }]);
        }),
    );
    upgrade.facts.from_channel = Some("alpha".into());
    let deployment = ObjectRef::new("apps/v1", "Deployment", Some("ns"), "thing");
    upgrade.live.get_mut(&deployment).unwrap()["spec"]["replicas"] = json!(0);
    list.push(upgrade.plan());
    list
}

#[test]
fn the_schema_is_the_one_in_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.schema.json");
    let text = serde_json::to_string_pretty(&plan_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        golden == text,
        "docs/plan.schema.json is not what plans look like: run the test again with UPDATE=1"
    );
}

#[test]
fn plans_of_every_kind_satisfy_the_schema_and_others_do_not() {
    let schema = plan_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors = |value: &Value| validator.iter_errors(value).map(|e| e.to_string()).collect::<Vec<_>>();
    for plan in plans() {
        let value = serde_json::to_value(&plan).unwrap();
        assert_eq!(errors(&value), Vec::<String>::new(), "{}", plan.headline());
        // the schema is complete: an unknown field would go unnoticed
        assert_eq!(unknown_fields(&schema, &schema, &value, ""), Vec::<String>::new());
        for (field, wrong) in
            [("apiVersion", json!("plan.olm/v9")), ("action", json!("explode")), ("objects", json!({}))]
        {
            let mut broken = value.clone();
            broken[field] = wrong;
            assert!(!errors(&broken).is_empty(), "{field}");
        }
    }
}

/// Fields of a value that are not in its schema.
fn unknown_fields(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let schema = match schema["$ref"].as_str().and_then(|r| r.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).unwrap(),
        None => schema,
    };
    if let Some(choices) = schema["anyOf"].as_array() {
        let parts = choices.iter().filter(|choice| choice["type"] != "null");
        return parts.flat_map(|choice| unknown_fields(root, choice, value, path)).collect();
    }
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| {
                let below = [&schema["properties"][key], &schema["additionalProperties"]];
                match below.into_iter().find(|s| !s.is_null()) {
                    Some(below) => unknown_fields(root, below, value, &format!("{path}/{key}")),
                    // a difference may contain any value
                    None if schema["type"].is_null() => Vec::new(),
                    None => vec![format!("{path}/{key}")],
                }
            })
            .collect(),
        Value::Array(list) => {
            list.iter().flat_map(|v| unknown_fields(root, &schema["items"], v, path)).collect()
        }
        _ => Vec::new(),
    }
}

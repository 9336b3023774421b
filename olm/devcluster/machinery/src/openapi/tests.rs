use std::collections::HashSet;

use prost::Message as _;
use serde_json::{Value, json};

use super::{fields::unknown_fields, *};

const VERBS: &[&str] = &["get", "list", "create", "update", "patch", "delete", "deletecollection", "watch"];

fn deployments() -> Served<'static> {
    Served {
        group: "apps",
        version: "v1",
        kind: "Deployment",
        plural: "deployments",
        namespaced: true,
        verbs: VERBS,
        schema: None,
        status: true,
        scale: true,
    }
}

#[test]
fn documents_have_the_extensions_of_kubectl() {
    let document = document_v3("apps", "v1", &[deployments()]);
    let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    assert_eq!(item["patch"]["x-kubernetes-group-version-kind"], gvk);
    let parameters = item["patch"]["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|p| p["name"] == "fieldValidation"));
    assert!(item["patch"]["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let list = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["get"];
    assert_eq!(list["x-kubernetes-group-version-kind"], gvk);
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([gvk]));
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    let volumes = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
}

/// kubectl validates a `kind: List` of definitions with version 2.
#[test]
fn enums_and_defaults_of_definitions_hold_any_json() {
    let all = all();
    let documents = [document_v3("apiextensions.k8s.io", "v1", &all), document_v2(&all)];
    for (document, at) in documents.iter().zip(["/components/schemas", "/definitions"]) {
        let json = format!("{at}/io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON");
        assert_eq!(document.pointer(&json).expect("a schema").get("type"), None);
    }
}

fn all() -> Vec<Served<'static>> {
    let one = |kind: &builtin::Kind| Served {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        plural: "things",
        ..deployments()
    };
    builtin::KINDS.iter().map(one).collect()
}

/// kubectl's checks of a schema of version 2; it refuses the whole document when one of them fails.
fn as_kubectl_reads(schema: &protobuf::Schema, models: &HashSet<&str>, path: &str) {
    let types = schema.types.as_ref().map_or(&[][..], |types| &types.values);
    let properties = schema.properties.as_ref().map_or(&[][..], |properties| &properties.named);
    if !schema.reference.is_empty() {
        assert!(types.is_empty() && properties.is_empty(), "{path}: a reference with a type");
        let target = schema.reference.strip_prefix("#/definitions/").expect("a definition");
        assert!(models.contains(target), "{path}: {target}");
    }
    match types {
        [one] if one == "array" => assert!(schema.items.is_some(), "{path}: of nothing"),
        [one] => assert!(
            ["object", "string", "number", "integer", "boolean"].contains(&one.as_str()),
            "{path}: {one}"
        ),
        _ => assert!(types.is_empty(), "{path}: {types:?}"),
    }
    for property in properties {
        let path = format!("{path}.{}", property.name);
        as_kubectl_reads(property.schema.as_ref().expect(&path), models, &path);
    }
    let values = schema.additional_properties.iter().flat_map(|values| &values.schema).map(Box::as_ref);
    for inner in values.chain(schema.items.iter().flat_map(|items| &items.schemas)) {
        as_kubectl_reads(inner, models, &format!("{path}[]"));
    }
}

#[test]
fn kubectl_reads_the_protobuf_of_version_2() {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "port": { "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true },
        "size": { "type": "integer", "format": "int32" },
        "items": { "type": "array", "items": { "type": "string" } },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": { "a": { "type": "string" } } },
        "none": { "type": "object", "nullable": true, "properties": { "a": { "type": "string" } } },
    }, "required": ["size"] } } });
    let custom =
        Served { group: "stable.example.com", kind: "CronTab", schema: Some(&schema), ..deployments() };
    let resources: Vec<Served<'_>> = all().into_iter().chain([custom]).collect();
    let document = protobuf::Document::decode(&encode_v2(&document_v2(&resources))[..]).unwrap();
    let models = document.definitions.unwrap().named;
    let names: HashSet<&str> = models.iter().map(|model| model.name.as_str()).collect();
    for model in &models {
        as_kubectl_reads(model.schema.as_ref().expect("a schema"), &names, &model.name);
    }
    let find = |named: &[protobuf::NamedSchema], name: &str| {
        named.iter().find(|one| one.name == name).expect(name).schema.clone().expect(name)
    };
    let model = find(&models, "com.example.stable.v1.CronTab");
    let spec = find(&model.properties.unwrap().named, "spec");
    let [port, size, items, free, none] = ["port", "size", "items", "free", "none"]
        .map(|name| find(&spec.properties.as_ref().unwrap().named, name));
    assert_eq!(size.types.unwrap().values, ["integer"]);
    assert!(items.items.is_some());
    assert!(port.types.is_none() && none.types.is_none() && none.properties.is_none());
    assert!(free.types.is_some() && free.properties.is_none());
    let pod = find(&models, "io.k8s.api.core.v1.Pod");
    assert!(find(&pod.properties.unwrap().named, "spec").reference.ends_with("v1.PodSpec"));
}

#[test]
fn every_reference_resolves() {
    fn refs<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|v| refs(v, found));
            }
            Value::Array(list) => list.iter().for_each(|v| refs(v, found)),
            _ => {}
        }
    }
    let all = all();
    for served in &all {
        let document = document_v3(served.group, served.version, &all);
        let mut found = Vec::new();
        refs(&document, &mut found);
        assert!(!found.is_empty());
        for target in found {
            let name = target.trim_start_matches("#/components/schemas/");
            assert!(document["components"]["schemas"].get(name).is_some(), "{target}");
        }
    }
}

#[test]
fn custom_resources_come_from_their_schema() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "description": "what", "properties": {}}}});
    let served = Served {
        group: "stable.example.com",
        version: "v1",
        kind: "CronTab",
        plural: "crontabs",
        schema: Some(&schema),
        ..deployments()
    };
    let document = document_v3("stable.example.com", "v1", &[served]);
    let component = &document["components"]["schemas"]["com.example.stable.v1.CronTab"];
    assert_eq!(component["properties"]["spec"]["description"], "what");
    assert!(
        component["properties"]["metadata"]["allOf"][0]["$ref"].as_str().unwrap().ends_with("ObjectMeta")
    );
    let item = &document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"];
    assert!(item["patch"]["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
    let v2 = document_v2(&[served]);
    assert!(v2["definitions"]["com.example.stable.v1.CronTab"].is_object());
    assert!(!v2.to_string().contains("#/components"));
}

#[test]
fn index_points_to_documents() {
    let index = index_v3(&[("apis/apps/v1".to_owned(), "abc".to_owned())]);
    assert_eq!(index["paths"]["apis/apps/v1"]["serverRelativeURL"], "/openapi/v3/apis/apps/v1?hash=abc");
}

#[test]
fn unknown_fields_of_builtin_kinds() {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "x", "labels": {"any": "key"}, "lables": {}},
        "spec": {"replica": 1, "template": {"spec": {"containers": [
            {"name": "c", "imag": "x", "resources": {"limits": {"cpu": "1"}}},
        ]}}},
    });
    let expected = ["metadata.lables", "spec.replica", "spec.template.spec.containers[0].imag"];
    assert_eq!(unknown_fields("apps", "v1", "Deployment", &object).unwrap(), expected);
    assert_eq!(drop_unknown("apps", "v1", "Deployment", &mut object), expected);
    assert_eq!(unknown_fields("apps", "v1", "Deployment", &object).unwrap(), Vec::<String>::new());
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
    assert_eq!(unknown_fields("stable.example.com", "v1", "CronTab", &json!({"x": 1})), None);
}

#[test]
fn json_typed_fields_of_crd_schemas_accept_any_value() {
    let object = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true, "typo": 1,
        "properties": {"a": {"default": {"any": "thing"}, "enum": [1, "x"], "items": {"type": "string"}, "additionalProperties": true}},
    }}}]}});
    assert_eq!(
        unknown_fields("apiextensions.k8s.io", "v1", "CustomResourceDefinition", &object).unwrap(),
        ["spec.versions[0].schema.openAPIV3Schema.typo"]
    );
    assert_eq!(
        type_errors("apiextensions.k8s.io", "v1", "CustomResourceDefinition", &object).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn wrong_types_have_the_message_of_go() {
    let object = json!({
        "metadata": {"labels": {"a": 1}, "creationTimestamp": null},
        "spec": {"replicas": "three", "paused": "no", "template": {"spec": {"containers": {"name": "x"}, "nodeSelector": []}}},
    });
    assert_eq!(
        type_errors("apps", "v1", "Deployment", &object).unwrap(),
        [
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels.a of type string",
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.paused of type bool",
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            "json: cannot unmarshal array into Go struct field PodSpec.spec.template.spec.nodeSelector of type map[string]string",
        ]
    );
    let secret = json!({"data": {"a": "%%"}});
    assert_eq!(type_errors("", "v1", "Secret", &secret).unwrap().len(), 1);
}

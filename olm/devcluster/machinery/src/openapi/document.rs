//! Assembles OpenAPI documents.

use serde_json::{Map, Value, json};

use super::{
    Served,
    builtin::{self, REF_PREFIX},
};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The document of one group-version: the response of `/openapi/v3/apis/GROUP/VERSION`.
pub fn document_v3(group: &str, version: &str, resources: &[Served<'_>]) -> Value {
    let resources: Vec<&Served<'_>> =
        resources.iter().filter(|served| served.group == group && served.version == version).collect();
    let title =
        if group.is_empty() { "Kubernetes".to_owned() } else { format!("Kubernetes {group}/{version}") };
    json!({
        "openapi": "3.0.0",
        "info": { "title": title, "version": version },
        "paths": paths(&resources),
        "components": { "schemas": components(&resources) },
    })
}

/// `GET /openapi/v3`: the index of the documents. `documents` are pairs of a path (`api/v1`, `apis/apps/v1`)
/// and a hash that changes with the content.
pub fn index_v3(documents: &[(String, String)]) -> Value {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|(path, hash)| {
            (path.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") }))
        })
        .collect();
    json!({ "paths": paths })
}

/// The document of version 2, with definitions only. kubectl validates a `kind: List` with it, and everything
/// where a server has no v3.
pub fn document_v2(resources: &[Served<'_>]) -> Value {
    let resources: Vec<&Served<'_>> = resources.iter().collect();
    let mut definitions = components(&resources);
    definitions.values_mut().for_each(to_v2);
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1" },
        "paths": {},
        "definitions": definitions,
    })
}

/// Rewrites a schema as Kubernetes does for version 2, which supports neither alternatives nor nulls: a field
/// with alternatives becomes untyped, since clients refuse values outside of a schema.
fn to_v2(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(target) = map.get("allOf").and_then(|all| all[0].get("$ref")).cloned() {
        map.insert("$ref".to_owned(), target);
    }
    let is_set = |key: &str| map.get(key).is_some_and(|flag| flag == true);
    let anything = is_set("nullable") || is_set("x-kubernetes-int-or-string");
    let more = is_set("x-kubernetes-preserve-unknown-fields");
    map.retain(|key, _| match key.as_str() {
        "allOf" | "oneOf" | "anyOf" | "not" | "nullable" => false,
        "type" => !anything,
        "items" | "properties" | "additionalProperties" => !anything && !more,
        _ => true,
    });
    if let Some(Value::String(target)) = map.get_mut("$ref") {
        *target = target.replace(REF_PREFIX, "#/definitions/");
    }
    for key in ["items", "additionalProperties"] {
        map.get_mut(key).map(to_v2);
    }
    let properties = map.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|properties| properties.values_mut()).for_each(to_v2);
}

/// Name of a resource's schema.
fn schema_name(served: &Served<'_>) -> String {
    match builtin::find(served.group, served.version, served.kind) {
        Some(kind) if served.schema.is_none() => (kind.schema)(),
        _ => {
            let mut parts: Vec<&str> = served.group.rsplit('.').collect();
            parts.extend([served.version, served.kind]);
            parts.join(".")
        }
    }
}

fn components(resources: &[&Served<'_>]) -> Map<String, Value> {
    let kinds = resources
        .iter()
        .filter(|served| served.schema.is_none())
        .filter_map(|served| builtin::find(served.group, served.version, served.kind));
    let mut schemas = builtin::schemas(kinds);
    builtin::annotate(&mut schemas);
    for served in resources {
        if let Some(schema) = served.schema {
            schemas.insert(schema_name(served), custom(served, schema));
        }
    }
    schemas
}

/// A custom resource's schema with the fields that every object has.
fn custom(served: &Served<'_>, schema: &Value) -> Value {
    let mut schema = schema.clone();
    if !schema.is_object() {
        schema = json!({ "type": "object" });
    }
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.insert(
            "apiVersion".to_owned(),
            json!({
                "type": "string",
                "description": "APIVersion defines the versioned schema of this representation of an object.",
            }),
        );
        properties.insert(
            "kind".to_owned(),
            json!({
                "type": "string",
                "description": "Kind is a string value representing the REST resource this object represents.",
            }),
        );
        properties.insert(
            "metadata".to_owned(),
            json!({
                "description": "Standard object's metadata.",
                "allOf": [{ "$ref": format!("{REF_PREFIX}{OBJECT_META}") }],
            }),
        );
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk(served)]);
    schema
}

fn gvk(served: &Served<'_>) -> Value {
    json!({ "group": served.group, "version": served.version, "kind": served.kind })
}

fn paths(resources: &[&Served<'_>]) -> Map<String, Value> {
    let mut paths = Map::new();
    for served in resources {
        let root = if served.group.is_empty() {
            format!("/api/{}", served.version)
        } else {
            format!("/apis/{}/{}", served.group, served.version)
        };
        let plural = served.plural;
        let collection = if served.namespaced {
            paths.insert(format!("{root}/{plural}"), operations(served, &["list"], true));
            format!("{root}/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{root}/{plural}")
        };
        paths.insert(collection.clone(), operations(served, &["list", "create", "deletecollection"], true));
        let item = format!("{collection}/{{name}}");
        paths.insert(item.clone(), operations(served, &["get", "update", "patch", "delete"], false));
        for (has, name) in [(served.status, "status"), (served.scale, "scale")] {
            if has {
                let operations = operations(served, &["get", "update", "patch"], false);
                paths.insert(format!("{item}/{name}"), operations);
            }
        }
    }
    paths.retain(|_, item| item.as_object().is_some_and(|item| !item.is_empty()));
    paths
}

fn operations(served: &Served<'_>, verbs: &[&str], collection: bool) -> Value {
    let mut item = Map::new();
    for verb in verbs.iter().filter(|verb| served.verbs.contains(verb)) {
        let method = match *verb {
            "get" | "list" => "get",
            "create" => "post",
            "update" => "put",
            "patch" => "patch",
            _ => "delete",
        };
        item.insert(method.to_owned(), operation(served, verb, collection));
    }
    item.into()
}

fn operation(served: &Served<'_>, verb: &str, collection: bool) -> Value {
    let reference = json!({ "$ref": format!("{REF_PREFIX}{}", schema_name(served)) });
    let writes = matches!(verb, "create" | "update" | "patch");
    let action = match verb {
        "create" => "post",
        "update" => "put",
        other => other,
    };
    let mut names: Vec<&str> = vec!["pretty"];
    match verb {
        "create" | "update" => names.extend(["dryRun", "fieldManager", "fieldValidation"]),
        "patch" => names.extend(["dryRun", "fieldManager", "fieldValidation", "force"]),
        "delete" => names.extend(["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"]),
        "list" | "deletecollection" => {
            names.extend(["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"]);
        }
        _ => {}
    }
    let mut parameters: Vec<Value> = names
        .into_iter()
        .map(|name| {
            let ty = match name {
                "force" | "orphanDependents" | "watch" => "boolean",
                "gracePeriodSeconds" | "limit" => "integer",
                _ => "string",
            };
            json!({ "name": name, "in": "query", "schema": { "type": ty, "uniqueItems": true } })
        })
        .collect();
    if !collection {
        parameters.push(path_parameter("name"));
    }
    if served.namespaced && verb != "list" {
        parameters.push(path_parameter("namespace"));
    }
    let mut operation = json!({
        "operationId": format!("{verb}{}{}", served.version, served.kind),
        "parameters": parameters,
        "responses": { "200": {
            "description": "OK",
            "content": { "application/json": { "schema": reference } },
        } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(served),
    });
    if writes {
        let mut formats = vec!["application/json", "application/yaml"];
        if verb == "patch" {
            formats = vec![
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ];
            if served.schema.is_none() {
                formats.push("application/strategic-merge-patch+json");
            }
        }
        let content: Map<String, Value> =
            formats.into_iter().map(|format| (format.to_owned(), json!({ "schema": reference }))).collect();
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

fn path_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true } })
}

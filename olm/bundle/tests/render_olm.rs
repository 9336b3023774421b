//! What we render from real bundles, compared with what OLM v1 rendered and OLM v0 installed.
//!
//! Where we differ from OLM v1 on purpose, the difference is taken out before comparing:
//! - our labels `olm.managed` and `olm.owner*`, which OLM v0 sets and v1 does not;
//! - the variable `OPERATOR_CONDITION_NAME`, which v1 forgets (operators of v0 need it);
//! - annotations of the pod template: v0 lets those of the ClusterServiceVersion win, v1 those of the template;
//! - v1 passes objects through Go types, which drops nulls, zeros, empty texts and empty maps, and rewrites quantities
//!   (`0.5` to `500m`);
//! - certificates are ours, not another tool's: v1 renders Issuers, Certificates and annotations for cert-manager, we a
//!   Secret and the right to read it;
//! - webhook configurations have a namespace in v1, though they live in none, and a name without our hash: two
//!   installations of v1 would overwrite each other's;
//! - v1's Services leave `protocol` to the API server, and ours have `TCP`;
//! - v1 makes no roles for users of the operator's API, and no annotation `cert-manager.io/inject-ca-from` is ours;
//! - CustomResourceDefinitions are recorded as hashes only;
//! - rules that no API server takes in a role (no verbs, no groups) are refused by us; v1 finds out when it applies them;
//! - CustomResourceDefinitions of the removed API are refused by us; the test passes them off as current.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::BTreeMap;

use olm_bundle::{Bundle, RenderError, RenderOptions, render};
use serde_json::{Value, json};

/// Namespaces of the recording.
const INSTALL: &str = "install-ns";
const WATCH: &str = "watch-ns";

fn key(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Without nulls and empty containers, and without what one side alone has for a known reason.
fn normal(value: &Value, path: &str) -> Option<Value> {
    match value {
        Value::Null => None,
        // Go leaves out fields that have their zero value.
        Value::Number(number) if number.as_i64() == Some(0) => None,
        Value::Bool(false) => None,
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| {
                let known = key.starts_with("olm.managed") || key.starts_with("olm.owner");
                let dropped =
                    ["creationTimestamp", "status", "resources", "sizeLimit"].contains(&key.as_str());
                let empty = **value == json!("");
                let template_annotations = path == "/spec/template/metadata" && *key == "annotations";
                // `resources` is a list in roles and a map of quantities in containers.
                !(known
                    || empty
                    || template_annotations
                    || dropped && !(path.contains("/rules") && *key == "resources"))
            });
            let map: serde_json::Map<String, Value> = kept
                .filter_map(|(key, value)| Some((key.clone(), normal(value, &format!("{path}/{key}"))?)))
                .collect();
            let mut map = Value::Object(map);
            map.sort_all_objects();
            (map != json!({})).then_some(map)
        }
        Value::Array(list) => {
            let items =
                list.iter().filter(|item| item.get("name") != Some(&json!("OPERATOR_CONDITION_NAME")));
            let list: Vec<Value> = items.filter_map(|item| normal(item, path)).collect();
            (!list.is_empty()).then_some(Value::Array(list))
        }
        other => Some(other.clone()),
    }
}

/// Kinds that cert-manager has, and what takes their place with us.
const CERTIFICATES: [&str; 2] = ["Issuer", "Certificate"];

fn by_key<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeMap<String, Value> {
    let left_out = |object: &Value| {
        let ours =
            object["kind"].as_str().is_some_and(|kind| ["Secret", "Role", "RoleBinding"].contains(&kind))
                && object["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-service-cert"));
        let kind = object["kind"].as_str().unwrap();
        ours || CERTIFICATES.contains(&kind)
            || kind == "CustomResourceDefinition"
            || olm_bundle::crd_of_role(object).is_some()
    };
    objects
        .filter(|object| !left_out(object))
        .map(|object| {
            let object = comparable(object);
            (key(&object), normal(&object, "").unwrap())
        })
        .collect()
}

/// Webhook configurations and Services as both sides could have written them.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    match object["kind"].as_str().unwrap() {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let name = object["webhooks"][0]["name"].clone();
            object["metadata"] = json!({ "name": name });
        }
        "Service" if object["metadata"]["name"].as_str().unwrap().ends_with("-service") => {
            for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
                port.as_object_mut().unwrap().remove("protocol");
            }
        }
        _ => {}
    }
    object
}

/// The target namespaces of a recorded line: what its Deployments were told, or what its mode means.
fn targets(line: &Value, bundle: &Bundle) -> Vec<String> {
    let deployments =
        line["objects"].as_array().into_iter().flatten().filter(|object| object["kind"] == "Deployment");
    let mut told = deployments.filter_map(|object| {
        object.pointer("/spec/template/metadata/annotations/olm.targetNamespaces").and_then(Value::as_str)
    });
    if let Some(told) = told.next() {
        return vec![told.to_owned()];
    }
    let all = bundle.install_modes().supports(olm_bundle::InstallMode::AllNamespaces);
    match line["mode"].as_str().unwrap() {
        "default" if all => vec![String::new()],
        "single" => vec![WATCH.to_owned()],
        _ => vec![INSTALL.to_owned()],
    }
}

#[test]
fn real_bundles_render_as_olm_v1_does() {
    let (Some(recorded), Some(root)) =
        (common::data("recorded/olm-v1/dev.registryv1-render.jsonl"), common::data("bundles"))
    else {
        return;
    };
    let (mut compared, mut webhooks, mut refused, mut unusable) = (0, 0, 0, 0);
    let mut differences = Vec::new();
    for line in common::json_lines(&recorded) {
        let dir = line["dir"].as_str().unwrap();
        let mut bundle = Bundle::from_dir(&root.join(dir)).unwrap();
        for object in &mut bundle.objects {
            if object["kind"] == "CustomResourceDefinition" {
                object["apiVersion"] = "apiextensions.k8s.io/v1".into();
            }
        }
        let options = RenderOptions {
            install_namespace: INSTALL.into(),
            target_namespaces: targets(&line, &bundle),
            ..RenderOptions::default()
        };
        let place = format!("{dir} {} {:?}", line["mode"], options.target_namespaces);
        let rendered = render(&bundle, &options);
        match (&rendered, line.get("err")) {
            (Err(RenderError::InstallMode { .. }), Some(_)) => refused += 1,
            (Err(RenderError::Invalid { field, .. }), _) if field.contains(".rules[") => unusable += 1,
            (Ok(rendered), None) => {
                compared += 1;
                webhooks += usize::from(!rendered.endpoints.is_empty());
                let ours = by_key(rendered.objects().map(|(_, object)| object));
                let theirs = by_key(line["objects"].as_array().unwrap().iter());
                for (key, object) in &theirs {
                    match ours.get(key) {
                        None => differences.push(format!("{place}: we do not have {key}")),
                        Some(own) if own != object => {
                            differences.push(format!("{place}: {key}:\n  ours {own}\n  v1   {object}"));
                        }
                        Some(_) => {}
                    }
                }
                for key in ours.keys().filter(|key| !theirs.contains_key(*key)) {
                    differences.push(format!("{place}: only we have {key}"));
                }
            }
            // v1 has no default for a bundle that can only watch its own or one namespace.
            (Ok(_), Some(_)) if line["mode"] == "default" => {}
            (result, err) => differences.push(format!("{place}: we {:?}, v1 {err:?}", result.as_ref().err())),
        }
    }
    println!(
        "{compared} compared, {webhooks} of them with webhooks, {refused} refused by both, {unusable} with unusable rules"
    );
    let shown: Vec<&String> = differences.iter().take(3).collect();
    assert!(differences.is_empty(), "{} differences, the first: {shown:#?}", differences.len());
    assert!(compared > 350 && webhooks > 50 && unusable < 10, "{compared} {webhooks} {unusable}");
}

#[test]
fn etcd_renders_what_olm_v0_left_in_the_cluster() {
    let (Some(installed), Some(root)) =
        (common::data("olm-v0-installed/operators.yaml"), common::data("bundles/operators"))
    else {
        return;
    };
    let live = olm_bundle::yaml::documents("operators.yaml", &std::fs::read(installed).unwrap()).unwrap();
    let live: Vec<&Value> =
        live.iter().flat_map(|document| document.value["items"].as_array().unwrap()).collect();
    let find = |kind: &str, name: &str| {
        *live
            .iter()
            .find(|object| {
                object["kind"] == kind && object["metadata"]["name"].as_str().unwrap().starts_with(name)
            })
            .unwrap()
    };
    let csv = find("ClusterServiceVersion", "etcdoperator.v0.9.4");
    let mut bundle = Bundle::from_dir(&root.join("etcd/0.9.4")).unwrap();
    for object in &mut bundle.objects {
        object["apiVersion"] = "apiextensions.k8s.io/v1".into();
    }
    let options = RenderOptions {
        install_namespace: "operators".into(),
        target_namespaces: vec!["operators".into()],
        operator_group: Some("og".into()),
        subscription_config: None,
    };
    let rendered = render(&bundle, &options).unwrap();
    let ours = |kind: &str| {
        rendered.objects().map(|(_, object)| object).find(|object| object["kind"] == kind).unwrap().clone()
    };
    assert_eq!(csv["metadata"]["name"], bundle.name());

    let (own, theirs) = (ours("Deployment"), find("Deployment", "etcd-operator"));
    assert_eq!(own["metadata"]["name"], theirs["metadata"]["name"]);
    for label in ["olm.managed", "olm.owner", "olm.owner.kind", "olm.owner.namespace"] {
        assert_eq!(own["metadata"]["labels"][label], theirs["metadata"]["labels"][label], "{label}");
    }
    let annotations = "/spec/template/metadata/annotations";
    let (own_annotations, their_annotations) =
        (own.pointer(annotations).unwrap(), theirs.pointer(annotations).unwrap());
    for (key, value) in their_annotations.as_object().unwrap() {
        // The projected properties are put on the ClusterServiceVersion by whoever writes it.
        if key != "operatorframework.io/properties" {
            assert_eq!(own_annotations.get(key), Some(value), "{key}");
        }
    }
    let containers = "/spec/template/spec/containers";
    let pairs = own
        .pointer(containers)
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .zip(theirs.pointer(containers).unwrap().as_array().unwrap());
    for (own, theirs) in pairs {
        assert_eq!(
            (&own["name"], &own["image"], &own["command"]),
            (&theirs["name"], &theirs["image"], &theirs["command"])
        );
        let names = |container: &Value| -> Vec<String> {
            container["env"].as_array().unwrap().iter().map(|env| env["name"].to_string()).collect()
        };
        assert_eq!(names(own), names(theirs));
    }
    assert_eq!(own["spec"]["revisionHistoryLimit"], theirs["spec"]["revisionHistoryLimit"]);
    assert_eq!(
        own["spec"]["template"]["spec"]["serviceAccountName"],
        theirs["spec"]["template"]["spec"]["serviceAccountName"]
    );

    let (own, theirs) = (ours("Role"), find("Role", "etcdoperator.v0.9.4-"));
    assert_eq!(normal(&own["rules"], "/rules"), normal(&theirs["rules"], "/rules"));
    let (own, theirs) = (ours("RoleBinding"), find("RoleBinding", "etcdoperator.v0.9.4-"));
    assert_eq!(own["subjects"][0]["name"], theirs["subjects"][0]["name"]);
    assert_eq!(
        ours("ServiceAccount")["metadata"]["name"],
        find("ServiceAccount", "etcd-operator")["metadata"]["name"]
    );
}

//! The rendering of a real bundle, compared with the objects of OLM v0 in a cluster. OLM v1 is compared in
//! `render_olm_v1`.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use olm_bundle::{Bundle, RenderOptions, render};
use serde_json::Value;

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
        // The writer of the ClusterServiceVersion adds the projected properties.
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
    assert_eq!(own["rules"], theirs["rules"]);
    let (own, theirs) = (ours("RoleBinding"), find("RoleBinding", "etcdoperator.v0.9.4-"));
    assert_eq!(own["subjects"][0]["name"], theirs["subjects"][0]["name"]);
    assert_eq!(
        ours("ServiceAccount")["metadata"]["name"],
        find("ServiceAccount", "etcd-operator")["metadata"]["name"]
    );
}

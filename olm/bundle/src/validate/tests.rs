use base64::Engine;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

mod parts;
mod suites;

fn good() -> (Value, Vec<Value>) {
    let icon = base64::engine::general_purpose::STANDARD.encode("<svg xmlns='http://www.w3.org/2000/svg'/>");
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "p.v1.0.0", "annotations": {
            "alm-examples": "[{\"apiVersion\": \"example.com/v1\", \"kind\": \"Thing\"}]",
            "olm.skipRange": "<1.0.0",
        }},
        "spec": {
            "displayName": "P", "version": "1.0.0", "minKubeVersion": "1.20.0",
            "icon": [{"base64data": icon, "mediatype": "image/svg+xml"}],
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": "things.example.com", "version": "v1", "kind": "Thing"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "op", "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"serviceAccountName": "op", "containers": [{"name": "c", "image": "example.com/c:v1"}]}},
            }}]}},
        },
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ]},
    });
    (csv, vec![crd])
}

fn codes(change: impl FnOnce(&mut Value, &mut Vec<Value>)) -> Vec<&'static str> {
    let (mut csv, mut objects) = good();
    change(&mut csv, &mut objects);
    objects.push(csv);
    let mut bundle = Bundle::from_objects(objects).unwrap();
    // A release is checked against the package's name.
    bundle.properties.push(crate::Property {
        type_: "olm.package".into(),
        value: json!({"packageName": "p", "version": "1.0.0"}),
    });
    bundle.validate().iter().map(|finding| finding.code).collect()
}

#[test]
fn a_good_bundle_has_no_findings() {
    assert_eq!(codes(|_, _| ()), Vec::<&str>::new());
}

#[test]
fn each_mistake_has_its_code() {
    type Change = fn(&mut Value, &mut Vec<Value>);
    let cases: &[(&[&str], Change)] = &[
        (&["csv-name-invalid"], |csv, _| csv["metadata"]["name"] = "P_1".into()),
        (&["csv-name-invalid"], |csv, _| csv["spec"]["replaces"] = "x".repeat(64).into()),
        (&["csv-replaces-itself"], |csv, _| csv["spec"]["replaces"] = "p.v1.0.0".into()),
        (&["csv-version-missing"], |csv, _| csv["spec"]["version"] = "".into()),
        (&["csv-version-invalid"], |csv, _| csv["spec"]["version"] = "v1".into()),
        (&["csv-min-kube-version-invalid"], |csv, _| csv["spec"]["minKubeVersion"] = "new".into()),
        (&["csv-skip-range-invalid"], |csv, _| {
            csv["metadata"]["annotations"]["olm.skipRange"] = "<v1.0.0".into()
        }),
        (&["csv-skip-range-remark"], |csv, _| {
            csv["metadata"]["annotations"]["olm.skipRange"] = "!=1.x".into()
        }),
        (&["csv-annotation-case"], |csv, _| {
            csv["metadata"]["annotations"]["olm.skiprange"] = "<1.0.0".into()
        }),
        (&["install-mode-unknown"], |csv, _| {
            csv["spec"]["installModes"] = json!([{"type": "AllNamespaces", "supported": true}, {"type": "Allnamespaces", "supported": false}]);
        }),
        (&["install-mode-unknown", "install-modes-none"], |csv, _| {
            csv["spec"]["installModes"] = json!([{"type": "AllNamespace", "supported": true}])
        }),
        (&["install-strategy"], |csv, _| csv["spec"]["install"]["strategy"] = "helm".into()),
        (&["deployment-missing"], |csv, _| csv["spec"]["install"]["spec"]["deployments"] = json!([])),
        (&["deployment-name-invalid"], |csv, _| {
            csv["spec"]["install"]["spec"]["deployments"][0]["name"] = "".into()
        }),
        (&["deployment-selector"], |csv, _| {
            csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["selector"]["matchLabels"]["a"] =
                "c".into()
        }),
        (&["deployment-no-containers"], |csv, _| {
            csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"] =
                json!([])
        }),
        (&["crd-missing", "crd-not-owned"], |csv, _| {
            csv["spec"]["customresourcedefinitions"]["owned"][0]["name"] = "thing.example.com".into()
        }),
        (&["crd-kind-mismatch", "alm-examples-incomplete"], |csv, _| {
            csv["spec"]["customresourcedefinitions"]["owned"][0]["kind"] = "Thingy".into()
        }),
        (&["crd-version-missing"], |csv, _| {
            csv["spec"]["customresourcedefinitions"]["owned"][0]["version"] = "v2".into()
        }),
        (&["crd-version-not-served", "crd-not-served"], |_, objects| {
            objects[0]["spec"]["versions"][0]["served"] = false.into()
        }),
        (&["crd-storage"], |_, objects| objects[0]["spec"]["versions"][0]["storage"] = false.into()),
        (&["crd-schema-missing"], |_, objects| objects[0]["spec"]["versions"][0]["schema"] = json!(null)),
        (&["crd-name"], |_, objects| objects[0]["spec"]["names"]["plural"] = "thing".into()),
        (&["crd-duplicate"], |_, objects| objects.push(objects[0].clone())),
        (&["crd-api-removed"], |_, objects| objects[0]["apiVersion"] = "apiextensions.k8s.io/v1beta1".into()),
        (&["alm-examples-invalid"], |csv, _| csv["metadata"]["annotations"]["alm-examples"] = "[{".into()),
        (&["alm-examples-foreign", "alm-examples-incomplete"], |csv, _| {
            csv["metadata"]["annotations"]["alm-examples"] = "{\"kind\": \"Pod\"}".into()
        }),
        (&["alm-examples-missing"], |csv, _| csv["metadata"]["annotations"]["alm-examples"] = "".into()),
        (&["icon-not-base64"], |csv, _| csv["spec"]["icon"][0]["base64data"] = "%".into()),
        (&["icon-not-image"], |csv, _| csv["spec"]["icon"][0]["base64data"] = "aGVsbG8=".into()),
        (&["icon-mediatype"], |csv, _| csv["spec"]["icon"][0]["mediatype"] = "image/png".into()),
        (&["icon-missing"], |csv, _| csv["spec"]["icon"] = json!([])),
        (&["kind-unsupported"], |_, objects| {
            objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}))
        }),
        (&["object-name-missing"], |_, objects| objects.push(json!({"apiVersion": "v1", "kind": "Service"}))),
        (&["service-account-clash"], |_, objects| {
            objects.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "op"}}))
        }),
        (&["properties-invalid", "csv-annotation-properties"], |csv, _| {
            csv["metadata"]["annotations"]["olm.properties"] = "{}".into()
        }),
        (&["csv-api-version"], |csv, _| csv["apiVersion"] = "operators.example.com/v1".into()),
        (&["csv-min-kube-version-invalid"], |csv, _| csv["spec"]["minKubeVersion"] = "1.20".into()),
        (&["csv-min-kube-version-missing"], |csv, _| csv["spec"]["minKubeVersion"] = "".into()),
        (&["csv-min-kube-version-missing", "csv-field-case"], |csv, _| {
            csv["spec"]["MinKubeVersion"] = csv["spec"]["minKubeVersion"].take()
        }),
        (&["csv-field-unknown"], |csv, _| csv["spec"]["keyword"] = "x".into()),
        (&["csv-display-name-missing"], |csv, _| csv["spec"]["displayName"] = "".into()),
        (&["csv-skips-itself"], |csv, _| csv["spec"]["skips"] = json!(["p.v1.0.0"])),
        (&["csv-skip-empty"], |csv, _| csv["spec"]["skips"] = json!([""])),
        (&["csv-skip-duplicate"], |csv, _| csv["spec"]["skips"] = json!(["p.v0.1.0", "p.v0.1.0"])),
        (&["csv-skip-range-self"], |csv, _| {
            csv["metadata"]["annotations"]["olm.skipRange"] = "<=1.0.0".into()
        }),
        (&["install-modes-missing"], |csv, _| csv["spec"]["installModes"] = json!([])),
        (
            &["install-mode-duplicate"],
            |csv, _| csv["spec"]["installModes"] = json!([{"type": "AllNamespaces", "supported": true}, {"type": "AllNamespaces", "supported": true}]),
        ),
        (&["deployment-shape"], |csv, _| {
            csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["replicas"] = "many".into()
        }),
        (&["container-image-invalid"], |csv, _| {
            csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"] =
                "a/b@".into()
        }),
        (&["permission-account"], |csv, _| {
            csv["spec"]["install"]["spec"]["permissions"] = json!([{"rules": []}])
        }),
        (&["related-image-invalid"], |csv, _| {
            csv["spec"]["relatedImages"] = json!([{"name": "a", "image": "quay.io/a/b@"}])
        }),
        (&["related-image-invalid"], |csv, _| {
            csv["spec"]["relatedImages"] = json!([{"name": "a", "image": "oci://quay.io/a/b:v1"}])
        }),
        (&["related-image-empty"], |csv, _| {
            csv["spec"]["relatedImages"] = json!([{"name": "a", "image": ""}])
        }),
        (&["related-image-name"], |csv, _| {
            csv["spec"]["relatedImages"] = json!([{"image": "quay.io/a/b:v1"}])
        }),
        (&["csv-crd-duplicate"], |csv, _| {
            let owned = csv["spec"]["customresourcedefinitions"]["owned"][0].clone();
            csv["spec"]["customresourcedefinitions"]["owned"] = json!([owned.clone(), owned]);
        }),
        (&["csv-field-missing"], |csv, _| {
            csv["spec"]["customresourcedefinitions"]["required"] = json!([{"name": "a.b", "kind": "A"}])
        }),
        (&["api-service-deployment", "alm-examples-incomplete"], |csv, _| {
            csv["spec"]["apiservicedefinitions"] =
                json!({"owned": [{"name": "a", "group": "g", "version": "v1", "kind": "A"}]})
        }),
        (
            &["webhook-type", "webhook-deployment", "webhook-review-versions", "webhook-side-effects"],
            |csv, _| {
                csv["spec"]["webhookdefinitions"] =
                    json!([{"type": "Webhook", "generateName": "a", "deploymentName": "x"}])
            },
        ),
        (&["webhook-conversion-foreign", "webhook-conversion-install-mode"], |csv, _| {
            csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}]);
            csv["spec"]["webhookdefinitions"] = json!([{
                "type": "ConversionWebhook", "generateName": "a", "deploymentName": "op",
                "admissionReviewVersions": ["v1"], "conversionCRDs": ["others.example.com"],
            }]);
        }),
        (&["crd-scope"], |_, objects| objects[0]["spec"]["scope"] = "namespaced".into()),
        (
            &["crd-group", "crd-missing", "crd-not-owned", "alm-examples-foreign", "alm-examples-incomplete"],
            |csv, objects| {
                csv["spec"]["customresourcedefinitions"]["owned"][0]["name"] = "things.x.example.com".into();
                csv["metadata"]["annotations"]["alm-examples"] =
                    "[{\"apiVersion\": \"y/v1\", \"kind\": \"Thing\"}]".into();
                objects[0]["spec"]["group"] = "example".into();
                objects[0]["metadata"]["name"] = "things.example".into();
            },
        ),
        (&["crd-names", "crd-names"], |_, objects| {
            objects[0]["spec"]["names"]["listKind"] = "Thing".into();
            objects[0]["spec"]["names"]["shortNames"] = json!(["T"]);
        }),
        (&["crd-version-duplicate", "crd-storage"], |_, objects| {
            let version = objects[0]["spec"]["versions"][0].clone();
            objects[0]["spec"]["versions"] = json!([version.clone(), version]);
        }),
        (&["crd-field-removed"], |_, objects| objects[0]["spec"]["version"] = "v1".into()),
        (&["crd-preserve-unknown-fields"], |_, objects| {
            objects[0]["spec"]["preserveUnknownFields"] = true.into()
        }),
        (&["crd-api-unknown"], |_, objects| objects[0]["apiVersion"] = "apiextensions.k8s.io/v2".into()),
        (&["crd-conversion"], |_, objects| objects[0]["spec"]["conversion"] = json!({"strategy": "Webhook"})),
        (&["crd-conversion-review-versions"], |_, objects| {
            objects[0]["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
                "clientConfig": {"service": {"name": "a", "namespace": "b"}},
            }})
        }),
        (&["crd-columns"], |_, objects| {
            objects[0]["spec"]["versions"][0]["additionalPrinterColumns"] =
                json!([{"name": "a", "jsonPath": ".a", "type": "text"}])
        }),
        (&["crd-selectable-fields"], |_, objects| {
            objects[0]["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": "spec.x"}])
        }),
        (&["crd-schema-keyword"], |_, objects| {
            objects[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["readOnly"] = true.into()
        }),
        (&["crd-rule-version"], |_, objects| {
            objects[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
                json!([{"rule": "isIP('::1')"}])
        }),
        (&[], |csv, objects| {
            csv["spec"]["minKubeVersion"] = "1.31.0".into();
            objects[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
                json!([{"rule": "isIP('::1')"}])
        }),
        (&["crd-scale"], |_, objects| {
            objects[0]["spec"]["versions"][0]["subresources"] =
                json!({"scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".status.x"}})
        }),
        (&["object-shape"], |_, objects| {
            objects.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": 80}}))
        }),
        (&["label-value-invalid"], |_, objects| {
            objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a": "b c"}}}))
        }),
        (&["object-duplicate"], |_, objects| {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
            objects.extend([map.clone(), map]);
        }),
        (&["alm-examples-twice"], |csv, _| csv["metadata"]["annotations"]["olm.examples"] = "[]".into()),
        (&["csv-name-release"], |csv, _| csv["spec"]["release"] = "1".into()),
    ];
    let found = cases.iter().map(|(expected, change)| (*expected, codes(change)));
    let wrong: Vec<_> = found.filter(|(expected, found)| expected != found).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Any JSON, with the names that the code reads.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z.=<>\\[{]{0,6}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "name",
        "type",
        "spec",
        "versions",
        "rules",
        "supported",
        "template",
        "containers",
        "metadata",
        "kind",
        "group",
        "names",
        "served",
        "deployments",
        "permissions",
        "owned",
        "base64data",
        "selector",
        "matchLabels",
    ]);
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..4)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_manifest_panics(
        parts in prop::collection::vec((prop::sample::select(vec![
            "/spec/installModes", "/spec/icon", "/spec/install", "/spec/install/spec", "/spec/customresourcedefinitions",
            "/spec/customresourcedefinitions/owned", "/metadata/annotations", "/spec",
        ]), any_json()), 1..3),
        object in any_json(),
    ) {
        let (mut csv, mut objects) = good();
        for (pointer, value) in parts {
            if let Some(slot) = csv.pointer_mut(pointer) {
                *slot = value;
            }
        }
        objects.push(json!({"apiVersion": "v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"}, "spec": object}));
        objects.push(csv);
        if let Ok(bundle) = Bundle::from_objects(objects) {
            let _ = bundle.validate();
            let _ = crate::bundle_properties(&bundle, "p");
            for targets in [vec![], vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]] {
                let _ = crate::render(&bundle, &crate::RenderOptions { install_namespace: "a".into(), target_namespaces: targets, ..Default::default() });
            }
        }
    }
}

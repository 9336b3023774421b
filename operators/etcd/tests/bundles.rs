//! The bundles say what the code does: CRD, image, versions and permissions.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use etcd_operator::calls::CALLS;
use serde_json::Value;

/// Version and what it replaces.
const VERSIONS: [(&str, &str); 2] = [("0.10.0", "etcdoperator.v0.9.4"), ("0.10.1", "etcdoperator.v0.10.0")];

fn bundle(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bundles/etcd").join(version)
}

fn yaml(path: PathBuf) -> Value {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml::from_str(&text).unwrap()
}

fn csv(version: &str) -> Value {
    yaml(bundle(version).join(format!("manifests/etcdoperator.v{version}.clusterserviceversion.yaml")))
}

#[test]
fn the_crd_in_the_bundles_is_the_one_of_the_code() {
    let generated = serde_yaml::to_string(&etcd_operator::crd::crd()).unwrap();
    for (version, _) in VERSIONS {
        let path = bundle(version).join("manifests/etcdclusters.etcd.database.coreos.com.crd.yaml");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let shipped = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(shipped == generated, "{} is out of date: run the tests once with UPDATE=1", path.display());
    }
}

#[test]
fn names_versions_images_and_replaces_fit_together() {
    for (version, replaces) in VERSIONS {
        let csv = csv(version);
        assert_eq!(csv["metadata"]["name"], format!("etcdoperator.v{version}"));
        assert_eq!(csv["spec"]["version"], version);
        assert_eq!(csv["spec"]["replaces"], replaces);
        let image = format!("localhost/olm/etcd-operator:{version}");
        assert_eq!(csv["metadata"]["annotations"]["containerImage"], image);
        let container =
            &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image);
        let annotations = yaml(bundle(version).join("metadata/annotations.yaml"));
        let of = |key: &str| {
            annotations["annotations"][format!("operators.operatorframework.io.bundle.{key}")].clone()
        };
        assert_eq!(of("package.v1"), "etcd");
        assert_eq!(of("channel.default.v1"), "singlenamespace-alpha");
    }
}

#[test]
fn the_permissions_allow_the_calls_of_the_code_and_no_others() {
    let needed: BTreeSet<(String, String, String)> =
        CALLS.iter().map(|(g, r, v)| ((*g).to_owned(), (*r).to_owned(), (*v).to_owned())).collect();
    for (version, _) in VERSIONS {
        let csv = csv(version);
        let strategy = &csv["spec"]["install"]["spec"];
        assert!(strategy.get("clusterPermissions").is_none());
        let words = |rule: &Value, key: &str| -> Vec<String> {
            rule[key].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
        };
        let mut granted = BTreeSet::new();
        for permission in strategy["permissions"].as_array().unwrap() {
            assert_eq!(permission["serviceAccountName"], "etcd-operator");
            for rule in permission["rules"].as_array().unwrap() {
                for group in words(rule, "apiGroups") {
                    for resource in words(rule, "resources") {
                        for verb in words(rule, "verbs") {
                            granted.insert((group.clone(), resource.clone(), verb));
                        }
                    }
                }
            }
        }
        assert_eq!(granted, needed, "bundle {version}");
    }
}

#[test]
fn descriptors_and_examples_speak_of_fields_that_exist() {
    let crd = serde_json::to_value(etcd_operator::crd::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for (version, _) in VERSIONS {
        let csv = csv(version);
        let owned = &csv["spec"]["customresourcedefinitions"]["owned"][0];
        assert_eq!(owned["name"], crd["metadata"]["name"]);
        assert_eq!(owned["version"], crd["spec"]["versions"][0]["name"]);
        for (list, part) in [("specDescriptors", "spec"), ("statusDescriptors", "status")] {
            for descriptor in owned[list].as_array().unwrap() {
                let path = descriptor["path"].as_str().unwrap();
                let end =
                    path.split('.').fold(&schema["properties"][part], |at, step| &at["properties"][step]);
                assert!(end.is_object(), "{version}: {list} {path}");
            }
        }
        let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
        let examples: Vec<etcd_operator::crd::EtcdCluster> = serde_json::from_str(examples).unwrap();
        assert_eq!(examples[0].metadata.name.as_deref(), Some("example-etcd-cluster"));
        assert_eq!(examples[0].spec.size, 3);
    }
}

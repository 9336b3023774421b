//! The bundles match the code: CRD, image, versions and permissions.

// Test helpers fail like tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use etcd_operator::calls::{BACKUP_CALLS, CALLS, CLUSTER_CALLS};
use etcd_operator::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

struct Shipped {
    version: &'static str,
    replaces: &'static str,
    image: &'static str,
    channels: &'static str,
    /// With backups and restores.
    all_kinds: bool,
    /// For all namespaces.
    clusterwide: bool,
}

const SHIPPED: [Shipped; 4] = [
    Shipped {
        version: "0.10.0",
        replaces: "etcdoperator.v0.9.4",
        image: "0.10.0",
        channels: "singlenamespace-alpha,clusterwide-alpha,alpha",
        all_kinds: false,
        clusterwide: false,
    },
    Shipped {
        version: "0.10.1",
        replaces: "etcdoperator.v0.10.0",
        image: "0.10.1",
        channels: "singlenamespace-alpha,clusterwide-alpha,alpha",
        all_kinds: false,
        clusterwide: false,
    },
    Shipped {
        version: "0.11.0",
        replaces: "etcdoperator.v0.10.1",
        image: "0.11.0",
        channels: "stable,singlenamespace-alpha,alpha",
        all_kinds: true,
        clusterwide: false,
    },
    Shipped {
        version: "0.11.0-clusterwide",
        replaces: "etcdoperator.v0.10.1",
        image: "0.11.0",
        channels: "clusterwide-alpha",
        all_kinds: true,
        clusterwide: true,
    },
];

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

fn crds(shipped: &Shipped) -> Vec<CustomResourceDefinition> {
    let mut all = vec![crd::crd()];
    if shipped.all_kinds {
        all.extend([crd::backup::crd(), crd::restore::crd()]);
    }
    all
}

#[test]
fn the_crds_in_the_bundles_are_those_of_the_code() {
    for shipped in &SHIPPED {
        for definition in crds(shipped) {
            let generated = serde_yaml::to_string(&definition).unwrap();
            let name = definition.metadata.name.unwrap();
            let path = bundle(shipped.version).join(format!("manifests/{name}.crd.yaml"));
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, &generated).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == generated,
                "{} is out of date: run the tests once with UPDATE=1",
                path.display()
            );
        }
    }
}

#[test]
fn names_versions_images_and_replaces_fit_together() {
    for shipped in &SHIPPED {
        let version = shipped.version;
        let csv = csv(version);
        assert_eq!(csv["metadata"]["name"], format!("etcdoperator.v{version}"));
        assert_eq!(csv["spec"]["version"], version);
        assert_eq!(csv["spec"]["replaces"], shipped.replaces);
        let image = format!("localhost/olm/etcd-operator:{}", shipped.image);
        assert_eq!(csv["metadata"]["annotations"]["containerImage"], image);
        let container =
            &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image);
        let wide = container["command"].as_array().unwrap().iter().any(|arg| arg == "--cluster-wide");
        assert_eq!(wide, shipped.clusterwide, "{version}");
        let all = csv["spec"]["installModes"].as_array().unwrap().iter();
        let all = all.filter(|mode| mode["type"] == "AllNamespaces").all(|mode| mode["supported"] == true);
        assert_eq!(all, shipped.clusterwide, "{version}");
        let annotations = yaml(bundle(version).join("metadata/annotations.yaml"));
        let of = |key: &str| {
            annotations["annotations"][format!("operators.operatorframework.io.bundle.{key}")].clone()
        };
        assert_eq!(of("package.v1"), "etcd");
        assert_eq!(of("channels.v1"), shipped.channels);
        assert_eq!(of("channel.default.v1"), "singlenamespace-alpha");
    }
}

type Rights = BTreeSet<(String, String, String)>;

fn calls(lists: &[&[(&str, &str, &str)]]) -> Rights {
    let rows = lists.iter().flat_map(|list| list.iter());
    rows.map(|(g, r, v)| ((*g).to_owned(), (*r).to_owned(), (*v).to_owned())).collect()
}

fn granted(permissions: &Value) -> Rights {
    let words = |rule: &Value, key: &str| -> Vec<String> {
        rule[key].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let mut granted = BTreeSet::new();
    for permission in permissions.as_array().into_iter().flatten() {
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
    granted
}

/// One rule names several kinds, so a verb that one of them needs may be granted for another.
#[test]
fn the_permissions_allow_the_calls_of_the_code_and_no_others() {
    for shipped in &SHIPPED {
        let strategy = csv(shipped.version)["spec"]["install"]["spec"].clone();
        let (own, whole) = (granted(&strategy["permissions"]), granted(&strategy["clusterPermissions"]));
        let (needed, needed_whole) = match (shipped.all_kinds, shipped.clusterwide) {
            (false, _) => (calls(&[CALLS]), calls(&[])),
            (true, false) => (calls(&[CALLS, BACKUP_CALLS]), calls(&[CLUSTER_CALLS])),
            (true, true) => (calls(&[]), calls(&[CALLS, BACKUP_CALLS, CLUSTER_CALLS])),
        };
        assert_eq!(own, needed, "bundle {}", shipped.version);
        assert_eq!(whole, needed_whole, "bundle {}", shipped.version);
    }
}

#[test]
fn descriptors_and_examples_speak_of_fields_that_exist() {
    for shipped in &SHIPPED {
        let csv = csv(shipped.version);
        let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array().unwrap();
        let definitions = crds(shipped);
        assert_eq!(owned.len(), definitions.len());
        for (owned, definition) in owned.iter().zip(&definitions) {
            let crd = serde_json::to_value(definition).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            assert_eq!(owned["name"], crd["metadata"]["name"]);
            assert_eq!(owned["version"], crd["spec"]["versions"][0]["name"]);
            for (list, part) in [("specDescriptors", "spec"), ("statusDescriptors", "status")] {
                for descriptor in owned[list].as_array().unwrap() {
                    let path = descriptor["path"].as_str().unwrap();
                    let end =
                        path.split('.').fold(&schema["properties"][part], |at, step| &at["properties"][step]);
                    assert!(end.is_object(), "{}: {} {list} {path}", shipped.version, owned["kind"]);
                }
            }
        }
        let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
        let examples: Vec<Value> = serde_json::from_str(examples).unwrap();
        let kinds: Vec<_> = examples.iter().map(|example| example["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds.len(), definitions.len(), "one example a kind: {kinds:?}");
        let cluster: crd::EtcdCluster = serde_json::from_value(examples[0].clone()).unwrap();
        assert_eq!(cluster.metadata.name.as_deref(), Some("example-etcd-cluster"));
        assert_eq!(cluster.spec.size, 3);
        if shipped.all_kinds {
            let restore: crd::restore::EtcdRestore = serde_json::from_value(examples[1].clone()).unwrap();
            assert_eq!(restore.spec.etcd_cluster.name, "example-etcd-cluster");
            let backup: crd::backup::EtcdBackup = serde_json::from_value(examples[2].clone()).unwrap();
            assert_eq!(backup.spec.storage_type, "S3");
        }
        for example in &examples {
            let scope = &example["metadata"]["annotations"]["etcd.database.coreos.com/scope"];
            assert_eq!(scope == "clusterwide", shipped.clusterwide, "{}", shipped.version);
        }
    }
}

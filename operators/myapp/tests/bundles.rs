//! The bundles match the code: CRD, image, versions, permissions, descriptors and examples.

// Test helpers fail like tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use kube::CustomResourceExt as _;
use myapp_operator::myapp::MyApp;
use serde_json::Value;

/// Version and predecessor of each bundle.
const SHIPPED: [(&str, Option<&str>); 2] = [("0.1.0", None), ("0.2.0", Some("myapp.v0.1.0"))];

/// Fields of the status without a descriptor: for programs that wait for a change, and for the scale subresource.
const UNSHOWN: [&str; 2] = ["observedGeneration", "selector"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn bundle(version: &str) -> PathBuf {
    root().join("../../bundles/myapp").join(version)
}

fn yaml(path: PathBuf) -> Value {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml::from_str(&text).unwrap()
}

fn csv(version: &str) -> Value {
    yaml(bundle(version).join(format!("manifests/myapp.v{version}.clusterserviceversion.yaml")))
}

/// The definition of a version. 0.1.0 is from before `spec.port`: the program then uses the default.
fn crd(version: &str) -> Value {
    let mut crd = serde_json::to_value(MyApp::crd()).unwrap();
    if version == "0.1.0" {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let fields = crd.pointer_mut(schema).and_then(Value::as_object_mut).unwrap();
        fields.retain(|name, _| name != "port");
    }
    crd
}

fn fields(crd: &Value, part: &str) -> BTreeSet<String> {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part];
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_crds_in_the_bundles_are_those_of_the_code() {
    for (version, _) in SHIPPED {
        let generated = serde_yaml::to_string(&crd(version)).unwrap();
        let path = bundle(version).join("manifests/myapps.example.com.crd.yaml");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == generated, "{} is out of date: run the tests once with UPDATE=1", path.display());
    }
}

/// An upgrade neither removes a field nor requires a new one.
#[test]
fn the_new_version_adds_an_optional_field() {
    let [old, new] = SHIPPED.map(|(version, _)| crd(version));
    let added: Vec<String> = fields(&new, "spec").difference(&fields(&old, "spec")).cloned().collect();
    assert_eq!(added, ["port"]);
    assert!(fields(&old, "spec").is_subset(&fields(&new, "spec")));
    let required = |crd: &Value| {
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"].clone()
    };
    assert_eq!(required(&old), required(&new));
    // The API server of a cluster with 0.1.0 drops the field.
    let before = r#"{ "apiVersion": "example.com/v1alpha1", "kind": "MyApp", "metadata": { "name": "a" },
        "spec": { "image": "myapp:latest" } }"#;
    let app: MyApp = serde_json::from_str(before).unwrap();
    assert_eq!((app.spec.replicas, app.spec.port), (1, 8080));
}

#[test]
fn names_versions_images_and_replaces_fit_together() {
    for (version, replaces) in SHIPPED {
        let csv = csv(version);
        assert_eq!(csv["metadata"]["name"], format!("myapp.v{version}"));
        assert_eq!(csv["spec"]["version"], version);
        assert_eq!(csv["spec"]["replaces"].as_str(), replaces);
        let image = format!("localhost/olm/myapp-operator:{version}");
        assert_eq!(csv["metadata"]["annotations"]["containerImage"], image);
        let deployments = csv["spec"]["install"]["spec"]["deployments"].as_array().unwrap();
        assert_eq!(deployments.len(), 1);
        // The lease has this name, and `olm uninstall` finds it by the name of the pod that holds it.
        assert_eq!(deployments[0]["name"], env!("CARGO_PKG_NAME"));
        assert_eq!(deployments[0]["spec"]["template"]["spec"]["containers"][0]["image"], image);
        let annotations = yaml(bundle(version).join("metadata/annotations.yaml"));
        let of = |key: &str| {
            annotations["annotations"][format!("operators.operatorframework.io.bundle.{key}")].clone()
        };
        assert_eq!(of("package.v1"), "myapp");
        assert_eq!(of("channels.v1"), "alpha");
        assert_eq!(of("channel.default.v1"), "alpha");
    }
}

type Rules = BTreeSet<(String, String, String)>;

fn granted(permissions: &Value) -> Rules {
    let words = |rule: &Value, key: &str| -> Vec<String> {
        rule[key].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut granted = BTreeSet::new();
    for permission in permissions.as_array().into_iter().flatten() {
        assert_eq!(permission["serviceAccountName"], "myapp-operator");
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

#[test]
fn the_permissions_are_the_rights_of_the_operator() {
    let [mut own, mut whole] = [Rules::new(), Rules::new()];
    for right in myapp_operator::operator().rights() {
        let rules = if right.cluster { &mut whole } else { &mut own };
        let verbs = right.verbs.iter();
        rules.extend(verbs.map(|verb| (right.group.clone(), right.resource.clone(), (*verb).to_owned())));
    }
    for (version, _) in SHIPPED {
        let strategy = csv(version)["spec"]["install"]["spec"].clone();
        assert_eq!(granted(&strategy["permissions"]), own, "bundle {version}");
        assert_eq!(granted(&strategy["clusterPermissions"]), whole, "bundle {version}");
    }
}

#[test]
fn descriptors_and_examples_are_those_of_the_fields() {
    for (version, _) in SHIPPED {
        let (csv, crd) = (csv(version), crd(version));
        let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array().unwrap();
        assert_eq!(owned.len(), 1);
        assert_eq!(owned[0]["name"], crd["metadata"]["name"]);
        assert_eq!(owned[0]["kind"], crd["spec"]["names"]["kind"]);
        assert_eq!(owned[0]["version"], crd["spec"]["versions"][0]["name"]);
        for (part, unshown) in [("spec", &[][..]), ("status", &UNSHOWN[..])] {
            let described = owned[0][format!("{part}Descriptors")].as_array().unwrap().iter();
            let described = described.map(|descriptor| descriptor["path"].as_str().unwrap().to_owned());
            let known: BTreeSet<String> =
                described.chain(unshown.iter().map(|field| (*field).to_owned())).collect();
            assert_eq!(known, fields(&crd, part), "{version}: {part}");
        }
        let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
        let examples: Vec<Value> = serde_json::from_str(examples).unwrap();
        assert_eq!(examples.len(), 1);
        let set: BTreeSet<String> = examples[0]["spec"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(set, fields(&crd, "spec"), "{version}: the example shows every field");
        let app: MyApp = serde_json::from_value(examples[0].clone()).unwrap();
        assert_eq!((app.spec.replicas, app.spec.image.as_str()), (3, "myapp:latest"));
    }
}

/// The example of the newest version is that of the documents.
#[test]
fn the_example_of_the_bundle_is_the_example_file() {
    let csv = csv("0.2.0");
    let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
    let examples: Vec<Value> = serde_json::from_str(examples).unwrap();
    assert_eq!(examples[0], yaml(root().join("examples/myapp.yaml")));
}

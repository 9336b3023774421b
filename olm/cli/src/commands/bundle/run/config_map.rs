//! A catalog of one bundle in a ConfigMap, which OLM reads without an image or a server.

use std::collections::BTreeMap;

use olm_bundle::Bundle;
use serde_json::{Value, json};

use crate::exit::{Code, Failure};

pub const CHANNEL: &str = "bundle-run";

/// A ConfigMap is limited to 1 MiB including its metadata.
const LARGEST: usize = 1_000_000;

/// The data of the ConfigMap. `replaces` is the installed version.
///
/// The format contains only a ClusterServiceVersion and the CustomResourceDefinitions that it owns. A bundle
/// with other objects is refused, because it would be installed incompletely.
pub fn data(
    bundle: &Bundle,
    package: &str,
    replaces: Option<&str>,
) -> Result<BTreeMap<String, String>, Failure> {
    let owned: Vec<String> = bundle.owned_crds().into_iter().map(|crd| crd.name).collect();
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for object in &bundle.objects {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        if kind != "CustomResourceDefinition" || !owned.contains(&name) {
            return Err(too_much(bundle, &format!("{kind} {name}")));
        }
    }
    if let Some(dependency) = bundle.dependencies.first() {
        return Err(too_much(bundle, &format!("a dependency of type {}", dependency.type_)));
    }
    if let Some(property) = bundle.properties.iter().find(|property| property.type_ != "olm.package") {
        return Err(too_much(bundle, &format!("a property of type {}", property.type_)));
    }
    let mut csv = bundle.csv_raw.clone();
    if let (Some(replaces), Some(spec)) = (replaces, csv.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert("replaces".to_owned(), replaces.into());
    }
    let packages = json!([{
        "packageName": package,
        "defaultChannel": CHANNEL,
        "channels": [{"name": CHANNEL, "currentCSV": bundle.name()}],
    }]);
    // JSON is valid YAML.
    let data = BTreeMap::from([
        ("packages".to_owned(), packages.to_string()),
        ("clusterServiceVersions".to_owned(), json!([csv]).to_string()),
        ("customResourceDefinitions".to_owned(), json!(bundle.objects).to_string()),
    ]);
    let size: usize = data.values().map(String::len).sum();
    if size > LARGEST {
        let text = format!(
            "bundle {} has {size} bytes, expected at most {LARGEST} (limit of a ConfigMap)",
            bundle.name()
        );
        return Err(Failure::new(Code::Refused, text).hint(INSTEAD));
    }
    Ok(data)
}

const INSTEAD: &str =
    "serve it with `olm catalog serve BUNDLE` and add it with `olm catalog add grpc://HOST:PORT`";

fn too_much(bundle: &Bundle, what: &str) -> Failure {
    let text = format!("bundle {} has {what}, which a ConfigMap catalog does not support", bundle.name());
    Failure::new(Code::Refused, text).hint(INSTEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(objects: Vec<Value>) -> Bundle {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "demo.v2.0.0"},
            "spec": {
                "version": "2.0.0",
                "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "kind": "Demo", "version": "v1"}]},
            },
        });
        Bundle::from_objects(std::iter::once(csv).chain(objects).collect()).unwrap()
    }

    fn crd(name: &str) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}})
    }

    #[test]
    fn the_catalog_is_one_that_the_loader_reads_and_leads_from_what_is_installed() {
        let data = data(&bundle(vec![crd("demos.example.com")]), "demo", Some("demo.v1.0.0")).unwrap();
        let built =
            olm_catalog::build::from_config_map("test", &data, &olm_catalog::build::Options::default());
        let catalog = built.catalog();
        let package = catalog.package("demo").unwrap().unwrap();
        let entry =
            package.channels[CHANNEL].entries.iter().find(|entry| entry.name == "demo.v2.0.0").unwrap();
        assert_eq!(entry.replaces.as_deref(), Some("demo.v1.0.0"));
        assert_eq!(package.bundles["demo.v2.0.0"].bundle().unwrap().objects.len(), 1);
    }

    #[test]
    fn what_would_be_left_out_is_refused() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics"}});
        let failure = data(&bundle(vec![service]), "demo", None).unwrap_err();
        assert!(failure.code == Code::Refused && failure.message.contains("Service metrics"), "{failure:?}");
        assert!(data(&bundle(vec![crd("others.example.com")]), "demo", None).is_err());
        let mut large = crd("demos.example.com");
        large["spec"] = "x".repeat(LARGEST).into();
        assert!(data(&bundle(vec![large]), "demo", None).unwrap_err().message.contains("1000000"));
    }
}

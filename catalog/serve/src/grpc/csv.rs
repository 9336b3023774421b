//! The manifests of a bundle: those in the catalog, or a ClusterServiceVersion with the fields that clients
//! need, derived from `olm.csv.metadata`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use olm_catalog::{BundleEntry, Package, Property};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::bundle::version;

const KIND: &str = "ClusterServiceVersion";

#[derive(Debug, Default)]
pub(super) struct Manifests {
    /// The ClusterServiceVersion, or empty.
    pub csv: String,
    pub objects: Vec<String>,
}

/// The manifests of a bundle in the catalog. A broken one is left out; the loader has reported it.
pub(super) fn manifests(package: &Package, bundle: &BundleEntry) -> Manifests {
    let mut objects: Vec<String> = bundle.properties_of("olm.bundle.object").filter_map(object).collect();
    let inline = objects.iter().find(|object| is_csv(object)).cloned();
    let csv = inline.or_else(|| made(package, bundle)).unwrap_or_default();
    if objects.is_empty() && !csv.is_empty() {
        objects.push(csv.clone());
    }
    Manifests { csv, objects }
}

/// The manifest of a property as JSON: unchanged, or converted from YAML.
fn object(property: &Property) -> Option<String> {
    #[derive(Deserialize)]
    struct Object {
        data: String,
    }
    let encoded = property.parse::<Object>().ok()?.data;
    let bytes = STANDARD.decode(encoded.trim()).ok()?;
    if bytes.trim_ascii_start().starts_with(b"{") {
        return String::from_utf8(bytes).ok();
    }
    let mut documents = olm_bundle::yaml::documents("data", &bytes).ok()?;
    let mut value = documents.pop()?.value;
    value.sort_all_objects();
    Some(value.to_string())
}

fn is_csv(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Object {
        #[serde(default)]
        kind: String,
    }
    serde_json::from_str::<Object>(json).is_ok_and(|object| object.kind == KIND)
}

/// The fields of `olm.csv.metadata` and their keys in `spec`.
const SPEC: [(&str, &str); 12] = [
    ("maturity", "maturity"),
    ("crdDescriptions", "customresourcedefinitions"),
    ("apiServiceDefinitions", "apiservicedefinitions"),
    ("nativeAPIs", "nativeAPIs"),
    ("minKubeVersion", "minKubeVersion"),
    ("displayName", "displayName"),
    ("description", "description"),
    ("keywords", "keywords"),
    ("maintainers", "maintainers"),
    ("provider", "provider"),
    ("links", "links"),
    ("installModes", "installModes"),
];

/// Fields that Go always writes into a ClusterServiceVersion: clients in Go expect an object there.
const OBJECTS: [&str; 3] = ["customresourcedefinitions", "apiservicedefinitions", "provider"];

/// A ClusterServiceVersion for display, as `opm serve` generates it: it has no deployments. `None` unless
/// there is exactly one property `olm.csv.metadata`.
fn made(package: &Package, bundle: &BundleEntry) -> Option<String> {
    let mut properties = bundle.properties_of("olm.csv.metadata");
    let (property, None) = (properties.next()?, properties.next()) else { return None };
    let Value::Object(mut parts) = property.value() else { return None };
    let mut part = |key: &str| parts.remove(key).filter(|value| !is_empty(value));

    let mut metadata = Map::new();
    metadata.insert("name".into(), bundle.name.clone().into());
    for key in ["labels", "annotations"] {
        metadata.extend(part(key).map(|value| (key.to_owned(), value)));
    }
    let mut spec = Map::new();
    // The strategy is set because OLM's package server crashes without it.
    spec.insert("install".into(), json!({"strategy": "deployment", "spec": {"deployments": null}}));
    spec.insert("version".into(), version(bundle).into());
    for (key, place) in SPEC {
        let always = match place {
            place if OBJECTS.contains(&place) => Some(json!({})),
            "displayName" => Some("".into()),
            "description" => Some(package.description.as_str().into()).filter(|text| !is_empty(text)),
            _ => None,
        };
        spec.extend(part(key).or(always).map(|value| (place.to_owned(), value)));
    }
    if let Some(icon) = &package.icon {
        let icon = json!([{"base64data": STANDARD.encode(&icon.data), "mediatype": icon.mediatype}]);
        spec.insert("icon".into(), icon);
    }
    let images: Vec<Value> = bundle
        .related_images
        .iter()
        .map(|related| json!({"name": related.name, "image": related.image}))
        .collect();
    if !images.is_empty() {
        spec.insert("relatedImages".into(), images.into());
    }
    spec.insert("cleanup".into(), json!({"enabled": false}));
    let csv = json!({
        "kind": KIND,
        "apiVersion": "operators.coreos.com/v1alpha1",
        "metadata": metadata,
        "spec": spec,
        "status": {"cleanup": {}},
    });
    Some(csv.to_string())
}

/// Values that Go omits from JSON.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

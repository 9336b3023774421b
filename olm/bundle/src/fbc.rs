//! A bundle as the `olm.bundle` document of a file-based catalog.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::images::pulled_images;
use crate::model::Bundle;
use crate::properties::bundle_properties;

/// Form of a bundle's manifests in a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Manifests {
    /// Display metadata of the ClusterServiceVersion (`olm.csv.metadata`); the manifests are in the image.
    /// Equals the output of `opm render --migrate`.
    #[default]
    Metadata,
    /// Every manifest (`olm.bundle.object`), so that the bundle installs without its image.
    Objects,
}

/// The `olm.bundle` document of a bundle in an image, equivalent to the output of `opm render --migrate`.
/// The package is that of the bundle's annotations, `""` where it names none. An empty image is left out.
/// Properties are in upstream's order: by type and value, `olm.csv.metadata` last; related images by
/// reference.
#[must_use]
pub fn render_fbc(bundle: &Bundle, image: &str) -> Value {
    render_fbc_with(bundle, image, Manifests::Metadata)
}

/// [`render_fbc`] with a choice of the form of the manifests.
#[must_use]
pub fn render_fbc_with(bundle: &Bundle, image: &str, manifests: Manifests) -> Value {
    let package = bundle.package().unwrap_or_default();
    let mut properties: Vec<Value> =
        bundle_properties(bundle, package).into_iter().map(|property| json!(property)).collect();
    match manifests {
        // One in the author's properties.yaml takes precedence.
        Manifests::Metadata if properties.iter().any(|property| property["type"] == "olm.csv.metadata") => {}
        Manifests::Metadata => {
            properties.push(json!({"type": "olm.csv.metadata", "value": csv_metadata(bundle)}));
        }
        Manifests::Objects => {
            let objects = std::iter::once(&bundle.csv_raw).chain(&bundle.objects);
            properties.extend(objects.map(|object| {
                let mut object = object.clone();
                object.sort_all_objects();
                json!({"type": "olm.bundle.object", "value": {"data": STANDARD.encode(object.to_string())}})
            }));
        }
    }
    let mut document = json!({"schema": "olm.bundle", "name": bundle.name(), "package": package});
    if !image.is_empty() {
        document["image"] = image.into();
    }
    document["properties"] = properties.into();
    let related = related_images(bundle, image);
    if !related.is_empty() {
        document["relatedImages"] = related.into();
    }
    document
}

/// The value of `olm.csv.metadata`: display metadata of a ClusterServiceVersion, without empty fields.
#[must_use]
pub fn csv_metadata(bundle: &Bundle) -> Value {
    let (metadata, spec) = (&bundle.csv.metadata, &bundle.csv.spec);
    // Go matches fields case-insensitively; real bundles have `MinKubeVersion`.
    let raw = bundle.csv_raw.get("spec").and_then(Value::as_object);
    let text = |name: &str| {
        let any_case = || raw?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        raw.and_then(|spec| spec.get(name)).or_else(any_case).and_then(Value::as_str).unwrap_or_default()
    };
    let fields = [
        ("annotations", json!(metadata.annotations)),
        ("apiServiceDefinitions", json!(spec.api_service_definitions.clone().unwrap_or_default())),
        ("crdDescriptions", json!(spec.custom_resource_definitions.clone().unwrap_or_default())),
        ("description", json!(text("description"))),
        ("displayName", json!(text("displayName"))),
        // As written: an unknown mode keeps its name.
        ("installModes", json!(bundle.list("/spec/installModes"))),
        ("keywords", json!(spec.keywords)),
        ("labels", json!(metadata.labels)),
        ("links", json!(spec.links)),
        ("maintainers", json!(spec.maintainers)),
        ("maturity", json!(text("maturity"))),
        ("minKubeVersion", json!(text("minKubeVersion"))),
        ("nativeAPIs", json!(spec.native_apis)),
        ("provider", json!(spec.provider.clone().unwrap_or_default())),
    ];
    // Go omits empty texts, lists and maps, but never structures.
    let structures = ["apiServiceDefinitions", "crdDescriptions", "provider"];
    let kept = fields.into_iter().filter(|(key, value)| structures.contains(key) || !is_empty(value));
    Value::Object(kept.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Every image that the operator needs, by reference: the author's list, the bundle itself, and the images of
/// its pods.
#[must_use]
pub fn related_images(bundle: &Bundle, image: &str) -> Vec<Value> {
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let listed = bundle.list("/spec/relatedImages").iter();
    let mut images: Vec<(String, String)> =
        listed.map(|related| (text(related, "image"), text(related, "name"))).collect();
    let mut known: BTreeSet<String> = images.iter().map(|(image, _)| image.clone()).collect();
    let pods = bundle.deployments().iter().filter_map(|deployment| deployment.pointer("/spec/template/spec"));
    let pulled = pods.flat_map(pulled_images).map(str::to_owned);
    for image in std::iter::once(image.to_owned()).chain(pulled).filter(|image| !image.is_empty()) {
        if known.insert(image.clone()) {
            images.push((image, String::new()));
        }
    }
    images.sort();
    images.into_iter().map(|(image, name)| json!({"name": name, "image": image})).collect()
}

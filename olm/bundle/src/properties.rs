//! The properties that a catalog lists for a bundle.

use olm_constraint::Gvk;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fields::{self, Shape};
use crate::model::{Bundle, Property};

/// A property in metadata and catalogs.
pub(crate) static PROPERTY: Shape = Shape(&[("type", None), ("value", None)]);

/// A required package with a version range (`olm.package.required`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageRequirement {
    pub package_name: String,
    /// Range as written, in blang's grammar.
    pub version_range: String,
}

/// The properties that a catalog lists for a bundle of `package`, sorted by type and value: what the bundle
/// provides and requires, and the author's `properties.yaml`, `dependencies.yaml` and annotation
/// `olm.properties`. Manifests and metadata of the ClusterServiceVersion are not among them.
#[must_use]
pub fn bundle_properties(bundle: &Bundle, package: &str) -> Vec<Property> {
    let mut properties = bundle.properties.clone();
    properties.extend(annotated(bundle));
    properties.extend(bundle.dependencies.iter().map(requirement));
    if !properties.iter().any(|property| property.type_ == "olm.package") {
        let mut value = json!({"packageName": package, "version": bundle.version_text().unwrap_or_default()});
        if let Some(release) = bundle.release() {
            value["release"] = release.into();
        }
        properties.push(property("olm.package", value));
    }
    properties.extend(bundle.provided_gvks().into_iter().map(|gvk| property("olm.gvk", json!(gvk))));
    properties.extend(bundle.required_gvks().into_iter().map(|gvk| property("olm.gvk.required", json!(gvk))));

    properties.sort_by_cached_key(|property| {
        let mut value = property.value.clone();
        value.sort_all_objects();
        (property.type_.clone(), value.to_string())
    });
    properties.dedup();
    properties
}

impl Bundle {
    /// The APIs that it provides: every version of its CustomResourceDefinitions, and its aggregated APIs.
    #[must_use]
    pub fn provided_gvks(&self) -> Vec<Gvk> {
        let crds = self.crds().flat_map(|crd| {
            let text =
                |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
            versions(crd).into_iter().map(move |version| Gvk {
                group: group.clone(),
                version: version.to_owned(),
                kind: kind.clone(),
            })
        });
        let mut gvks: Vec<Gvk> = crds.chain(self.owned_api_services().iter().map(api_service)).collect();
        gvks.sort();
        gvks.dedup();
        gvks
    }

    /// The APIs that it requires from other operators.
    #[must_use]
    pub fn required_gvks(&self) -> Vec<Gvk> {
        let crds = self.required_crds().into_iter().map(|crd| Gvk {
            group: crd.group,
            version: crd.version,
            kind: crd.kind,
        });
        let services = self.list("/spec/apiservicedefinitions/required").iter().map(api_service);
        let mut gvks: Vec<Gvk> = crds.chain(services).collect();
        gvks.sort();
        gvks.dedup();
        gvks
    }
}

/// The version names of a CustomResourceDefinition, of both its API versions.
pub(crate) fn versions(crd: &Value) -> Vec<&str> {
    let listed = crd.pointer("/spec/versions").and_then(Value::as_array);
    let mut names: Vec<&str> = listed
        .into_iter()
        .flatten()
        .filter_map(|version| version.get("name").and_then(Value::as_str))
        .collect();
    if let Some(single) = crd.pointer("/spec/version").and_then(Value::as_str).filter(|name| !name.is_empty())
        && !names.contains(&single)
    {
        names.push(single);
    }
    names
}

pub(crate) fn api_service(description: &Value) -> Gvk {
    let text = |field: &str| description.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Gvk { group: text("group"), version: text("version"), kind: text("kind") }
}

/// The annotation `olm.properties` of the ClusterServiceVersion; an invalid one is a finding.
fn annotated(bundle: &Bundle) -> Vec<Property> {
    let text = bundle.csv_annotation("olm.properties").unwrap_or("[]");
    let mut listed: Value = serde_json::from_str(text).unwrap_or_default();
    match fields::rename(&mut listed, &PROPERTY) {
        Ok(()) => serde_json::from_value(listed).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// Converts a dependency to its property.
fn requirement(dependency: &Property) -> Property {
    let value = &dependency.value;
    match dependency.type_.as_str() {
        "olm.package" => property(
            "olm.package.required",
            json!({"packageName": value.get("packageName"), "versionRange": value.get("version")}),
        ),
        "olm.gvk" => property("olm.gvk.required", value.clone()),
        "olm.label" => property("olm.label.required", value.clone()),
        other => property(other, value.clone()),
    }
}

fn property(type_: &str, value: Value) -> Property {
    Property { type_: type_.to_owned(), value }
}

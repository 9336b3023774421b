//! Installed operators for the resolver.

use olm_api::names;
use olm_resolver::{Constraint, Gvk, Installed, Property};
use olm_version::Version;
use serde_json::Value;

use crate::universe::Demands;

/// Converts an installed ClusterServiceVersion. The package comes from the component label, or from the
/// properties that a catalog projected onto it.
pub fn installed_of(csv: &Value, subscription: Option<&str>) -> Installed {
    let text = |pointer: &str| csv.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    let mut installed = Installed {
        name: text("/metadata/name").to_owned(),
        namespace: namespace.to_owned(),
        version: Version::parse(text("/spec/version")).ok(),
        subscription: subscription.map(str::to_owned),
        provides: apis(csv, "owned"),
        ..Installed::default()
    };
    let labels = csv.pointer("/metadata/labels").and_then(Value::as_object);
    let components = labels.into_iter().flat_map(|l| l.keys());
    let suffix = format!(".{namespace}");
    installed.package = components
        .filter_map(|key| key.strip_prefix(names::LABEL_COMPONENT_PREFIX)?.strip_suffix(suffix.as_str()))
        .map(str::to_owned)
        .next();
    let annotation = |key: &str| csv.pointer("/metadata/annotations")?.get(key)?.as_str();
    let projected = annotation(names::ANNOTATION_PROJECTED_PROPERTIES)
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .and_then(|v| v.get("properties").cloned());
    let own =
        annotation(names::ANNOTATION_PROPERTIES).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut demands = Demands::new();
    demands.requires = apis(csv, "required").into_iter().map(Constraint::api).collect();
    for property in [projected, own].iter().flatten().filter_map(Value::as_array).flatten() {
        let (Some(kind), value) = (property["type"].as_str(), &property["value"]) else { continue };
        if kind == "olm.package" && installed.package.is_none() {
            installed.package = value["packageName"].as_str().map(str::to_owned);
        }
        // an unreadable property does not block: the operator is already installed
        demands.take(kind, value);
        installed.properties.push(Property::new(kind, value));
    }
    installed.requires = demands.requires;
    installed.labels = demands.labels;
    installed
}

fn apis(csv: &Value, key: &str) -> Vec<Gvk> {
    let list = |section: &str| csv.pointer(&format!("/spec/{section}/{key}")).and_then(Value::as_array);
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    let crds = list("customresourcedefinitions").into_iter().flatten().map(|v| Gvk {
        group: text(v, "name").split_once('.').map_or(String::new(), |(_, group)| group.to_owned()),
        version: text(v, "version"),
        kind: text(v, "kind"),
    });
    let services = list("apiservicedefinitions").into_iter().flatten().map(|v| Gvk {
        group: text(v, "group"),
        version: text(v, "version"),
        kind: text(v, "kind"),
    });
    let mut all: Vec<Gvk> = crds.chain(services).collect();
    all.sort();
    all.dedup();
    all
}

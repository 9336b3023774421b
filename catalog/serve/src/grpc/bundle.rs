//! A bundle as a message.

use olm_bundle::{Gvk, PackageRequirement};
use olm_catalog::{BundleEntry, Channel, ChannelEntry, Package};
use olm_registry_api::{Bundle, Dependency, Deprecation, GroupVersionKind, Property};
use serde::Deserialize;
use serde_json::json;

use super::csv;

/// The kind of answer that a bundle is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// In a list: with its edges, and without manifests where they are in an image.
    List,
    /// Alone: with manifests, and without its edges.
    Single,
}

/// Properties that are not sent: the first is in `object`, the second in `csvJson`. Clients copy properties
/// into annotations of the objects that they install, which must stay small.
const LEFT_OUT: [&str; 2] = ["olm.bundle.object", "olm.csv.metadata"];

/// A bundle as an entry of a channel.
pub(super) fn message(
    package: &Package,
    channel: &Channel,
    entry: &ChannelEntry,
    bundle: &BundleEntry,
    purpose: Purpose,
) -> Bundle {
    let image = bundle.image.clone().unwrap_or_default();
    let manifests = match purpose {
        Purpose::List if !image.is_empty() => csv::Manifests::default(),
        _ => csv::manifests(package, bundle),
    };
    let (replaces, skips) = match purpose {
        Purpose::List => (entry.replaces.clone().unwrap_or_default(), entry.skips.clone()),
        Purpose::Single => (String::new(), Vec::new()),
    };
    let sent = bundle.properties.iter().filter(|property| !LEFT_OUT.contains(&property.type_.as_str()));
    let properties = sent.map(|p| Property { r#type: p.type_.clone(), value: p.json().to_owned() });
    Bundle {
        csv_name: bundle.name.clone(),
        package_name: package.name.clone(),
        channel_name: channel.name.clone(),
        csv_json: manifests.csv,
        object: manifests.objects,
        bundle_path: image,
        provided_apis: bundle.provided_gvks().into_iter().map(api).collect(),
        required_apis: bundle.required_gvks().into_iter().map(api).collect(),
        version: version(bundle),
        skip_range: entry.skip_range.clone().unwrap_or_default(),
        dependencies: dependencies(bundle),
        properties: properties.collect(),
        replaces,
        skips,
        deprecation: bundle.deprecated.clone().map(|message| Deprecation { message }),
    }
}

fn api(gvk: Gvk) -> GroupVersionKind {
    GroupVersionKind { group: gvk.group, version: gvk.version, kind: gvk.kind, plural: String::new() }
}

/// The version as in the catalog; empty when it has none.
pub(super) fn version(bundle: &BundleEntry) -> String {
    #[derive(Deserialize)]
    struct PackageProperty {
        version: String,
    }
    let property =
        bundle.property("olm.package").and_then(|property| property.parse::<PackageProperty>().ok());
    property.map(|property| property.version).unwrap_or_default()
}

/// Requirements in the older form: an API unchanged, a package with its range as the version.
fn dependencies(bundle: &BundleEntry) -> Vec<Dependency> {
    let mut dependencies = Vec::new();
    for property in &bundle.properties {
        let dependency = match property.type_.as_str() {
            "olm.gvk.required" => Some(("olm.gvk", property.json().to_owned())),
            "olm.package.required" => property.parse::<PackageRequirement>().ok().map(|required| {
                let value = json!({"packageName": required.package_name, "version": required.version_range});
                ("olm.package", value.to_string())
            }),
            _ => None,
        };
        if let Some((type_, value)) = dependency {
            dependencies.push(Dependency { r#type: type_.to_owned(), value });
        }
    }
    dependencies
}

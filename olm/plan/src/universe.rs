//! Converts catalogs to the resolver's universe.

use std::sync::Arc;

use olm_catalog::BundleEntry;
use olm_resolver::{
    Bundle, Catalog, CatalogRef, Channel, Constraint, Entry, Gvk, Health, Package, Property, Range, Universe,
    Version,
};
use olm_version::parse_lenient;
use serde::Deserialize;

/// The universe of the relevant packages of each catalog. Catalogs have priority 0 and are healthy; see
/// [`Universe::set_priority`] and [`Universe::set_unavailable`].
pub fn universe_of(catalogs: &[(CatalogRef, Vec<Arc<olm_catalog::Package>>)]) -> Universe {
    Universe::new(catalogs.iter().map(|(id, packages)| {
        let packages = packages.iter().map(|package| (package.name.clone(), Arc::new(prepare(package))));
        (id.clone(), Catalog { priority: 0, health: Health::Ready, packages: packages.collect() })
    }))
}

/// Converts a package of a catalog. The result depends on nothing else, so it can be cached as long as the
/// package does not change.
pub fn prepare(package: &olm_catalog::Package) -> Package {
    Package::new(
        &package.name,
        &package.default_channel,
        package.deprecated.clone(),
        package.channels.values().map(channel_of).collect(),
        package.bundles.values().map(bundle_of).collect(),
    )
}

fn channel_of(channel: &olm_catalog::Channel) -> Channel {
    let entries = channel.entries.iter().map(|entry| Entry {
        name: entry.name.clone(),
        replaces: entry.replaces.clone(),
        skips: entry.skips.clone(),
        // an invalid range leads nowhere, as upstream; the catalog loader reports it
        skip_range: entry.skip_range.as_deref().and_then(|text| Range::parse(text).ok()),
    });
    Channel { name: channel.name.clone(), deprecated: channel.deprecated.clone(), entries: entries.collect() }
}

/// The relevant part of `olm.csv.metadata`, which is large.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    min_kube_version: Option<String>,
}

/// Demands of a bundle or an operator, from type and value of each property.
pub(crate) struct Demands {
    pub(crate) requires: Vec<Constraint>,
    pub(crate) labels: Vec<String>,
    pub(crate) unreadable: Option<String>,
}

impl Demands {
    pub(crate) fn new() -> Self {
        Self { requires: Vec::new(), labels: Vec::new(), unreadable: None }
    }

    /// Adds a property that is a demand or can be demanded.
    pub(crate) fn take(&mut self, kind: &str, value: &serde_json::Value) {
        let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str);
        match kind {
            "olm.gvk.required" => {
                if let (Some(group), Some(version), Some(kind)) =
                    (text("group"), text("version"), text("kind"))
                {
                    self.requires.push(Constraint::api(Gvk::new(group, version, kind)));
                }
            }
            "olm.package.required" => {
                let package = text("packageName").unwrap_or_default();
                // OLM's older name of the field still exists on installed operators
                let range = text("versionRange").or_else(|| text("version")).unwrap_or_default();
                match Range::parse(range) {
                    Ok(range) => self.requires.push(Constraint::package(package, range)),
                    Err(error) => {
                        self.unreadable =
                            Some(format!("invalid version range of required package {package} ({error})"));
                    }
                }
            }
            "olm.constraint" => match Constraint::parse(value) {
                Ok(constraint) => self.requires.push(constraint),
                Err(error) => {
                    self.unreadable = Some(format!("failed to evaluate its olm.constraint: {error}"));
                }
            },
            "olm.label.required" => self.requires.extend(text("label").map(Constraint::label)),
            "olm.label" => self.labels.extend(text("label").map(str::to_owned)),
            _ => {}
        }
    }
}

/// Large properties that no expression of a real bundle uses. OLM passes these to expressions too.
const HEAVY: [&str; 2] = ["olm.csv.metadata", "olm.bundle.object"];

/// Converts one bundle of a catalog.
pub fn bundle_of(entry: &BundleEntry) -> Bundle {
    let mut demands = Demands::new();
    let mut properties = Vec::new();
    for property in entry.properties.iter().filter(|property| !HEAVY.contains(&property.type_.as_str())) {
        let value = property.value();
        demands.take(&property.type_, &value);
        properties.push(Property::from_json(property.type_.as_str(), property.json()));
    }
    let gvk = |g: olm_bundle::Gvk| Gvk { group: g.group, version: g.version, kind: g.kind };
    Bundle {
        name: entry.name.clone(),
        version: entry.version.clone(),
        provides: entry.provided_gvks().into_iter().map(gvk).collect(),
        requires: demands.requires,
        labels: demands.labels,
        properties,
        deprecated: entry.deprecated.clone(),
        prohibited: entry.property("olm.deprecated").is_some(),
        min_kube_version: min_kube_version(entry),
        max_openshift_version: entry
            .property("olm.maxOpenShiftVersion")
            .and_then(|p| p.value().as_str().and_then(|text| parse_lenient(text).ok())),
        unsupported: demands.unreadable,
    }
}

fn min_kube_version(entry: &BundleEntry) -> Option<Version> {
    let metadata = entry.property("olm.csv.metadata")?;
    // most do not have it, and a text search is faster than parsing
    if !metadata.json().contains("\"minKubeVersion\"") {
        return None;
    }
    parse_lenient(&metadata.parse::<Metadata>().ok()?.min_kube_version?).ok()
}

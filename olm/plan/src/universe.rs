//! From catalogs to what the resolver chooses from.

use std::collections::BTreeSet;
use std::sync::Arc;

use olm_catalog::BundleEntry;
use olm_resolver::{
    AnyNeed, Bundle, Catalog, CatalogRef, Channel, Entry, Gvk, Health, Package, PackageNeed, Range, Universe,
};
use olm_version::parse_lenient;
use serde::Deserialize;

/// What the resolver chooses from: the packages that matter, of each catalog. Catalogs have priority 0 and are healthy;
/// see [`Universe::set_priority`] and [`Universe::set_unavailable`].
pub fn universe_of(catalogs: &[(CatalogRef, Vec<Arc<olm_catalog::Package>>)]) -> Universe {
    Universe::new(catalogs.iter().map(|(id, packages)| {
        let packages = packages.iter().map(|package| (package.name.clone(), package_of(package))).collect();
        (id.clone(), Catalog { priority: 0, health: Health::Ready, packages })
    }))
}

/// What the bundles of a package may need: names of packages, and APIs that a package may provide.
pub fn needs_of(package: &olm_catalog::Package) -> (BTreeSet<String>, BTreeSet<Gvk>) {
    let (mut packages, mut apis) = (BTreeSet::new(), BTreeSet::new());
    for bundle in package_of(package).bundles.into_values() {
        packages.extend(bundle.requires_packages.into_iter().map(|need| need.package));
        apis.extend(bundle.requires_apis);
        for choice in bundle.requires_any {
            packages.extend(choice.packages.into_iter().map(|need| need.package));
            apis.extend(choice.apis);
        }
    }
    (packages, apis)
}

fn package_of(package: &olm_catalog::Package) -> Package {
    Package {
        name: package.name.clone(),
        default_channel: package.default_channel.clone(),
        deprecated: package.deprecated.clone(),
        channels: package
            .channels
            .iter()
            .map(|(name, channel)| (name.clone(), channel_of(channel)))
            .collect(),
        bundles: package.bundles.iter().map(|(name, bundle)| (name.clone(), bundle_of(bundle))).collect(),
    }
}

fn channel_of(channel: &olm_catalog::Channel) -> Channel {
    let entries = channel.entries.iter().map(|entry| Entry {
        name: entry.name.clone(),
        replaces: entry.replaces.clone(),
        skips: entry.skips.clone(),
        // a range that does not parse leads nowhere, as upstream has it; the catalog loader reports it
        skip_range: entry.skip_range.as_deref().and_then(|text| Range::parse(text).ok()),
    });
    Channel { name: channel.name.clone(), deprecated: channel.deprecated.clone(), entries: entries.collect() }
}

/// The part of `olm.csv.metadata` that decides; the rest of it is large.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    min_kube_version: Option<String>,
}

/// One bundle of a catalog as the resolver sees it.
pub fn bundle_of(entry: &BundleEntry) -> Bundle {
    let gvk = |g: olm_bundle::Gvk| Gvk { group: g.group, version: g.version, kind: g.kind };
    let mut bundle = Bundle {
        name: entry.name.clone(),
        version: entry.version.clone(),
        provides: entry.provided_gvks().into_iter().map(gvk).collect(),
        requires_apis: entry.required_gvks().into_iter().map(gvk).collect(),
        deprecated: entry.deprecated.clone(),
        prohibited: entry.property("olm.deprecated").is_some(),
        ..Bundle::default()
    };
    for need in entry.required_packages() {
        match Range::parse(&need.version_range) {
            Ok(range) => bundle.requires_packages.push(PackageNeed { package: need.package_name, range }),
            Err(error) => {
                bundle.unsupported = Some(format!(
                    "it requires package {} in a range that cannot be read ({error})",
                    need.package_name
                ));
            }
        }
    }
    for property in entry.properties_of("olm.constraint") {
        let constraint = property.parse::<Constraint>();
        if let Err(text) = constraint.map_err(|e| e.to_string()).and_then(|c| c.add_to(&mut bundle)) {
            bundle.unsupported = Some(format!("its olm.constraint cannot be evaluated: {text}"));
        }
    }
    if entry.property("olm.label.required").is_some() {
        bundle.unsupported = Some("it has an olm.label.required, which is not supported yet".to_owned());
    }
    bundle.min_kube_version = entry
        .property("olm.csv.metadata")
        .and_then(|p| p.parse::<Metadata>().ok())
        .and_then(|m| m.min_kube_version)
        .and_then(|text| parse_lenient(&text).ok());
    bundle
}

/// An `olm.constraint`. A key that is not known is an error, as upstream has it: a condition that is overlooked would
/// be a bundle installed where it must not be.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Constraint {
    #[serde(default)]
    failure_message: Option<String>,
    package: Option<olm_bundle::PackageRequirement>,
    gvk: Option<olm_bundle::Gvk>,
    any: Option<Several>,
    all: Option<Several>,
    not: Option<serde_json::Value>,
    cel: Option<serde_json::Value>,
}

#[derive(Deserialize)]
pub(crate) struct Several {
    constraints: Vec<Constraint>,
}

impl Constraint {
    /// Turns the constraint into needs of the bundle; `not`, `cel` and nested choices cannot be said that way yet.
    pub(crate) fn add_to(self, bundle: &mut Bundle) -> Result<(), String> {
        if self.not.is_some() || self.cel.is_some() {
            return Err("`not` and `cel` are not supported yet".to_owned());
        }
        if let Some(need) = self.package {
            bundle.requires_packages.push(package_need(need)?);
        }
        if let Some(gvk) = self.gvk {
            bundle.requires_apis.push(Gvk::new(gvk.group, gvk.version, gvk.kind));
        }
        for constraint in self.all.into_iter().flat_map(|all| all.constraints) {
            constraint.add_to(bundle)?;
        }
        if let Some(any) = self.any {
            let mut choice = AnyNeed { message: self.failure_message, ..AnyNeed::default() };
            for option in any.constraints {
                match (option.package, option.gvk) {
                    (Some(need), None) => choice.packages.push(package_need(need)?),
                    (None, Some(gvk)) => choice.apis.push(Gvk::new(gvk.group, gvk.version, gvk.kind)),
                    _ => {
                        return Err(
                            "a choice between anything but packages and APIs is not supported yet".to_owned()
                        );
                    }
                }
            }
            bundle.requires_any.push(choice);
        }
        Ok(())
    }
}

fn package_need(need: olm_bundle::PackageRequirement) -> Result<PackageNeed, String> {
    let range =
        Range::parse(&need.version_range).map_err(|e| format!("package {}: {e}", need.package_name))?;
    Ok(PackageNeed { package: need.package_name, range })
}

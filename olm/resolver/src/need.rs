//! What bundles need, and who could provide it in which order of preference.

use std::collections::BTreeSet;

use olm_version::Version;

use crate::exclude::{Context, Excluded};
use crate::facts::Installed;
use crate::graph;
use crate::resolution::{Need, SatisfiedBy};
use crate::universe::{AnyNeed, Bundle, CatalogRef, Gvk, Package, PackageNeed};

/// A bundle with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) catalog: &'a CatalogRef,
    pub(crate) package: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) bundle: &'a Bundle,
}

impl Place<'_> {
    /// What makes a bundle the same one: the channel does not.
    pub(crate) fn key(&self) -> (&CatalogRef, &str, &str) {
        (self.catalog, self.package, self.bundle.name.as_str())
    }
}

/// One thing that is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NeedRef<'a> {
    Api(&'a Gvk),
    Package(&'a PackageNeed),
    Any(&'a AnyNeed),
}

impl NeedRef<'_> {
    pub(crate) fn to_need(self) -> Need {
        let package =
            |p: &PackageNeed| Need::Package { name: p.package.clone(), range: p.range.source().to_owned() };
        match self {
            Self::Api(gvk) => Need::Api(gvk.clone()),
            Self::Package(need) => package(need),
            Self::Any(any) => Need::Any(
                any.apis.iter().cloned().map(Need::Api).chain(any.packages.iter().map(package)).collect(),
            ),
        }
    }

    /// Whether something with these properties meets it.
    pub(crate) fn met_by(self, package: Option<&str>, version: Option<&Version>, provides: &[Gvk]) -> bool {
        let by_package = |need: &PackageNeed| {
            package == Some(need.package.as_str()) && version.is_some_and(|v| need.range.contains(v))
        };
        match self {
            Self::Api(gvk) => provides.contains(gvk),
            Self::Package(need) => by_package(need),
            Self::Any(any) => {
                any.apis.iter().any(|gvk| provides.contains(gvk)) || any.packages.iter().any(by_package)
            }
        }
    }

    fn apis(&self) -> &[Gvk] {
        match self {
            Self::Api(gvk) => std::slice::from_ref(*gvk),
            Self::Package(_) => &[],
            Self::Any(any) => &any.apis,
        }
    }

    fn packages(&self) -> &[PackageNeed] {
        match self {
            Self::Api(_) => &[],
            Self::Package(need) => std::slice::from_ref(*need),
            Self::Any(any) => &any.packages,
        }
    }
}

/// What a bundle needs of others. What it provides itself is not among it.
pub(crate) fn needs_of<'a>(package: &str, bundle: &'a Bundle) -> Vec<NeedRef<'a>> {
    let needs = bundle
        .requires_apis
        .iter()
        .map(NeedRef::Api)
        .chain(bundle.requires_packages.iter().map(NeedRef::Package))
        .chain(bundle.requires_any.iter().map(NeedRef::Any));
    sorted(needs.filter(|need| !need.met_by(Some(package), bundle.version.as_ref(), &bundle.provides)))
}

/// What an installed operator needs of others.
pub(crate) fn needs_of_installed(installed: &Installed) -> Vec<NeedRef<'_>> {
    let needs = installed
        .requires_apis
        .iter()
        .map(NeedRef::Api)
        .chain(installed.requires_packages.iter().map(NeedRef::Package))
        .chain(installed.requires_any.iter().map(NeedRef::Any));
    sorted(
        needs.filter(|n| {
            !n.met_by(installed.package.as_deref(), installed.version.as_ref(), &installed.provides)
        }),
    )
}

/// The order in which authors list needs decides nothing.
fn sorted<'a>(needs: impl Iterator<Item = NeedRef<'a>>) -> Vec<NeedRef<'a>> {
    let mut list: Vec<NeedRef<'a>> = needs.collect();
    list.sort_by_cached_key(|need| need.to_need());
    list
}

impl<'a> Context<'a> {
    /// What meets the need already and will not change: an operator that no request is about, or an API of the cluster.
    pub(crate) fn present(&self, need: NeedRef<'_>) -> Option<SatisfiedBy> {
        let fixed =
            self.fixed.iter().find(|i| need.met_by(i.package.as_deref(), i.version.as_ref(), &i.provides));
        if let Some(installed) = fixed {
            return Some(SatisfiedBy::Installed {
                name: installed.name.clone(),
                namespace: installed.namespace.clone(),
            });
        }
        // an API of an operator that a request is about may go with its next version: that is for the solver
        let moving = |gvk: &Gvk| self.tied.iter().flatten().any(|i| i.provides.contains(gvk));
        let served = need.apis().iter().find_map(|gvk| self.facts.apis.get(gvk).filter(|_| !moving(gvk)));
        served.map(|fact| SatisfiedBy::Cluster { owner: fact.owner.clone() })
    }

    /// Bundles that could meet the need, best first, each with the reason why it cannot be used after all.
    ///
    /// The order is OLM's: the catalog of the bundle that needs it, then priority, own namespace, name; in a catalog the
    /// default channel, then package and channel by name; in a channel from its head on.
    pub(crate) fn providers(
        &self,
        need: NeedRef<'_>,
        parent: &CatalogRef,
    ) -> Vec<(Place<'a>, Option<Excluded>)> {
        let mut sources: BTreeSet<(&'a CatalogRef, &'a str)> = BTreeSet::new();
        for gvk in need.apis() {
            sources.extend(
                self.universe.providers_of(gvk).map(|(catalog, package)| (catalog, package.as_str())),
            );
        }
        for wanted in need.packages() {
            for (id, catalog) in self.universe.catalogs() {
                sources.extend(
                    catalog.packages.get_key_value(&wanted.package).map(|(name, _)| (id, name.as_str())),
                );
            }
        }
        let mut catalogs: Vec<&CatalogRef> = sources.iter().map(|(catalog, _)| *catalog).collect();
        catalogs.dedup();
        catalogs.sort_by_key(|id| {
            let priority = self.universe.catalog(id).map_or(0, |c| c.priority);
            let own = self.namespaces.contains(&id.namespace.as_str());
            (*id != parent, std::cmp::Reverse(priority), !own, &id.name, &id.namespace)
        });
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for catalog in catalogs {
            let packages = sources
                .iter()
                .filter(|(c, _)| *c == catalog)
                .filter_map(|(c, name)| self.universe.package(c, name).map(|package| (*c, package)));
            let mut channels: Vec<(&'a CatalogRef, &'a Package, &'a str)> = packages
                .flat_map(|(c, package)| {
                    package.channels.keys().map(move |channel| (c, package, channel.as_str()))
                })
                .collect();
            channels.sort_by_key(|(_, package, channel)| {
                (*channel != package.default_channel, &package.name, *channel)
            });
            for (catalog, package, channel) in channels {
                for place in ordered_places(catalog, package, channel) {
                    let version = place.bundle.version.as_ref();
                    if need.met_by(Some(place.package), version, &place.bundle.provides)
                        && seen.insert((catalog, place.package, place.bundle.name.as_str()))
                    {
                        found.push((place, self.excluded(&place)));
                    }
                }
            }
        }
        found
    }
}

/// The bundles of a channel from its head on; none when the channel has no order.
pub(crate) fn ordered_places<'a>(
    catalog: &'a CatalogRef,
    package: &'a Package,
    channel: &str,
) -> Vec<Place<'a>> {
    let Some(channel) = package.channels.get(channel) else { return Vec::new() };
    let entries = graph::order(&package.name, channel).unwrap_or_default();
    let place = |bundle| Place { catalog, package: &package.name, channel: &channel.name, bundle };
    entries.into_iter().filter_map(|e| package.bundles.get(&e.name)).map(place).collect()
}

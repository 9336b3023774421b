//! Requirements of bundles, and their providers in order of preference.

use std::collections::{BTreeSet, HashSet};

use olm_constraint::{Constraint, Rule};

use crate::bundle::{CatalogRef, Channel};
use crate::context::Context;
use crate::exclude::Excluded;
use crate::package::Package;
use crate::place::{Place, ordered_places};
use crate::resolution::Need;

/// A requirement for display.
pub(crate) fn to_need(constraint: &Constraint) -> Need {
    match &constraint.rule {
        Rule::Api(gvk) => Need::Api(gvk.clone()),
        Rule::Package { name, range } => {
            Need::Package { name: name.clone(), range: range.source().to_owned() }
        }
        _ => Need::Other(constraint.to_string()),
    }
}

impl<'a> Context<'a> {
    /// Packages that could have a bundle that meets the requirement.
    pub(crate) fn sources(&self, need: &Constraint) -> BTreeSet<(&'a CatalogRef, &'a str)> {
        let mut sources: BTreeSet<(&'a CatalogRef, &'a str)> = BTreeSet::new();
        let catalogs = self.universe.catalogs();
        let Some(keys) = need.keys() else {
            for (id, catalog) in catalogs {
                sources.extend(catalog.packages.keys().map(|name| (id, name.as_str())));
            }
            return sources;
        };
        for gvk in keys.apis {
            for (id, package) in self.universe.providers_of(gvk) {
                // the universe's own copies, so that one bundle has one address
                let known = catalogs.get_key_value(id);
                let known = known.and_then(|(id, c)| Some((id, c.packages.get_key_value(package)?.0)));
                sources.extend(known.map(|(id, name)| (id, name.as_str())));
            }
        }
        for wanted in keys.packages {
            for (id, catalog) in catalogs {
                let found = catalog.packages.get_key_value(wanted);
                sources.extend(found.map(|(name, _)| (id, name.as_str())));
            }
        }
        sources
    }

    /// Bundles that could meet the requirement, best first, each with the reason if it is excluded.
    /// The order is OLM's: the catalog of the dependent bundle, then priority, own namespace, name; in a
    /// catalog the default channel, then package and channel by name; in a channel from its head on.
    pub(crate) fn providers(
        &self,
        need: &Constraint,
        parent: &CatalogRef,
    ) -> Vec<(Place<'a>, Option<Excluded>)> {
        let sources = self.sources(need);
        let mut catalogs: Vec<&CatalogRef> = sources.iter().map(|(catalog, _)| *catalog).collect();
        catalogs.dedup();
        catalogs.sort_by_key(|id| {
            let priority = self.universe.catalog(id).map_or(0, |c| c.priority);
            let own = self.namespace == id.namespace;
            (*id != parent, std::cmp::Reverse(priority), !own, &id.name, &id.namespace)
        });
        let mut found = Vec::new();
        let (mut seen, mut ruled_out) = (HashSet::new(), HashSet::new());
        for catalog in catalogs {
            let packages = sources
                .iter()
                .filter(|(c, _)| *c == catalog)
                .filter_map(|(c, name)| self.universe.package(c, name).map(|package| (*c, package)));
            let mut channels: Vec<(&'a CatalogRef, &'a Package, &'a Channel)> = packages
                .flat_map(|(c, package)| package.channels().iter().map(move |channel| (c, package, channel)))
                .collect();
            channels.sort_by_key(|(_, package, channel)| {
                (channel.name != package.default_channel, &package.name, &channel.name)
            });
            for (catalog, package, channel) in channels {
                for place in ordered_places(catalog, package, channel) {
                    let key = (catalog, place.package, place.bundle.name.as_str());
                    if !need.met_by(&place.bundle.subject(place.package)) || seen.contains(&key) {
                        continue;
                    }
                    match self.excluded_as_dependency(&place) {
                        // a policy may allow it in another channel
                        Some(reason) if ruled_out.insert(key) => found.push((place, Some(reason))),
                        Some(_) => {}
                        None => {
                            seen.insert(key);
                            found.push((place, None));
                        }
                    }
                }
            }
        }
        found.retain(|(place, excluded)| excluded.is_none() || !seen.contains(&place.key()));
        found
    }
}

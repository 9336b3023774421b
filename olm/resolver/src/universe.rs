//! The universe of catalogs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use olm_constraint::Gvk;
use serde::{Deserialize, Serialize};

use crate::bundle::CatalogRef;
use crate::package::Package;

/// Everything that can be chosen.
#[derive(Clone, Debug, Default)]
pub struct Universe {
    catalogs: BTreeMap<CatalogRef, Catalog>,
    /// Packages that provide an API; computed for the first dependency.
    providers: OnceLock<Providers>,
}

type Providers = HashMap<Gvk, BTreeSet<(CatalogRef, String)>>;

impl Universe {
    /// The universe of these catalogs, in any order.
    pub fn new(catalogs: impl IntoIterator<Item = (CatalogRef, Catalog)>) -> Self {
        Self { catalogs: catalogs.into_iter().collect(), providers: OnceLock::new() }
    }

    /// The catalogs, by name.
    pub fn catalogs(&self) -> &BTreeMap<CatalogRef, Catalog> {
        &self.catalogs
    }

    pub fn catalog(&self, id: &CatalogRef) -> Option<&Catalog> {
        self.catalogs.get(id)
    }

    pub fn package(&self, id: &CatalogRef, package: &str) -> Option<&Package> {
        self.catalog(id)?.packages.get(package).map(Arc::as_ref)
    }

    /// Inserts or replaces a catalog.
    pub fn insert(&mut self, id: CatalogRef, catalog: Catalog) {
        self.providers = OnceLock::new();
        self.catalogs.insert(id, catalog);
    }

    /// Sets the priority of a catalog; a higher one wins where several could satisfy a dependency.
    pub fn set_priority(&mut self, id: &CatalogRef, priority: i32) {
        if let Some(catalog) = self.catalogs.get_mut(id) {
            catalog.priority = priority;
        }
    }

    /// Marks a catalog as unreadable. Its last good content, if any, stays.
    pub fn set_unavailable(&mut self, id: &CatalogRef, reason: impl Into<String>) {
        self.catalogs.entry(id.clone()).or_default().health = Health::Unavailable { reason: reason.into() };
    }

    /// The packages with a bundle that provides an API.
    pub(crate) fn providers_of(&self, gvk: &Gvk) -> impl Iterator<Item = &(CatalogRef, String)> {
        let providers = self.providers.get_or_init(|| {
            let mut map = Providers::new();
            for (id, catalog) in &self.catalogs {
                for (name, package) in &catalog.packages {
                    for gvk in &package.reach().provides {
                        map.entry(gvk.clone()).or_default().insert((id.clone(), name.clone()));
                    }
                }
            }
            map
        });
        providers.get(gvk).into_iter().flatten()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Health {
    #[default]
    Ready,
    /// Its content may be old.
    Unavailable { reason: String },
}

#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Higher wins where several could satisfy a dependency.
    pub priority: i32,
    pub health: Health,
    /// Its packages, by name. Shared: preparing one again for every query would cost more than the query.
    pub packages: BTreeMap<String, Arc<Package>>,
}

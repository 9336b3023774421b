//! The universe of catalogs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use olm_constraint::{Constraint, Gvk, Property, Subject};
use olm_version::{Range, Version};
use serde::{Deserialize, Serialize};

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

/// Namespace and name of a CatalogSource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CatalogRef {
    pub namespace: String,
    pub name: String,
}

impl CatalogRef {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for CatalogRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
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

#[derive(Clone, Debug, Default)]
pub struct Channel {
    pub name: String,
    /// Deprecation message of the catalog.
    pub deprecated: Option<String>,
    pub entries: Vec<Entry>,
}

/// One node of an upgrade graph. Its edges lead *into* it.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Name of the bundle.
    pub name: String,
    /// Name of the replaced bundle.
    pub replaces: Option<String>,
    /// Names of further bundles that it upgrades from.
    pub skips: Vec<String>,
    /// Versions that it upgrades from. An invalid range is left out, as in OLM.
    pub skip_range: Option<Range>,
}

#[derive(Clone, Debug, Default)]
pub struct Bundle {
    pub name: String,
    pub version: Option<Version>,
    pub provides: Vec<Gvk>,
    /// Its requirements; each is met by one bundle or operator.
    pub requires: Vec<Constraint>,
    /// Labels for constraints (`olm.label`).
    pub labels: Vec<String>,
    /// Properties for expressions.
    pub properties: Vec<Property>,
    /// Deprecation message of the catalog (`olm.deprecations`): reported, and others are preferred.
    pub deprecated: Option<String>,
    /// Whether it has the property `olm.deprecated`: never chosen.
    pub prohibited: bool,
    /// Minimum Kubernetes version.
    pub min_kube_version: Option<Version>,
    /// Maximum OpenShift version (major and minor).
    pub max_openshift_version: Option<Version>,
    /// An invalid constraint, as text; a bundle with one is not chosen.
    pub unsupported: Option<String>,
}

impl Bundle {
    /// The bundle for constraints.
    pub fn subject<'a>(&'a self, package: &'a str) -> Subject<'a> {
        Subject {
            package: Some(package),
            version: self.version.as_ref(),
            provides: &self.provides,
            labels: &self.labels,
            properties: &self.properties,
        }
    }
}

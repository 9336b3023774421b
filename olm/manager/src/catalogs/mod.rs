//! Catalogs in memory: what is loaded, in which order it counts, and how others read it.

mod fetch;
mod store;

use std::sync::Arc;

use olm_catalog::Catalog;
use serde::{Deserialize, Serialize};

pub use fetch::{FetchError, Fetcher};
pub use olm_resolver::CatalogRef;
pub(crate) use store::{CatalogStore, Entry, Problem};

/// A catalog with what its CatalogSource says about it.
#[derive(Debug, Clone)]
pub struct LoadedCatalog {
    /// The CatalogSource.
    pub reference: CatalogRef,
    /// For people.
    pub display_name: String,
    /// For people.
    pub publisher: String,
    /// Higher is preferred where several catalogs could provide a dependency.
    pub priority: i32,
    /// The content.
    pub catalog: Arc<Catalog>,
}

/// One line of the manager's `GET /catalogs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexEntry {
    /// Namespace of the CatalogSource.
    pub namespace: String,
    /// Name of the CatalogSource.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// For people.
    pub publisher: String,
    /// Higher is preferred.
    pub priority: i32,
    /// Digest of the content that is being served.
    pub digest: String,
    /// How many packages it has.
    pub packages: usize,
    /// How many problems were found in it.
    pub problems: usize,
    /// Why the content could not be refreshed; empty when it is current.
    pub stale: String,
}

impl IndexEntry {
    /// The CatalogSource.
    #[must_use]
    pub fn reference(&self) -> CatalogRef {
        CatalogRef { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// Best first: by priority, then by namespace and name, so that the order never depends on chance.
fn sort(catalogs: &mut [LoadedCatalog]) {
    catalogs.sort_by(|a, b| {
        let key = |c: &LoadedCatalog| (c.reference.namespace.clone(), c.reference.name.clone());
        b.priority.cmp(&a.priority).then_with(|| key(a).cmp(&key(b)))
    });
}

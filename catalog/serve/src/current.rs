//! The catalog that a server answers from, which may be replaced while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use olm_catalog::Catalog;

/// A catalog that may be replaced by another one at any time. A call is answered from one of the two to its end.
#[derive(Debug, Clone)]
pub struct Current(Arc<RwLock<Arc<Catalog>>>);

impl Current {
    /// Starts with a catalog.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self(Arc::new(RwLock::new(catalog)))
    }

    /// The catalog as it is now.
    #[must_use]
    pub fn get(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it for the calls that begin from now on.
    pub fn set(&self, catalog: Arc<Catalog>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }
}

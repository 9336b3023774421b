//! The catalog that a server serves; it may be replaced while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

use olm_catalog::Catalog;

/// A catalog that may be replaced at any time. A call uses one of the two until its end.
#[derive(Debug, Clone)]
pub struct Current(Arc<RwLock<Arc<Catalog>>>);

impl Current {
    #[must_use]
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self(Arc::new(RwLock::new(catalog)))
    }

    #[must_use]
    pub fn get(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it for subsequent calls.
    pub fn set(&self, catalog: Arc<Catalog>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }
}

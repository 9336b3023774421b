//! The catalog built into this program.

use std::sync::{Arc, OnceLock};

use crate::catalog::Catalog;

/// The image reference of the shipped catalog in a CatalogSource.
pub const SHIPPED_IMAGE: &str = "localhost/olm/catalog:0.1.0";

const ETCD: &str = include_str!("../../data/etcd/catalog.yaml");

/// The built-in catalog: package `etcd`.
#[must_use]
pub fn shipped() -> Arc<Catalog> {
    static SHIPPED: OnceLock<Arc<Catalog>> = OnceLock::new();
    SHIPPED.get_or_init(|| Arc::new(Catalog::from_bytes("shipped catalog", ETCD.as_bytes()))).clone()
}

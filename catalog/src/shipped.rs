//! The catalog in this program.

use std::sync::OnceLock;

use crate::model::Catalog;

/// The image reference that stands for the shipped catalog in a CatalogSource.
pub const SHIPPED_IMAGE: &str = "localhost/olm/catalog:0.1.0";

const ETCD: &str = include_str!("../data/etcd/catalog.yaml");

/// The catalog that is built into this program: package `etcd`.
#[must_use]
pub fn shipped() -> Catalog {
    static SHIPPED: OnceLock<Catalog> = OnceLock::new();
    SHIPPED.get_or_init(|| Catalog::from_bytes("shipped catalog", ETCD.as_bytes())).clone()
}

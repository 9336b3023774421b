//! The catalog built into this program.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

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

/// The images that operators of the built-in catalog run, sorted.
#[must_use]
pub fn shipped_images() -> Vec<String> {
    let catalog = shipped();
    let packages = catalog.summaries().filter_map(|summary| catalog.package(&summary.name).ok().flatten());
    let images: BTreeSet<String> = packages
        .flat_map(|package| package.bundles.values().cloned().collect::<Vec<_>>())
        .flat_map(|bundle| bundle.related_images)
        .map(|related| related.image)
        .filter(|image| !image.is_empty())
        .collect();
    images.into_iter().collect()
}

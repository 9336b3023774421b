//! The catalog built into this program.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use serde::Deserialize as _;
use serde_json::Value;

use crate::{catalog::Catalog, relocate::Relocation};

/// The image reference of the shipped catalog in a CatalogSource. The tag is not the version of olm:
/// CatalogSources of other versions name the same image.
pub const SHIPPED_IMAGE: &str = "localhost/olm/catalog:0.1.0";

const PACKAGES: &str =
    concat!(include_str!("../../data/etcd/catalog.yaml"), include_str!("../../data/myapp/catalog.yaml"));

/// The built-in catalog: packages `etcd` and `myapp`.
#[must_use]
pub fn shipped() -> Arc<Catalog> {
    static SHIPPED: OnceLock<Arc<Catalog>> = OnceLock::new();
    SHIPPED.get_or_init(|| Arc::new(Catalog::from_bytes("shipped catalog", PACKAGES.as_bytes()))).clone()
}

/// The built-in catalog, whose operators run other images.
#[must_use]
pub fn relocated(relocation: &Relocation) -> Arc<Catalog> {
    if relocation.is_empty() {
        return shipped();
    }
    let mut text = String::new();
    for document in serde_yaml::Deserializer::from_str(PACKAGES) {
        let mut document = Value::deserialize(document).expect("a test reads the catalog");
        relocation.document(&mut document);
        text.push_str(&document.to_string());
        text.push('\n');
    }
    Arc::new(Catalog::from_bytes("shipped catalog", text.as_bytes()))
}

/// The images that operators of the built-in catalog run, sorted.
#[must_use]
pub fn shipped_images() -> Vec<String> {
    let catalog = shipped();
    let mut images = BTreeSet::new();
    for summary in catalog.summaries() {
        let Ok(Some(package)) = catalog.package(&summary.name) else { continue };
        let related = package.bundles.values().flat_map(|bundle| &bundle.related_images);
        images.extend(related.map(|related| related.image.clone()).filter(|image| !image.is_empty()));
    }
    images.into_iter().collect()
}

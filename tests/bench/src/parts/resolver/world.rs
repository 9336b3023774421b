//! The full catalog for the resolver.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use olm_catalog::Catalog;
use olm_plan::prepare;
use olm_resolver::{CatalogRef, Facts, Package, Request, Resolution, Universe, resolve};

/// Number of bundles of the full catalog.
pub(super) const BUNDLES: usize = 6_448;

/// A prepared catalog, with the catalog's own head for each channel.
pub(super) struct World {
    pub universe: Universe,
    /// By package and channel.
    pub heads: BTreeMap<(String, String), String>,
}

pub(super) fn catalog_ref() -> CatalogRef {
    CatalogRef::new("olm", "bench")
}

impl World {
    /// Reads and prepares a catalog. Package by package, so that at most one raw package is in memory.
    pub fn load(catalog: &Catalog) -> Result<Self> {
        let mut all = olm_resolver::Catalog::default();
        let mut heads = BTreeMap::new();
        for summary in catalog.summaries() {
            let package = catalog.package(&summary.name)?.context("a package that is listed is not there")?;
            for (name, channel) in &package.channels {
                let head = channel.head().with_context(|| format!("{}/{name} has no head", package.name))?;
                heads.insert((package.name.clone(), name.clone()), head.name.clone());
            }
            all.packages.insert(package.name.clone(), Arc::new(prepare(&package)));
        }
        Ok(Self { universe: Universe::new([(catalog_ref(), all)]), heads })
    }

    pub fn packages(&self) -> &BTreeMap<String, Arc<Package>> {
        &self.universe.catalogs()[&catalog_ref()].packages
    }

    /// Resolves every channel once, to build the lazy indexes.
    pub fn warm(&self) -> Result<()> {
        let found = self.heads.keys().filter(|(package, channel)| {
            self.resolve(&[request("bench", package, channel)]).items.iter().all(Result::is_ok)
        });
        ensure!(found.count() > 0, "nothing could be chosen at all");
        Ok(())
    }

    /// Resolves on an empty cluster.
    pub fn resolve(&self, requests: &[Request]) -> Resolution {
        resolve(&self.universe, requests, &Facts::default())
    }
}

/// A Subscription to a channel of a package, with nothing installed.
pub(super) fn request(namespace: &str, package: &str, channel: &str) -> Request {
    Request {
        subscription: format!("{namespace}/{package}"),
        package: package.to_owned(),
        catalog: catalog_ref(),
        channel: Some(channel.to_owned()),
        ..Request::default()
    }
}

//! The full catalog as the resolver sees it.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use olm_catalog::Catalog;
use olm_plan::prepare;
use olm_resolver::{CatalogRef, Facts, Package, Request, Resolution, Universe, choose};

/// How many bundles the full catalog has.
pub(super) const BUNDLES: usize = 6_448;

/// A catalog, prepared, and for each channel the head that the catalog itself says it has.
pub(super) struct World {
    pub universe: Universe,
    /// By package and channel.
    pub heads: BTreeMap<(String, String), String>,
}

/// The catalog's name.
pub(super) fn catalog_ref() -> CatalogRef {
    CatalogRef::new("olm", "bench")
}

impl World {
    /// Reads and prepares a catalog. Package by package, so that no more than one is in memory as it was read.
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

    /// The packages, by name.
    pub fn packages(&self) -> &BTreeMap<String, Arc<Package>> {
        &self.universe.catalogs()[&catalog_ref()].packages
    }

    /// Asks for every channel once: what is worked out when it is first asked for is worked out then.
    pub fn warm(&self) -> Result<()> {
        let found = self.heads.keys().filter(|(package, channel)| {
            self.choose(&[request("bench", package, channel)]).items.iter().all(Result::is_ok)
        });
        ensure!(found.count() > 0, "nothing could be chosen at all");
        Ok(())
    }

    /// Chooses on an empty cluster.
    pub fn choose(&self, requests: &[Request]) -> Resolution {
        choose(&self.universe, requests, &Facts::default())
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

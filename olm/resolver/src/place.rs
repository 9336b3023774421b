//! Bundles in their channel.

use olm_constraint::Constraint;

use crate::bundle::{Bundle, CatalogRef, Channel};
use crate::package::Package;

/// A bundle with its package, channel and catalog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) catalog: &'a CatalogRef,
    pub(crate) package: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) bundle: &'a Bundle,
    /// The bundle's index in its package.
    pub(crate) at: u32,
}

impl<'a> Place<'a> {
    /// Identity of a bundle: without the channel.
    pub(crate) fn key(&self) -> (&'a CatalogRef, &'a str, &'a str) {
        (self.catalog, self.package, self.bundle.name.as_str())
    }

    /// Requirements of the bundle that it does not provide itself.
    pub(crate) fn needs(&self) -> Vec<&'a Constraint> {
        self.bundle.needs(self.package)
    }
}

/// The bundles of a channel from its head on; none when the channel has no order.
pub(crate) fn ordered_places<'a>(
    catalog: &'a CatalogRef,
    package: &'a Package,
    channel: &'a Channel,
) -> impl Iterator<Item = Place<'a>> {
    let graph = package.graph(channel);
    let entries = graph.and_then(|graph| graph.order.as_deref().ok()).unwrap_or_default();
    entries.iter().filter_map(move |entry| {
        let at = graph?.bundle(*entry)?;
        let bundle = &package.bundles()[at as usize];
        Some(Place { catalog, package: &package.name, channel: &channel.name, bundle, at })
    })
}

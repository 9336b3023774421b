//! Installed bundles that left the catalog, identified by edges that name them or by their naming scheme.

use olm_catalog::{BundleEntry, Channel, Package};
use olm_version::Version;

pub fn is_edge_source(channel: &Channel, bundle: &str) -> bool {
    let names = |name: &String| name == bundle;
    channel
        .entries
        .iter()
        .any(|entry| entry.replaces.as_ref().is_some_and(names) || entry.skips.iter().any(names))
}

/// The search for a bundle in all packages.
pub struct Search<'a> {
    name: &'a str,
    version: Option<Version>,
    /// The entry for the package with an edge from the bundle.
    by_edge: Option<BundleEntry>,
    /// The entry for the package with a matching naming scheme.
    by_name: Option<BundleEntry>,
}

impl<'a> Search<'a> {
    /// Without a version, the name's suffix is used.
    pub fn new(name: &'a str, version: Option<Version>) -> Self {
        let version = version.or_else(|| split_name(name).map(|(_, version)| version));
        Self { name, version, by_edge: None, by_name: None }
    }

    pub fn visit(&mut self, package: &Package) {
        let named = package.channels.values().any(|channel| is_edge_source(channel, self.name));
        if named && self.by_edge.is_none() {
            self.by_edge = Some(self.entry(package));
        }
        if self.by_name.is_none() && self.is_named_like_one_of(package) {
            self.by_name = Some(self.entry(package));
        }
    }

    /// The entry of the bundle; an edge is stronger evidence than the name.
    pub fn found(self) -> Option<BundleEntry> {
        self.by_edge.or(self.by_name)
    }

    /// Requires a version: without one no skipRange applies to the bundle.
    fn is_named_like_one_of(&self, package: &Package) -> bool {
        let prefixes = package.bundles.keys().filter_map(|name| split_name(name)).map(|(prefix, _)| prefix);
        let mut prefixes = prefixes.chain([package.name.as_str()]);
        self.version.is_some() && prefixes.any(|prefix| self.name.starts_with(prefix))
    }

    fn entry(&self, package: &Package) -> BundleEntry {
        BundleEntry {
            name: self.name.to_owned(),
            package: package.name.clone(),
            image: None,
            version: self.version.clone(),
            properties: Vec::new(),
            related_images: Vec::new(),
            deprecated: None,
        }
    }
}

/// Splits a bundle name: `etcdoperator` and `0.9.4` of `etcdoperator.v0.9.4`.
fn split_name(name: &str) -> Option<(&str, Version)> {
    name.match_indices(['.', '-']).find_map(|(at, separator)| {
        let rest = &name[at + separator.len()..];
        let version = Version::parse(rest.strip_prefix('v').unwrap_or(rest)).ok()?;
        Some((&name[..at], version))
    })
}

#[cfg(test)]
mod tests {
    use super::split_name;

    #[test]
    fn names_end_in_their_version() {
        for (name, prefix, version) in [
            ("etcdoperator.v0.9.4", "etcdoperator", "0.9.4"),
            ("debezium-operator.v3.1.0-final", "debezium-operator", "3.1.0-final"),
            ("awss3operator.1.0.1", "awss3operator", "1.0.1"),
            ("some-2-operator-v1.0.0-rc.1", "some-2-operator", "1.0.0-rc.1"),
        ] {
            let found = split_name(name).map(|(prefix, version)| (prefix, version.to_string()));
            assert_eq!(found, Some((prefix, version.to_owned())), "{name}");
        }
        for name in ["demo.v9", "demo", "demo-stable", ""] {
            assert_eq!(split_name(name), None, "{name}");
        }
    }
}

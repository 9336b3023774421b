//! The upgrade graph of a channel: its order and its edges.

use std::collections::{BTreeMap, HashSet};

use crate::bundle::{Channel, Entry};
use crate::request::InstalledRef;
use crate::resolution::HopVia;

/// Why the entries of a channel have no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    #[error(
        "no channel heads (entries not replaced by another entry) found in channel \"{channel}\" of package \"{package}\""
    )]
    NoHead { channel: String, package: String },
    #[error(
        "a cycle exists in the chain of replacement beginning with \"{head}\" in channel \"{channel}\" of package \"{package}\""
    )]
    Cycle { head: String, channel: String, package: String },
    #[error(
        "a unique replacement chain within a channel is required to determine the relative order between channel entries, \
         but {count} replacement chains were found in channel \"{channel}\" of package \"{package}\": {chains}"
    )]
    SeveralChains { count: usize, chains: String, channel: String, package: String },
}

/// A channel's graph with its indexes. Numbers are indexes into [`Channel::entries`].
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// From the head backwards along `replaces`; see [`order`].
    pub(crate) order: Result<Vec<u32>, OrderError>,
    /// For each entry its position in the order.
    position: Vec<Option<u32>>,
    /// For each entry the index of its bundle in the package.
    bundle: Vec<Option<u32>>,
    /// Entries by name.
    by_name: Vec<u32>,
    /// Edges sorted by the name of the replaced or skipped bundle: entry, and 0 for `replaces`, n for
    /// `skips[n - 1]`.
    edges: Vec<(u32, u32)>,
    /// Entries with a skipRange.
    ranged: Vec<u32>,
}

impl Graph {
    /// `bundle_place` has the index of a bundle in its package.
    pub(crate) fn new(
        package: &str,
        channel: &Channel,
        bundle_place: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        let entries = &channel.entries;
        let order = order(package, channel);
        let mut position = vec![None; entries.len()];
        for (at, entry) in order.iter().flatten().enumerate() {
            position[*entry as usize] = Some(at as u32);
        }
        let bundle = entries.iter().map(|e| bundle_place(&e.name).map(|p| p as u32)).collect();
        let mut by_name: Vec<u32> = (0..entries.len() as u32).collect();
        by_name.sort_by_key(|at| &entries[*at as usize].name);
        let mut edges = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let first = u32::from(entry.replaces.is_none());
            edges.extend((first..=entry.skips.len() as u32).map(|slot| (at as u32, slot)));
        }
        edges.sort_by(|a, b| (gone(entries, *a), a).cmp(&(gone(entries, *b), b)));
        let ranged = |at: &u32| entries[*at as usize].skip_range.is_some();
        let ranged = (0..entries.len() as u32).filter(ranged).collect();
        Self { order, position, bundle, by_name, edges, ranged }
    }

    pub(crate) fn entry<'a>(&self, channel: &'a Channel, name: &str) -> Option<(u32, &'a Entry)> {
        let entries = &channel.entries;
        let at = self.by_name.binary_search_by(|at| entries[*at as usize].name.as_str().cmp(name)).ok()?;
        Some((self.by_name[at], &entries[self.by_name[at] as usize]))
    }

    /// The position of an entry in the order, if any.
    pub(crate) fn position(&self, entry: u32) -> Option<u32> {
        self.position[entry as usize]
    }

    /// The index of an entry's bundle in the package.
    pub(crate) fn bundle(&self, entry: u32) -> Option<u32> {
        self.bundle[entry as usize]
    }

    /// Edges into entries from the bundle of that name.
    fn edges_from<'g>(&'g self, channel: &'g Channel, name: &str) -> &'g [(u32, u32)] {
        let entries = &channel.entries;
        let start = self.edges.partition_point(|edge| gone(entries, *edge) < name);
        let count = self.edges[start..].partition_point(|edge| gone(entries, *edge) == name);
        &self.edges[start..start + count]
    }

    /// The entries in the order that an edge leads to from the installed bundle, in the order of preference.
    /// Entries after the installed bundle in the order are older, even if a wide skipRange includes it.
    pub(crate) fn successors(&self, channel: &Channel, installed: &InstalledRef) -> Vec<(u32, HopVia)> {
        let here = self.entry(channel, &installed.name).and_then(|(entry, _)| self.position(entry));
        let named = self.edges_from(channel, &installed.name).iter().map(|(entry, _)| *entry);
        let mut found: Vec<u32> = named.chain(self.ranged.iter().copied()).collect();
        found.retain(|entry| self.position(*entry).is_some_and(|at| here.is_none_or(|here| at < here)));
        found.sort_by_key(|entry| self.position(*entry));
        found.dedup();
        let with_edge = |entry: u32| Some((entry, edge(installed, &channel.entries[entry as usize])?));
        found.into_iter().filter_map(with_edge).collect()
    }

    /// The entry that skips the bundle of that name, if any.
    pub(crate) fn skipped_by<'a>(&self, channel: &'a Channel, name: &str) -> Option<&'a Entry> {
        let skips = self.edges_from(channel, name).iter().filter(|(_, slot)| *slot > 0);
        let first =
            |entry: &u32| (self.position(*entry).unwrap_or(u32::MAX), &channel.entries[*entry as usize].name);
        let entry = skips.map(|(entry, _)| *entry).min_by_key(first)?;
        Some(&channel.entries[entry as usize])
    }
}

/// The source bundle of an edge.
fn gone(entries: &[Entry], (entry, slot): (u32, u32)) -> &str {
    let entry = &entries[entry as usize];
    match slot {
        0 => entry.replaces.as_deref().unwrap_or_default(),
        slot => &entry.skips[slot as usize - 1],
    }
}

/// The entries of a channel from its head backwards along `replaces`. Skipped entries are left out, and so
/// are those off the chain: exactly OLM's order, which ignores versions.
fn order(package: &str, channel: &Channel) -> Result<Vec<u32>, OrderError> {
    let entries = &channel.entries;
    let by_name: BTreeMap<&str, u32> =
        entries.iter().enumerate().map(|(at, e)| (e.name.as_str(), at as u32)).collect();
    let mut covered: HashSet<&str> = HashSet::new();
    let mut skipped: HashSet<&str> = HashSet::new();
    for entry in entries {
        covered.extend(entry.replaces.as_deref());
        covered.extend(entry.skips.iter().map(String::as_str));
        skipped.extend(entry.skips.iter().map(String::as_str));
    }
    let names = || (channel.name.clone(), package.to_owned());
    let mut chains: Vec<Vec<u32>> = Vec::new();
    for (head, at) in by_name.iter().filter(|(name, _)| !covered.contains(*name)) {
        let mut chain = Vec::new();
        let mut seen = HashSet::new();
        let mut current = Some(*at);
        while let Some(at) = current {
            let entry = &entries[at as usize];
            if !seen.insert(at) {
                let (channel, package) = names();
                return Err(OrderError::Cycle { head: (*head).to_owned(), channel, package });
            }
            if !skipped.contains(entry.name.as_str()) {
                chain.push(at);
            }
            current = entry.replaces.as_deref().and_then(|name| by_name.get(name).copied());
        }
        chains.push(chain);
    }
    let (channel_name, package) = names();
    match chains.len() {
        0 if entries.is_empty() => Ok(Vec::new()),
        0 => Err(OrderError::NoHead { channel: channel_name, package }),
        1 => Ok(chains.remove(0)),
        count => {
            let texts: Vec<String> = chains.iter().map(|chain| chain_text(entries, chain)).collect();
            Err(OrderError::SeveralChains { count, chains: texts.join(", "), channel: channel_name, package })
        }
    }
}

fn chain_text(entries: &[Entry], chain: &[u32]) -> String {
    let name = |at: &u32| entries[*at as usize].name.as_str();
    match chain {
        [] => String::new(),
        [only] => name(only).to_owned(),
        [first, .., last] => format!("{}...{}", name(first), name(last)),
    }
}

/// The edge from the installed bundle into an entry, if any.
pub(crate) fn edge(installed: &InstalledRef, entry: &Entry) -> Option<HopVia> {
    if entry.replaces.as_deref() == Some(installed.name.as_str()) {
        Some(HopVia::Replaces)
    } else if entry.skips.contains(&installed.name) {
        Some(HopVia::Skips)
    } else if let (Some(range), Some(version)) = (&entry.skip_range, &installed.version)
        && range.contains(version)
    {
        Some(HopVia::SkipRange)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use olm_version::{Range, Version};

    #[test]
    fn edges_lead_into_the_entry_that_declares_them() {
        let installed = InstalledRef { name: "p.v1".into(), version: Some(Version::new(1, 0, 0)) };
        let mut entry = Entry { name: "p.v2".into(), replaces: Some("p.v1".into()), ..Entry::default() };
        assert_eq!(edge(&installed, &entry), Some(HopVia::Replaces));
        entry.replaces = Some("p.v0".into());
        assert_eq!(edge(&installed, &entry), None);
        entry.skips = vec!["p.v1".into()];
        assert_eq!(edge(&installed, &entry), Some(HopVia::Skips));
        entry.skips.clear();
        entry.skip_range = Some(Range::parse("<1.0.0 !0.0.0").unwrap());
        assert_eq!(edge(&installed, &entry), None);
        entry.skip_range = Some(Range::parse(">=0.9.0 <2.0.0").unwrap());
        assert_eq!(edge(&installed, &entry), Some(HopVia::SkipRange));
    }
}

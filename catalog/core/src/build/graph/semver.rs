//! Channels by version.

use std::collections::BTreeMap;

use olm_version::precedence;

use super::{Entry, Graph, GraphFinding, Node};
use crate::problem::Severity;

/// Every bundle is in the channels that it names; `replaces` and `skips` of the ClusterServiceVersions are
/// ignored, `olm.skipRange` is not.
/// With `skip_patch` the channel passes only through the highest patch of each minor version. Upstream's own
/// graph for that mode loses the entries below the second minor version and is then rejected by its loader;
/// this follows its documentation.
pub(super) fn channels(nodes: &[&Node], skip_patch: bool, graph: &mut Graph) {
    let mut members: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for &node in nodes {
        for channel in &node.channels {
            let channel = members.entry(channel).or_default();
            match channel.last() {
                Some(last) if last.name == node.name => {}
                // Versions that differ only in build metadata have no order for a channel.
                Some(last) if precedence(&last.version, &node.version).is_eq() => {
                    let text = format!(
                        "{} ({}) and {} ({}) differ only in build metadata and have no order; {} is omitted",
                        last.name, last.version, node.name, node.version, node.name
                    );
                    let fix = "set a unique version, or use updateGraph: replaces-mode";
                    graph.notes.push(GraphFinding::new(
                        Severity::Error,
                        &node.name,
                        "version-unordered",
                        text,
                        fix,
                    ));
                }
                _ => channel.push(node),
            }
        }
    }
    for (name, members) in members {
        let entries = if skip_patch { by_minor(&members) } else { by_version(&members) };
        graph.channels.insert(name.to_owned(), entries);
    }
}

fn by_version(members: &[&Node]) -> Vec<Entry> {
    let mut previous: Option<&str> = None;
    members
        .iter()
        .map(|node| {
            let replaces = previous.replace(&node.name).map(str::to_owned);
            Entry { replaces, ..Entry::of(node) }
        })
        .collect()
}

fn by_minor(members: &[&Node]) -> Vec<Entry> {
    let mut previous: Option<&str> = None;
    let mut entries = Vec::new();
    for patches in members.chunk_by(|a, b| minor(a) == minor(b)) {
        let Some((highest, lower)) = patches.split_last() else { continue };
        entries.extend(lower.iter().map(|node| Entry::of(node)));
        let skips = lower.iter().map(|node| node.name.clone()).collect();
        let replaces = previous.replace(&highest.name).map(str::to_owned);
        entries.push(Entry { replaces, skips, ..Entry::of(highest) });
    }
    entries
}

fn minor(node: &Node) -> (u64, u64) {
    (node.version.major, node.version.minor)
}

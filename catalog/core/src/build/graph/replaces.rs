//! Channels by `replaces` and `skips`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Entry, Graph, GraphFinding, Node};
use crate::problem::Severity;

/// The head of a channel is the highest version that names it; its other entries are those reachable from the
/// head. So a bundle can be in a channel that it does not name, and missing in one that it names.
pub(super) fn channels(nodes: &[&Node], bridge: bool, graph: &mut Graph) {
    // Nodes are in order of version: the last one of a channel is its head.
    let mut heads: BTreeMap<&str, &Node> = BTreeMap::new();
    for &node in nodes {
        for channel in &node.channels {
            heads.insert(channel, node);
        }
    }
    from_heads(nodes, heads, bridge, graph);
}

/// The channels below these heads.
pub(super) fn from_heads(nodes: &[&Node], heads: BTreeMap<&str, &Node>, bridge: bool, graph: &mut Graph) {
    let by_name: BTreeMap<&str, &Node> = nodes.iter().map(|node| (node.name.as_str(), *node)).collect();
    for (channel, head) in heads {
        if head.deprecated {
            continue; // Upstream drops a channel with a deprecated head.
        }
        let walk = Walk { channel, nodes, by_name: &by_name, bridge };
        let entries = walk.entries(head, &mut graph.notes);
        graph.channels.insert(channel.to_owned(), entries);
    }
}

struct Walk<'a> {
    channel: &'a str,
    nodes: &'a [&'a Node],
    by_name: &'a BTreeMap<&'a str, &'a Node>,
    bridge: bool,
}

impl<'a> Walk<'a> {
    /// The chain from the head down, and the bundles that it skips.
    fn entries(self, head: &'a Node, notes: &mut Vec<GraphFinding>) -> Vec<Entry> {
        let mut chain: BTreeSet<&str> = BTreeSet::from([head.name.as_str()]);
        let mut skipped: BTreeSet<&str> = BTreeSet::new();
        let mut entries = Vec::new();
        let mut at = Some(head);
        while let Some(node) = at {
            skipped.extend(node.skips.iter().map(String::as_str));
            let mut entry = Entry { skips: node.skips.clone(), ..Entry::of(node) };
            at = None;
            if let Some(replaced) = &node.replaces {
                entry.replaces = Some(replaced.clone());
                match self.by_name.get(replaced.as_str()) {
                    Some(next) if chain.insert(&next.name) => at = (!next.deprecated).then_some(*next),
                    Some(_) => {
                        entry.replaces = None;
                        notes.push(cycle(self.channel, node, replaced));
                    }
                    None => {
                        if let Some(next) = self.beyond_the_gap(node, &chain, notes) {
                            chain.insert(&next.name);
                            entry.replaces = Some(next.name.clone());
                            at = Some(next);
                        }
                    }
                }
            }
            entries.push(entry);
        }
        // A skipped bundle stays installable by name where it exists, but no edge leads to it.
        let off_chain = skipped.into_iter().filter(|name| !chain.contains(name));
        let off_chain = off_chain.filter_map(|name| self.by_name.get(name));
        entries.extend(off_chain.filter(|node| !node.deprecated).map(|node| Entry::of(node)));
        entries
    }

    /// Handles a `node` that replaces a missing bundle.
    fn beyond_the_gap(
        &self,
        node: &Node,
        chain: &BTreeSet<&str>,
        notes: &mut Vec<GraphFinding>,
    ) -> Option<&'a Node> {
        let missing = node.replaces.as_deref().unwrap_or_default();
        let older = self.nodes.iter().rev().copied().find(|older| {
            older.version < node.version
                && !older.deprecated
                && !chain.contains(older.name.as_str())
                && !node.skips.contains(&older.name)
                && older.channels.iter().any(|channel| channel == self.channel)
        });
        if let Some(older) = older {
            let (name, older) = (&node.name, &older.name);
            let text = if self.bridge {
                format!("{name} replaces missing {missing}; using {older} instead")
            } else {
                format!("{name} replaces missing {missing}, so it has no upgrade edge from {older}")
            };
            let fix = "add the missing bundle, or replace or skip an existing bundle in its successor";
            notes.push(GraphFinding::new(Severity::Warning, &node.name, "replaces-missing", text, fix));
        }
        older.filter(|_| self.bridge)
    }
}

fn cycle(channel: &str, node: &Node, replaced: &str) -> GraphFinding {
    let text = format!(
        "channel {channel}: {} replaces {replaced}, which forms a cycle with {}; this edge is omitted",
        node.name, node.name
    );
    let fix = "set replaces of each bundle to an older bundle";
    GraphFinding::new(Severity::Error, &node.name, "channel-cycle", text, fix)
}

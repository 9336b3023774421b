//! Places the bundles of an upgrade graph for a drawing: one lane per channel, columns in the order of the
//! versions, long runs of entries as one node.

use std::collections::{BTreeMap, BTreeSet};

use olm_version::{Range, Version};

use super::{ChannelGraph, EdgeKind, GraphNode, Role, UpgradeGraph};

/// Linear runs of more entries than this become one node.
const LONGEST_RUN: usize = 40;

#[derive(Debug, Clone)]
pub struct Layout<'a> {
    /// The default channel first, the others in the order of the graph.
    pub lanes: Vec<&'a ChannelGraph>,
    /// By lane, then by column.
    pub nodes: Vec<PlacedNode<'a>>,
    pub edges: Vec<PlacedEdge>,
    pub columns: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedNode<'a> {
    pub lane: usize,
    pub column: usize,
    /// A bundle, or the bundles of a folded run, oldest first.
    pub bundles: Vec<&'a GraphNode>,
}

/// An upgrade between two nodes, by their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedEdge {
    pub from: usize,
    pub to: usize,
    pub kind: EdgeKind,
    pub hop: Option<usize>,
}

impl UpgradeGraph {
    pub(super) fn layout(&self) -> Layout<'_> {
        let mut lanes: Vec<&ChannelGraph> = self.channels.iter().collect();
        lanes.sort_by_key(|channel| !channel.default);
        let drafts: Vec<Draft<'_>> = lanes.iter().map(|channel| Draft::of(channel, &self.path)).collect();
        let keys: BTreeSet<&Key<'_>> = drafts.iter().flat_map(|draft| draft.folded.keys()).collect();
        let column: BTreeMap<&Key<'_>, usize> =
            keys.into_iter().enumerate().map(|(column, key)| (key, column)).collect();

        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        for (lane, draft) in drafts.iter().enumerate() {
            let first = nodes.len();
            nodes.extend(draft.folded.iter().map(|(key, bundles)| PlacedNode {
                lane,
                column: column[key],
                bundles: bundles.clone(),
            }));
            edges.extend(draft.edges.iter().map(|edge| PlacedEdge {
                from: edge.from + first,
                to: edge.to + first,
                ..*edge
            }));
        }
        Layout { lanes, nodes, edges, columns: column.len() }
    }
}

/// Order of columns: by version. A bundle without one is to the left of the oldest version that it leads to.
type Key<'a> = (Option<Version>, bool, &'a str);

/// A lane before the columns are known.
struct Draft<'a> {
    folded: BTreeMap<Key<'a>, Vec<&'a GraphNode>>,
    /// Between the positions in `folded`.
    edges: Vec<PlacedEdge>,
}

impl<'a> Draft<'a> {
    fn of(channel: &'a ChannelGraph, path: &[String]) -> Self {
        let drawn = |bundle: &&GraphNode| {
            bundle.role != Role::Missing || bundle.installed || path.contains(&bundle.name)
        };
        let mut order: Vec<(Key<'a>, &'a GraphNode)> =
            channel.bundles.iter().filter(drawn).map(|bundle| (key(channel, bundle), bundle)).collect();
        order.sort_by(|a, b| a.0.cmp(&b.0));
        let edges = edges(channel, path, &order);
        let linear = linear(&order, &edges, path);

        // The node of each bundle.
        let mut node = Vec::with_capacity(order.len());
        let mut folded = BTreeMap::new();
        let mut at = 0;
        while at < order.len() {
            let deprecated = |at: usize| order[at].1.deprecated.is_some();
            let run = (at..order.len())
                .take_while(|next| linear[*next] && deprecated(*next) == deprecated(at))
                .count();
            let length = if run > LONGEST_RUN { run } else { 1 };
            let bundles: Vec<&GraphNode> = order[at..at + length].iter().map(|(_, bundle)| *bundle).collect();
            node.extend(std::iter::repeat_n(folded.len(), length));
            folded.insert(order[at].0.clone(), bundles);
            at += length;
        }

        let is_run: Vec<bool> = folded.values().map(|bundles| bundles.len() > 1).collect();
        let mut seen = BTreeSet::new();
        let mut placed = Vec::new();
        for edge in edges {
            let edge = PlacedEdge { from: node[edge.from], to: node[edge.to], ..edge };
            // A range that leads into a run is folded with it.
            let hidden = edge.kind == EdgeKind::SkipRange && is_run[edge.to];
            if edge.from != edge.to && !hidden && seen.insert((edge.from, edge.to)) {
                placed.push(edge);
            }
        }
        Self { folded, edges: placed }
    }
}

fn version(bundle: &GraphNode) -> Option<Version> {
    Version::parse(bundle.version.as_deref()?).ok()
}

fn key<'a>(channel: &ChannelGraph, bundle: &'a GraphNode) -> Key<'a> {
    if let Some(version) = version(bundle) {
        return (Some(version), true, &bundle.name);
    }
    let targets = channel.edges.iter().filter(|edge| edge.from == bundle.name);
    let versions =
        targets.filter_map(|edge| version(channel.bundles.iter().find(|other| other.name == edge.to)?));
    (versions.min(), false, &bundle.name)
}

/// The edges between bundles, by position: first those that name their source, then ranges. A range starts at
/// the oldest bundle in it, or at that of the upgrade path.
fn edges(channel: &ChannelGraph, path: &[String], order: &[(Key<'_>, &GraphNode)]) -> Vec<PlacedEdge> {
    let position: BTreeMap<&str, usize> =
        order.iter().enumerate().map(|(at, (_, bundle))| (bundle.name.as_str(), at)).collect();
    let oldest = |range: &str, to: usize| {
        let range = Range::parse(range).ok()?;
        let within =
            |(version, own, _): &Key<'_>| *own && version.as_ref().is_some_and(|v| range.contains(v));
        order[..to].iter().position(|(key, _)| within(key))
    };
    let (ranges, named): (Vec<_>, Vec<_>) =
        channel.edges.iter().partition(|edge| edge.kind == EdgeKind::SkipRange);
    let edges = named.into_iter().chain(ranges).filter_map(|edge| {
        let to = *position.get(edge.to.as_str())?;
        let from = match (edge.kind, edge.hop) {
            (EdgeKind::SkipRange, Some(hop)) => *position.get(path.get(hop - 1)?.as_str())?,
            (EdgeKind::SkipRange, None) => oldest(&edge.from, to)?,
            _ => *position.get(edge.from.as_str())?,
        };
        Some(PlacedEdge { from, to, kind: edge.kind, hop: edge.hop })
    });
    edges.collect()
}

/// Whether each bundle only replaces its left neighbour and is only replaced by its right one, without a mark.
fn linear(order: &[(Key<'_>, &GraphNode)], edges: &[PlacedEdge], path: &[String]) -> Vec<bool> {
    let mut into = vec![0_usize; order.len()];
    let mut out = vec![0_usize; order.len()];
    let mut chained = vec![false; order.len()];
    for edge in edges.iter().filter(|edge| edge.kind != EdgeKind::SkipRange) {
        into[edge.to] += 1;
        out[edge.from] += 1;
        chained[edge.to] |= edge.kind == EdgeKind::Replaces && edge.from + 1 == edge.to;
    }
    let plain = |bundle: &GraphNode| {
        bundle.role == Role::Chain
            && !bundle.installed
            && !bundle.excluded
            && bundle.hop.is_none()
            && !path.contains(&bundle.name)
    };
    let next_chained = |at: usize| chained.get(at + 1).copied().unwrap_or_default();
    let fits =
        |at: usize| into[at] == 1 && out[at] == 1 && chained[at] && next_chained(at) && plain(order[at].1);
    (0..order.len()).map(fits).collect()
}

#[cfg(test)]
pub(super) mod tests;

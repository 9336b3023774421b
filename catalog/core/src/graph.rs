//! Renders the upgrade graph of a package as a diagram or text.
//!
//! Arrows lead from an installed bundle to its upgrade. [`graph`] is a pure function; every name in it is
//! untrusted and is escaped for its format.

mod dot;
mod layout;
mod mermaid;
mod svg;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;

use olm_version::Version;

use crate::model::{Channel, ChannelEntry, Package};

use svg::Place;
pub use svg::STYLE;

/// The number of channels that one drawing shows, unless the reader picks more.
pub const DRAWN_CHANNELS: usize = 5;

/// Maximum number of channels of one drawing.
pub const MOST_DRAWN_CHANNELS: usize = 8;

/// Channels of more bundles are not drawn: a hostile catalog must not occupy a server. Real channels have up to 222.
pub const MOST_DRAWN_BUNDLES: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For Markdown pages that render it.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// For programs: [`UpgradeGraph`].
    Json,
    /// For terminals of 80 columns.
    Text,
    /// For browsers, as a file of its own.
    Svg,
}

/// A package's channels with their edges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeGraph {
    pub package: String,
    /// Deprecation message of the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// The upgrade path with its start; empty when none is marked. Serialized under its first name, which
    /// programs read.
    #[serde(rename = "way", skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// By name.
    pub channels: Vec<ChannelGraph>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelGraph {
    pub name: String,
    /// Whether an install without a selected channel uses it.
    pub default: bool,
    /// Deprecation message of the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// Its bundles, the head first, then along `replaces`, then those off the chain.
    pub bundles: Vec<GraphNode>,
    /// Its edges, in the order of their target bundles.
    pub edges: Vec<Edge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphNode {
    pub name: String,
    /// Its version, where the catalog has the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its place in the channel.
    pub role: Role,
    /// Deprecation message of the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub installed: bool,
    /// Whether the Subscription excludes it (`spec.skipVersions`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub excluded: bool,
    /// Number of the hop of the path that leads here, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<usize>,
}

/// Place of a bundle in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The newest one.
    Head,
    /// On the `replaces` chain of the head.
    Chain,
    /// Skipped by another one.
    Skipped,
    /// Only named by an edge.
    Missing,
    /// No path leads from it to the head; validators reject this.
    Stranded,
}

/// A possible upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// A bundle; for [`EdgeKind::SkipRange`] the range of versions as written.
    pub from: String,
    /// A bundle.
    pub to: String,
    /// The field that defines it.
    pub kind: EdgeKind,
    /// Number of the hop of the path that uses it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<usize>,
}

/// The field that defines an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EdgeKind {
    /// `replaces`
    Replaces,
    /// `skips`
    Skips,
    /// `skipRange`
    SkipRange,
}

impl EdgeKind {
    fn word(self) -> &'static str {
        match self {
            Self::Replaces => "replaces",
            Self::Skips => "skips",
            Self::SkipRange => "skipRange",
        }
    }
}

/// The graph of one channel, or of all; `None` when the package has no such channel.
#[must_use]
pub fn graph(package: &Package, channel: Option<&str>, format: Format) -> Option<String> {
    Some(UpgradeGraph::of(package, channel)?.write(format))
}

impl UpgradeGraph {
    /// The graph of one channel, or of all; `None` when the package has no such channel.
    #[must_use]
    pub fn of(package: &Package, channel: Option<&str>) -> Option<Self> {
        match channel {
            Some(name) => Some(Self::of_channels(package, [package.channels.get(name)?])),
            None => Some(Self::new(package)),
        }
    }

    /// The graph of all channels.
    #[must_use]
    pub fn new(package: &Package) -> Self {
        Self::of_channels(package, package.channels.values())
    }

    fn of_channels<'a>(package: &Package, channels: impl IntoIterator<Item = &'a Channel>) -> Self {
        Self {
            package: package.name.clone(),
            deprecated: package.deprecated.clone(),
            path: Vec::new(),
            channels: channels.into_iter().map(|channel| channel_graph(package, channel)).collect(),
        }
    }

    #[must_use]
    pub fn write(&self, format: Format) -> String {
        match format {
            Format::Mermaid => mermaid::write(self),
            Format::Dot => dot::write(self),
            Format::Json => serde_json::to_string_pretty(self).unwrap_or_default() + "\n",
            Format::Text => text::write(self),
            Format::Svg => svg::write(self, Place::File),
        }
    }

    /// The drawing as an element of a page that has [`STYLE`]; `link` is the page of a bundle.
    #[must_use]
    pub fn inline_svg(&self, link: &dyn Fn(&ChannelGraph, &GraphNode) -> String) -> String {
        svg::write(self, Place::Page(link))
    }

    /// Drops the channels that are too large for a drawing ([`MOST_DRAWN_BUNDLES`]), and from a graph of more than
    /// [`DRAWN_CHANNELS`] all but the default channel and the picked ones. Returns the names of the dropped ones.
    pub fn keep_drawn(&mut self, picked: &[String]) -> Vec<String> {
        let few = self.channels.len() <= DRAWN_CHANNELS;
        let is_default = |name: &String| self.channels.iter().any(|one| one.default && one.name == *name);
        let picked: Vec<&String> =
            picked.iter().filter(|name| !is_default(name)).take(MOST_DRAWN_CHANNELS - 1).collect();
        let is_drawn = |channel: &ChannelGraph| {
            channel.bundles.len() <= MOST_DRAWN_BUNDLES
                && (few || channel.default || picked.contains(&&channel.name))
        };
        let dropped = self.channels.extract_if(.., |channel| !is_drawn(channel));
        dropped.map(|channel| channel.name).collect()
    }

    /// Marks the bundles that a Subscription excludes, by version or name.
    pub fn mark_excluded(&mut self, versions: &[String]) {
        let excluded: Vec<Version> =
            versions.iter().filter_map(|text| olm_version::parse_lenient(text).ok()).collect();
        for bundle in self.channels.iter_mut().flat_map(|channel| &mut channel.bundles) {
            let version = bundle.version.as_deref().and_then(|text| Version::parse(text).ok());
            let same = |other: &Version| {
                version.as_ref().is_some_and(|own| olm_version::precedence(own, other).is_eq())
            };
            bundle.excluded = versions.contains(&bundle.name) || excluded.iter().any(same);
        }
    }

    /// Marks the installed bundles and the upgrade path.
    pub fn mark(&mut self, installed: &[&str], path: &[String]) {
        self.path = path.to_vec();
        let hop_to = |name: &str| path.iter().skip(1).position(|on| on == name).map(|at| at + 1);
        for channel in &mut self.channels {
            for bundle in &mut channel.bundles {
                bundle.installed = installed.contains(&bundle.name.as_str());
                bundle.hop = hop_to(&bundle.name);
            }
            let named: BTreeSet<(String, String)> = channel
                .edges
                .iter()
                .filter(|edge| edge.kind != EdgeKind::SkipRange)
                .map(|edge| (edge.from.clone(), edge.to.clone()))
                .collect();
            for edge in &mut channel.edges {
                edge.hop = hop_to(&edge.to).filter(|hop| {
                    let from = &path[hop - 1];
                    // A range applies where no edge names the bundle.
                    match edge.kind {
                        EdgeKind::SkipRange => !named.contains(&(from.clone(), edge.to.clone())),
                        _ => edge.from == *from,
                    }
                });
            }
        }
    }

    /// Drops bundles that are neither on the marked path nor of a version between its ends, and channels that
    /// it does not use.
    pub fn narrow(&mut self) {
        let version =
            |bundle: &GraphNode| bundle.version.as_deref().and_then(|text| Version::parse(text).ok());
        let bundles = self.channels.iter().flat_map(|channel| &channel.bundles);
        let ends: Vec<Version> =
            bundles.filter(|bundle| self.path.contains(&bundle.name)).filter_map(version).collect();
        let (Some(least), Some(most)) = (ends.iter().min(), ends.iter().max()) else { return };
        for channel in &mut self.channels {
            channel.bundles.retain(|bundle| {
                let between = version(bundle).is_some_and(|v| v >= *least && v <= *most);
                between || self.path.contains(&bundle.name)
            });
            let kept: BTreeSet<&str> = channel.bundles.iter().map(|bundle| bundle.name.as_str()).collect();
            channel.edges.retain(|edge| {
                kept.contains(edge.to.as_str())
                    && (edge.kind == EdgeKind::SkipRange || kept.contains(edge.from.as_str()))
            });
        }
        let taken = |channel: &ChannelGraph| channel.edges.iter().any(|edge| edge.hop.is_some());
        let any_taken = self.channels.iter().any(taken);
        self.channels.retain(|channel| if any_taken { taken(channel) } else { !channel.bundles.is_empty() });
    }
}

fn channel_graph(package: &Package, channel: &Channel) -> ChannelGraph {
    let chain = channel.chain();
    let on_chain: BTreeSet<&str> = chain.iter().map(|entry| entry.name.as_str()).collect();
    let skipped: BTreeSet<&str> =
        channel.entries.iter().flat_map(|entry| entry.skips.iter().map(String::as_str)).collect();
    let mut off: Vec<&ChannelEntry> =
        channel.entries.iter().filter(|entry| !on_chain.contains(entry.name.as_str())).collect();
    let version = |name: &str| package.bundles.get(name).and_then(|bundle| bundle.version.clone());
    off.sort_by(|a, b| version(&b.name).cmp(&version(&a.name)).then_with(|| b.name.cmp(&a.name)));

    let head = chain.first().map(|entry| entry.name.as_str());
    let node = |name: &str, role| GraphNode {
        name: name.to_owned(),
        version: version(name).map(|version| version.to_string()),
        role,
        deprecated: package.bundles.get(name).and_then(|bundle| bundle.deprecated.clone()),
        installed: false,
        excluded: false,
        hop: None,
    };
    let order: Vec<&ChannelEntry> = chain.into_iter().chain(off).collect();
    let mut bundles: Vec<GraphNode> = Vec::new();
    let mut edges = Vec::new();
    for entry in &order {
        let name = entry.name.as_str();
        let role = match (head == Some(name), skipped.contains(name), on_chain.contains(name)) {
            (true, ..) => Role::Head,
            (_, true, _) => Role::Skipped,
            (_, _, true) => Role::Chain,
            _ => Role::Stranded,
        };
        bundles.push(node(name, role));
        let mut edge = |from: &str, kind| {
            edges.push(Edge { from: from.to_owned(), to: entry.name.clone(), kind, hop: None });
        };
        entry.replaces.iter().for_each(|from| edge(from, EdgeKind::Replaces));
        entry.skips.iter().for_each(|from| edge(from, EdgeKind::Skips));
        entry.skip_range.iter().for_each(|from| edge(from, EdgeKind::SkipRange));
    }
    let mut known: BTreeSet<&str> = order.iter().map(|entry| entry.name.as_str()).collect();
    for edge in edges.iter().filter(|edge| edge.kind != EdgeKind::SkipRange) {
        if known.insert(&edge.from) {
            bundles.push(node(&edge.from, Role::Missing));
        }
    }
    ChannelGraph {
        name: channel.name.clone(),
        default: channel.name == package.default_channel,
        deprecated: channel.deprecated.clone(),
        bundles,
        edges,
    }
}

impl GraphNode {
    /// Annotations after its name.
    fn annotations(&self) -> String {
        let role = match self.role {
            Role::Head => Some("head"),
            Role::Chain => None,
            Role::Skipped => Some("skipped"),
            Role::Missing => Some("not in the channel"),
            Role::Stranded => Some("stranded"),
        };
        let installed = self.installed.then(|| "installed".to_owned());
        let excluded = self.excluded.then(|| "excluded".to_owned());
        let hop = self.hop.map(|hop| format!("hop {hop}"));
        let findings: Vec<String> =
            role.map(str::to_owned).into_iter().chain(installed).chain(excluded).chain(hop).collect();
        findings.join(", ")
    }
}

#[cfg(test)]
mod tests;

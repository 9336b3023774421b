//! The upgrade graph of a package as a picture or a text.
//!
//! Arrows lead from what is installed to what it is upgraded to. [`graph`] is a pure function; every name in
//! it comes from a stranger and is escaped for its format.

mod dot;
mod mermaid;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::model::{Channel, ChannelEntry, Package};

/// How a graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For Markdown pages that draw it.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// For programs: [`Picture`].
    Json,
    /// For terminals of 80 columns.
    Text,
}

/// A package's channels with their edges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Picture {
    /// Package.
    pub package: String,
    /// Why the package should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// By name.
    pub channels: Vec<Lane>,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// Channel.
    pub name: String,
    /// Whether an install without a choice follows it.
    pub default: bool,
    /// Why the channel should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// Its bundles, the head first, then along `replaces`, then those that are off the chain.
    pub bundles: Vec<Stop>,
    /// Its edges, in the order of the bundles that they lead to.
    pub edges: Vec<Edge>,
}

/// A bundle in a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// Bundle.
    pub name: String,
    /// Its version, where the catalog has the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it is in the channel.
    pub role: Role,
    /// Why the bundle should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
}

/// Where a bundle is in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The newest one.
    Head,
    /// On the way to the head.
    Chain,
    /// Skipped by another one.
    Skipped,
    /// Named by an edge only.
    Missing,
    /// Nothing leads from it to the head, which a validator refuses.
    Stranded,
}

/// A possible upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// A bundle; for [`EdgeKind::SkipRange`] the range of versions as it is written.
    pub from: String,
    /// A bundle.
    pub to: String,
    /// Which field says so.
    pub kind: EdgeKind,
}

/// The field that an edge is from.
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
    let picture = Picture::of(package, channel)?;
    Some(match format {
        Format::Mermaid => mermaid::write(&picture),
        Format::Dot => dot::write(&picture),
        Format::Json => serde_json::to_string_pretty(&picture).unwrap_or_default() + "\n",
        Format::Text => text::write(&picture),
    })
}

impl Picture {
    /// The graph of one channel, or of all; `None` when the package has no such channel.
    #[must_use]
    pub fn of(package: &Package, channel: Option<&str>) -> Option<Self> {
        let channels: Vec<&Channel> = match channel {
            Some(name) => vec![package.channels.get(name)?],
            None => package.channels.values().collect(),
        };
        Some(Self {
            package: package.name.clone(),
            deprecated: package.deprecated.clone(),
            channels: channels.into_iter().map(|channel| lane(package, channel)).collect(),
        })
    }
}

fn lane(package: &Package, channel: &Channel) -> Lane {
    let chain = channel.chain();
    let on_chain: BTreeSet<&str> = chain.iter().map(|entry| entry.name.as_str()).collect();
    let skipped: BTreeSet<&str> =
        channel.entries.iter().flat_map(|entry| entry.skips.iter().map(String::as_str)).collect();
    let mut off: Vec<&ChannelEntry> =
        channel.entries.iter().filter(|entry| !on_chain.contains(entry.name.as_str())).collect();
    let version = |name: &str| package.bundles.get(name).and_then(|bundle| bundle.version.clone());
    off.sort_by(|a, b| version(&b.name).cmp(&version(&a.name)).then_with(|| b.name.cmp(&a.name)));

    let head = chain.first().map(|entry| entry.name.as_str());
    let stop = |name: &str, role| Stop {
        name: name.to_owned(),
        version: version(name).map(|version| version.to_string()),
        role,
        deprecated: package.bundles.get(name).and_then(|bundle| bundle.deprecated.clone()),
    };
    let order: Vec<&ChannelEntry> = chain.into_iter().chain(off).collect();
    let mut bundles: Vec<Stop> = Vec::new();
    let mut edges = Vec::new();
    for entry in &order {
        let name = entry.name.as_str();
        let role = match (head == Some(name), skipped.contains(name), on_chain.contains(name)) {
            (true, ..) => Role::Head,
            (_, true, _) => Role::Skipped,
            (_, _, true) => Role::Chain,
            _ => Role::Stranded,
        };
        bundles.push(stop(name, role));
        let mut edge = |from: &str, kind| {
            edges.push(Edge { from: from.to_owned(), to: entry.name.clone(), kind });
        };
        entry.replaces.iter().for_each(|from| edge(from, EdgeKind::Replaces));
        entry.skips.iter().for_each(|from| edge(from, EdgeKind::Skips));
        entry.skip_range.iter().for_each(|from| edge(from, EdgeKind::SkipRange));
    }
    let mut known: BTreeSet<&str> = order.iter().map(|entry| entry.name.as_str()).collect();
    for edge in edges.iter().filter(|edge| edge.kind != EdgeKind::SkipRange) {
        if known.insert(&edge.from) {
            bundles.push(stop(&edge.from, Role::Missing));
        }
    }
    Lane {
        name: channel.name.clone(),
        default: channel.name == package.default_channel,
        deprecated: channel.deprecated.clone(),
        bundles,
        edges,
    }
}

impl Stop {
    /// What is said of it beside its name.
    fn remark(&self) -> Option<&'static str> {
        match self.role {
            Role::Head => Some("head"),
            Role::Chain => None,
            Role::Skipped => Some("skipped"),
            Role::Missing => Some("not in the channel"),
            Role::Stranded => Some("stranded"),
        }
    }
}

#[cfg(test)]
mod tests;

//! Upgrade graphs of a package from the metadata of its bundles: pure functions.

mod default_channel;
mod replaces;
mod semver;

use std::collections::BTreeMap;

use olm_version::Version;
use serde_json::{Value, json};

use crate::problem::Severity;

/// How the channels of a package are generated (`updateGraph` in `ci.yaml`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// By `replaces`, `skips` and `olm.skipRange` of the ClusterServiceVersions, from the highest version of
    /// each channel down.
    #[default]
    Replaces,
    /// By version: each one replaces the next lower one of its channel.
    Semver,
    /// By version, one step a minor version: the highest patch replaces the highest patch before it and skips
    /// the lower ones of its own minor version.
    SemverSkipPatch,
}

impl Mode {
    /// Parses `updateGraph`; `-mode` at the end is optional, as in upstream's flag `--mode`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix("-mode").unwrap_or(text) {
            "replaces" => Some(Self::Replaces),
            "semver" => Some(Self::Semver),
            "semver-skippatch" => Some(Self::SemverSkipPatch),
            _ => None,
        }
    }
}

/// Graph metadata of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub name: String,
    pub version: Version,
    pub replaces: Option<String>,
    pub skips: Vec<String>,
    pub skip_range: Option<String>,
    pub channels: Vec<String>,
    pub default_channel: Option<String>,
    /// Its author set the property `olm.deprecated`.
    pub deprecated: bool,
}

/// A bundle's entry in a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub replaces: Option<String>,
    pub skips: Vec<String>,
    pub skip_range: Option<String>,
}

impl Entry {
    fn of(node: &Node) -> Self {
        let (name, skip_range) = (node.name.clone(), node.skip_range.clone());
        Self { name, replaces: None, skips: Vec::new(), skip_range }
    }

    /// The entry in the format of an `olm.channel` document.
    pub fn document(&self) -> Value {
        let mut entry = json!({"name": self.name});
        if let Some(replaces) = &self.replaces {
            entry["replaces"] = replaces.as_str().into();
        }
        if !self.skips.is_empty() {
            entry["skips"] = json!(self.skips);
        }
        if let Some(range) = &self.skip_range {
            entry["skipRange"] = range.as_str().into();
        }
        entry
    }
}

/// A finding for authors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GraphFinding {
    pub severity: Severity,
    /// The affected bundle.
    pub bundle: Option<String>,
    pub code: &'static str,
    pub text: String,
    pub fix: &'static str,
}

impl GraphFinding {
    pub fn new(
        severity: Severity,
        bundle: &str,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) -> Self {
        let bundle = (!bundle.is_empty()).then(|| bundle.to_owned());
        Self { severity, bundle, code, text, fix }
    }
}

/// The channels of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    /// `None` without any channel.
    pub default_channel: Option<String>,
    /// By name; entries by version, the lowest first.
    pub channels: BTreeMap<String, Vec<Entry>>,
    pub notes: Vec<GraphFinding>,
}

impl Graph {
    /// Whether a bundle is in any channel.
    pub fn lists(&self, bundle: &str) -> bool {
        self.channels.values().flatten().any(|entry| entry.name == bundle)
    }
}

/// The channels that upstream's `opm registry add --mode …`, one bundle after the other by version, and `opm
/// migrate` generate from these bundles.
/// Where upstream rejects the whole package, the faulty bundle is left out with a note. `bridge`: see
/// [`super::Options::bridge_gaps`].
pub(crate) fn graph(mode: Mode, nodes: &[Node], bridge: bool) -> Graph {
    let mut graph = Graph::default();
    let nodes = unique(nodes, &mut graph.notes);
    match mode {
        Mode::Replaces => replaces::channels(&nodes, bridge, &mut graph),
        Mode::Semver => semver::channels(&nodes, false, &mut graph),
        Mode::SemverSkipPatch => semver::channels(&nodes, true, &mut graph),
    }
    tidy(&nodes, &mut graph);
    stranded(&nodes, &mut graph);
    default_channel::choose(mode, &nodes, &mut graph);
    graph
}

/// The channels of a `package.yaml`: name and head of each, and its `defaultChannel`.
pub(crate) fn graph_of_heads(
    nodes: &[Node],
    heads: &BTreeMap<String, String>,
    default_channel: Option<&str>,
    bridge: bool,
) -> Graph {
    let mut graph = Graph::default();
    let nodes = unique(nodes, &mut graph.notes);
    let mut there = BTreeMap::new();
    for (channel, head) in heads {
        match nodes.iter().find(|node| node.name == *head) {
            Some(node) => {
                there.insert(channel.as_str(), *node);
            }
            None => {
                let text = format!("channel {channel} is omitted: its head {head} is missing");
                let fix = "add this ClusterServiceVersion, or set currentCSV to an existing one";
                graph.notes.push(GraphFinding::new(Severity::Error, head, "channel-head-missing", text, fix));
            }
        }
    }
    replaces::from_heads(&nodes, there, bridge, &mut graph);
    tidy(&nodes, &mut graph);
    stranded(&nodes, &mut graph);
    default_channel::named(default_channel, &nodes, &mut graph);
    graph
}

/// Sorts entries by version, and deduplicates notes: one gap occurs in every channel that passes it.
fn tidy(nodes: &[&Node], graph: &mut Graph) {
    for entries in graph.channels.values_mut() {
        entries.sort_by_cached_key(|entry| nodes.iter().position(|node| node.name == entry.name));
    }
    let mut reported = Vec::new();
    for note in std::mem::take(&mut graph.notes) {
        if !reported.contains(&note) {
            reported.push(note);
        }
    }
    graph.notes = reported;
}

/// The bundles by version, each name and each version once.
fn unique<'a>(nodes: &'a [Node], notes: &mut Vec<GraphFinding>) -> Vec<&'a Node> {
    let mut sorted: Vec<&Node> = nodes.iter().collect();
    // `Ord` of a version includes build metadata, as upstream's choice of a channel head does.
    sorted.sort_by(|a, b| a.version.cmp(&b.version).then_with(|| a.name.cmp(&b.name)));
    let mut unique: Vec<&Node> = Vec::new();
    for node in sorted {
        if unique.iter().any(|other| other.name == node.name) {
            let text = format!("two bundles are named {}; the second one is omitted", node.name);
            let fix = "set a unique name for each ClusterServiceVersion";
            notes.push(GraphFinding::new(Severity::Error, &node.name, "bundle-duplicate", text, fix));
        } else if let Some(other) = unique.iter().find(|other| other.version == node.version) {
            let text = format!(
                "{} and {} both have version {}; {} is omitted",
                other.name, node.name, node.version, node.name
            );
            let fix = "set a unique version for each bundle";
            notes.push(GraphFinding::new(Severity::Error, &node.name, "version-duplicate", text, fix));
        } else {
            unique.push(node);
        }
    }
    unique
}

/// Reports bundles without a channel, which cannot be installed.
fn stranded(nodes: &[&Node], graph: &mut Graph) {
    for node in nodes {
        if graph.lists(&node.name) || node.deprecated {
            continue;
        }
        let text = format!("{} is omitted: not reachable in any channel", node.name);
        let fix = "replace or skip it in the next newer bundle, or set its channel in \
         metadata/annotations.yaml (operators.operatorframework.io.bundle.channels.v1)";
        graph.notes.push(GraphFinding::new(Severity::Error, &node.name, "bundle-stranded", text, fix));
    }
}

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;

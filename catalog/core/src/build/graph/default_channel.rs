//! The channel of an install without a selected channel.

use super::{Graph, GraphFinding, Mode, Node};
use crate::problem::Severity;

/// The last bundle by version that names a default channel decides, as upstream. Otherwise it is the first
/// channel of the first bundle where the channels are by version, and the only channel where there is only
/// one.
/// Upstream rejects the name of a missing channel; here the last existing one is used, so that one mistake
/// does not hide the package.
pub(super) fn choose(mode: Mode, nodes: &[&Node], graph: &mut Graph) {
    let named: Vec<&str> = nodes.iter().rev().filter_map(|node| node.default_channel.as_deref()).collect();
    let wanted = match (named.first(), mode) {
        (Some(name), _) => Some(*name),
        (None, Mode::Replaces) => None,
        (None, Mode::Semver | Mode::SemverSkipPatch) => {
            nodes.first().and_then(|node| node.channels.iter().min()).map(String::as_str)
        }
    };
    set(wanted, &named, nodes, graph);
}

/// The default channel of a `package.yaml`.
pub(super) fn named(name: Option<&str>, nodes: &[&Node], graph: &mut Graph) {
    set(name, &[], nodes, graph);
}

fn set(wanted: Option<&str>, named: &[&str], nodes: &[&Node], graph: &mut Graph) {
    let mut names = graph.channels.keys();
    if let (Some(only), None) = (names.next(), names.next()) {
        graph.default_channel = Some(only.clone());
        return;
    }
    if let Some(wanted) = wanted.filter(|name| graph.channels.contains_key(*name)) {
        graph.default_channel = Some(wanted.to_owned());
        return;
    }
    let newest = nodes.iter().rev().flat_map(|node| node.channels.iter().map(String::as_str));
    let instead = named.iter().copied().chain(newest).find(|name| graph.channels.contains_key(*name));
    let Some(instead) = instead.map(str::to_owned).or_else(|| graph.channels.keys().next().cloned()) else {
        return; // No channel: `bundle-stranded` reports it.
    };
    let channels: Vec<&str> = graph.channels.keys().map(String::as_str).collect();
    let channels = channels.join(", ");
    let text = match wanted {
        Some(name) => {
            format!("default channel {name} is not one of its channels ({channels}); using {instead}")
        }
        None => format!("no bundle sets a default channel ({channels}); using {instead}"),
    };
    let fix = "set one in metadata/annotations.yaml of the newest bundle \
     (operators.operatorframework.io.bundle.channel.default.v1) or in package.yaml (defaultChannel)";
    graph.default_channel = Some(instead);
    graph.notes.push(GraphFinding::new(Severity::Error, "", "package-default-channel", text, fix));
}

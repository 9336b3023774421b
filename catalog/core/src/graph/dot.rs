//! Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{ChannelGraph, EdgeKind, Role, UpgradeGraph};

pub(super) fn write(graph: &UpgradeGraph) -> String {
    let mut text = format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", quoted(&graph.package));
    let mut next = 0;
    for (number, channel) in graph.channels.iter().enumerate() {
        let default = if channel.default { " (default)" } else { "" };
        let title = format!("{}{default}", channel.name);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  subgraph cluster_{number} {{\n    label={};", quoted(&title));
        if channel.deprecated.is_some() {
            text += "    color=orange;\n";
        }
        write_channel(channel, &mut next, &mut text);
        text += "  }\n";
    }
    text + "}\n"
}

fn write_channel(channel: &ChannelGraph, next: &mut usize, text: &mut String) {
    let mut ids: BTreeMap<&str, String> = BTreeMap::new();
    let mut id = || {
        *next += 1;
        format!("n{}", *next - 1)
    };
    for bundle in &channel.bundles {
        let node = id();
        let style = match bundle.role {
            Role::Head => ", penwidth=3",
            Role::Skipped => ", style=dashed",
            Role::Missing | Role::Stranded => ", style=dotted",
            Role::Chain => "",
        };
        let color = if bundle.deprecated.is_some() { ", color=orange" } else { "" };
        let fill = if bundle.installed { ", style=filled, fillcolor=lightgrey" } else { "" };
        let _ = writeln!(text, "    {node} [label={}{style}{color}{fill}];", quoted(&bundle.name));
        ids.insert(&bundle.name, node);
    }
    for edge in &channel.edges {
        let Some(to) = ids.get(edge.to.as_str()) else { continue };
        let style = if edge.hop.is_some() { ", color=blue, penwidth=3" } else { "" };
        match (edge.kind, ids.get(edge.from.as_str())) {
            (EdgeKind::SkipRange, _) => {
                let node = id();
                let label = quoted(&edge.from);
                let _ = writeln!(text, "    {node} [label={label}, shape=plaintext];");
                let _ = writeln!(text, "    {node} -> {to} [label=skipRange, style=dashed{style}];");
            }
            (kind, Some(from)) => {
                let _ = writeln!(text, "    {from} -> {to} [label={}{style}];", kind.word());
            }
            (_, None) => {}
        }
    }
}

/// A double-quoted text. A backslash starts an escape in a label (`\N` is the node's name), so it is doubled;
/// control characters have no meaning in a name.
fn quoted(text: &str) -> String {
    let mut escaped = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => escaped += "\\\"",
            '\\' => escaped += "\\\\",
            c if c.is_control() => {
                let _ = write!(escaped, "\\\\u{{{:x}}}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped + "\""
}

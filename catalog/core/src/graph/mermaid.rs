//! Mermaid flow charts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{ChannelGraph, EdgeKind, Role, UpgradeGraph};

/// Nodes are named by numbers: a name could be a keyword of mermaid.
pub(super) fn write(graph: &UpgradeGraph) -> String {
    let mut text = String::from(
        "graph LR\n  classDef head stroke-width:3px\n  classDef skipped stroke-dasharray:4\n  classDef missing stroke-dasharray:2,fill:none\n  classDef deprecated fill:#E8960F\n",
    );
    if graph.channels.iter().flat_map(|channel| &channel.bundles).any(|bundle| bundle.installed) {
        text += "  classDef installed fill:#BBBBBB\n";
    }
    let mut next = Numbers::default();
    for (number, channel) in graph.channels.iter().enumerate() {
        let default = if channel.default { " (default)" } else { "" };
        let title = format!("{} / {}{default}", graph.package, channel.name);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  subgraph c{number}[{}]", quoted(&title));
        write_channel(channel, &mut next, &mut text);
        text += "  end\n";
        if channel.deprecated.is_some() {
            let _ = writeln!(text, "  class c{number} deprecated");
        }
    }
    for link in &next.path {
        let _ = writeln!(text, "  linkStyle {link} stroke:blue,stroke-width:4px");
    }
    text
}

/// Counters of nodes and links over all channels.
#[derive(Default)]
struct Numbers {
    node: usize,
    link: usize,
    /// The links of the marked path.
    path: Vec<usize>,
}

fn write_channel(channel: &ChannelGraph, next: &mut Numbers, text: &mut String) {
    let mut ids: BTreeMap<&str, String> = BTreeMap::new();
    let mut id = || {
        next.node += 1;
        format!("n{}", next.node - 1)
    };
    for bundle in &channel.bundles {
        let node = id();
        let class = match (bundle.deprecated.is_some(), bundle.role) {
            (true, _) => ":::deprecated",
            (_, Role::Head) => ":::head",
            (_, Role::Skipped) => ":::skipped",
            (_, Role::Missing | Role::Stranded) => ":::missing",
            (_, Role::Chain) => "",
        };
        let _ = writeln!(text, "    {node}[{}]{class}", quoted(&bundle.name));
        if bundle.installed {
            let _ = writeln!(text, "    class {node} installed");
        }
        ids.insert(&bundle.name, node);
    }
    for edge in &channel.edges {
        let Some(to) = ids.get(edge.to.as_str()) else { continue };
        let line = match (edge.kind, ids.get(edge.from.as_str())) {
            (EdgeKind::SkipRange, _) => {
                format!("{}([{}]) -. {} .-> {to}", id(), quoted(&edge.from), edge.kind.word())
            }
            (_, Some(from)) => format!("{from} -- {} --> {to}", edge.kind.word()),
            (_, None) => continue,
        };
        let _ = writeln!(text, "    {line}");
        if edge.hop.is_some() {
            next.path.push(next.link);
        }
        next.link += 1;
    }
}

/// Escapes everything but plain characters by number, which mermaid accepts in texts.
fn quoted(text: &str) -> String {
    let mut escaped = String::from("\"");
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || " ._+-:/(),@".contains(character) {
            escaped.push(character);
        } else {
            let _ = write!(escaped, "#{};", u32::from(character));
        }
    }
    escaped + "\""
}

//! Text for terminals.

use super::{ChannelGraph, EdgeKind, GraphNode, Role, UpgradeGraph};

const COLUMNS: usize = 80;

pub(super) fn write(graph: &UpgradeGraph) -> String {
    let mut text = format!("package {}\n", plain(&graph.package));
    if let Some(reason) = &graph.deprecated {
        text += &wrapped("", "deprecated: ", reason.split_whitespace(), " ");
    }
    if graph.path.len() > 1 {
        text += &wrapped("", "path: ", graph.path.iter().map(String::as_str), " ->");
    }
    for channel in &graph.channels {
        text.push('\n');
        text += &write_channel(channel);
    }
    text
}

fn write_channel(channel: &ChannelGraph) -> String {
    let default = if channel.default { " (default)" } else { "" };
    let mut text = format!("channel {}{default}\n", plain(&channel.name));
    if let Some(reason) = &channel.deprecated {
        text += &wrapped("", "deprecated: ", reason.split_whitespace(), " ");
    }
    for bundle in channel.bundles.iter().filter(|bundle| bundle.role != Role::Missing) {
        text += &title(bundle);
        let from = |kind| {
            let edges = channel.edges.iter().filter(move |edge| edge.to == bundle.name && edge.kind == kind);
            edges.map(|edge| plain(&edge.from)).collect::<Vec<_>>()
        };
        for name in from(EdgeKind::Replaces) {
            text += &format!("      replaces {name}\n");
        }
        let skips = from(EdgeKind::Skips);
        if !skips.is_empty() {
            text += &wrapped("      ", "skips ", skips.iter().map(String::as_str), ", ");
        }
        for range in from(EdgeKind::SkipRange) {
            text += &wrapped("      ", "skips versions ", range.split_whitespace(), " ");
        }
        if let Some(reason) = &bundle.deprecated {
            text += &wrapped("      ", "deprecated: ", reason.split_whitespace(), " ");
        }
    }
    let missing: Vec<String> = channel
        .bundles
        .iter()
        .filter(|bundle| bundle.role == Role::Missing)
        .map(|bundle| plain(&bundle.name))
        .collect();
    if !missing.is_empty() {
        text += &wrapped("  ", "not in the channel: ", missing.iter().map(String::as_str), ", ");
    }
    text
}

fn title(bundle: &GraphNode) -> String {
    let mark = match bundle.role {
        Role::Head | Role::Chain => '*',
        Role::Skipped => '-',
        Role::Missing | Role::Stranded => '!',
    };
    let mut title = format!("  {mark} {}", plain(&bundle.name));
    // Most names end in the version.
    if let Some(version) = bundle.version.as_deref().filter(|version| !bundle.name.ends_with(*version)) {
        title += &format!(" ({})", plain(version));
    }
    title += &format!("  {}", bundle.annotations());
    title.trim_end().to_owned() + "\n"
}

/// Words after a lead, wrapped, with later lines below the first word.
fn wrapped<'a>(indent: &str, lead: &str, words: impl Iterator<Item = &'a str>, between: &str) -> String {
    let hang = " ".repeat(indent.len() + lead.len());
    let mut text = format!("{indent}{lead}");
    let mut column = hang.len();
    let mut words = words.map(plain).peekable();
    let mut first = true;
    while let Some(word) = words.next() {
        let word = if words.peek().is_some() { word + between.trim_end() } else { word };
        let width = word.chars().count();
        if !first && column + 1 + width > COLUMNS {
            text += &format!("\n{hang}");
            column = hang.len();
        } else if !first {
            text.push(' ');
            column += 1;
        }
        text += &word;
        column += width;
        first = false;
    }
    text + "\n"
}

/// Control characters would move the cursor of a terminal.
fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

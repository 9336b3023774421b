//! SVG: one line of bundles per channel, from old to new.

use std::fmt::Write as _;

use super::layout::{Layout, PlacedEdge, PlacedNode};
use super::{ChannelGraph, EdgeKind, GraphNode, Role, UpgradeGraph};

/// The style sheet of a drawing inside a page. Colours follow the page.
pub const STYLE: &str = include_str!("graph.css");

/// The style sheet of a drawing as a file: [`STYLE`] with the colours of the browser's theme.
const FILE_STYLE: &str = concat!(
    ":root { color-scheme: light dark; background: Canvas; color: CanvasText }\n",
    include_str!("graph.css")
);

/// Where a drawing is shown.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// A file of its own.
    File,
    /// An element of a page, in which the function links a bundle of a channel.
    Page(&'a dyn Fn(&ChannelGraph, &GraphNode) -> String),
}

const MARGIN: usize = 16;
const RADIUS: usize = 6;
/// Height of a line of text.
const LINE: usize = 18;
/// Width of a character of a label.
const CHARACTER: usize = 7;
/// Minimum distance between labels.
const GAP: usize = 16;
/// Longest label, and longest text of a tooltip, in characters.
const LABEL: usize = 24;
const TOOLTIP: usize = 300;
/// Height of the arc over one bundle, and of the highest one.
const ARC: usize = 12;
const HIGHEST_ARC: usize = 44;

const STAR: &str = "M0-4 1.2-1.3 4-1.3 1.7.5 2.5 3.4 0 1.7-2.5 3.4-1.7.5-4-1.3-1.2-1.3z";
const SLASH: &str = "M-4.2 4.2 4.2-4.2";

pub(super) fn write(graph: &UpgradeGraph, place: Place<'_>) -> String {
    let layout = graph.layout();
    let geometry = Geometry::of(&layout);
    let (width, height) = (geometry.width, geometry.height);
    let root = match place {
        Place::File => {
            format!("xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\"")
        }
        // Links inside an image are not announced.
        Place::Page(_) => format!("role=\"group\" width=\"{width}\" height=\"{height}\""),
    };
    let mut text = format!(
        "<svg class=\"upgrades\" {root} viewBox=\"0 0 {width} {height}\" aria-labelledby=\"upgrades-title upgrades-desc\">\n\
         <title id=\"upgrades-title\">Upgrade graph of {}</title>\n<desc id=\"upgrades-desc\">{}</desc>\n",
        escaped(&graph.package, LABEL),
        escaped(&description(graph, &layout), TOOLTIP),
    );
    if matches!(place, Place::File) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "<style>{FILE_STYLE}</style>");
    }
    for (lane, channel) in layout.lanes.iter().enumerate() {
        write_lane(&layout, &geometry, lane, channel, place, &mut text);
    }
    let _ = writeln!(
        text,
        "<text class=\"legend\" x=\"{MARGIN}\" y=\"{}\">{}</text>",
        height - MARGIN / 2,
        legend(&layout)
    );
    text + "</svg>\n"
}

fn description(graph: &UpgradeGraph, layout: &Layout<'_>) -> String {
    let names: Vec<&str> = layout.lanes.iter().map(|channel| channel.name.as_str()).collect();
    let mut text = format!(
        "Versions from left to right in channel{} {}.",
        if names.len() == 1 { "" } else { "s" },
        names.join(", ")
    );
    if graph.path.len() > 1 {
        text += &format!(" Upgrade path: {}.", graph.path.join(", "));
    }
    text
}

/// The marks that the drawing has.
fn legend(layout: &Layout<'_>) -> String {
    let any =
        |has: fn(&GraphNode) -> bool| layout.nodes.iter().flat_map(|node| &node.bundles).any(|one| has(one));
    let edges = |has: fn(&PlacedEdge) -> bool| layout.edges.iter().any(has);
    let entries = [
        (any(|bundle| bundle.role == Role::Head), "★ newest"),
        (any(|bundle| bundle.installed), "● installed"),
        (any(is_crossed), "crossed: skipped or excluded"),
        (any(|bundle| bundle.deprecated.is_some()), "struck through: deprecated"),
        (edges(|edge| edge.kind == EdgeKind::Replaces), "solid line: replaces"),
        (edges(|edge| edge.kind != EdgeKind::Replaces), "dashed line: skips, skipRange"),
        (edges(|edge| edge.hop.is_some()), "bold line: upgrade path"),
    ];
    let present: Vec<&str> = entries.into_iter().filter(|(has, _)| *has).map(|(_, entry)| entry).collect();
    present.join(" · ")
}

fn is_crossed(bundle: &GraphNode) -> bool {
    bundle.excluded || bundle.role == Role::Skipped
}

/// Positions in pixels.
struct Geometry {
    /// Centre of each column.
    x: Vec<usize>,
    lanes: Vec<LanePosition>,
    width: usize,
    height: usize,
}

#[derive(Clone, Copy)]
struct LanePosition {
    /// Left edge of its first bundle, where its title starts.
    left: usize,
    /// Baseline of its title.
    top: usize,
    /// The line of its bundles.
    line: usize,
}

impl Geometry {
    fn of(layout: &Layout<'_>) -> Self {
        let mut widths = vec![0; layout.columns];
        for node in &layout.nodes {
            widths[node.column] = widths[node.column].max(node_width(node));
        }
        let mut right = MARGIN;
        let centre = |width: &usize| {
            right += width + GAP;
            right - GAP - width / 2
        };
        let x: Vec<usize> = widths.iter().map(centre).collect();
        let mut bottom = MARGIN;
        let mut width = right.max(MARGIN + legend(layout).chars().count() * CHARACTER);
        let mut lanes = Vec::with_capacity(layout.lanes.len());
        for (lane, channel) in layout.lanes.iter().enumerate() {
            let first = layout.nodes.iter().find(|node| node.lane == lane);
            let left = first.map_or(MARGIN, |node| x[node.column] - node_width(node) / 2);
            let top = bottom + LINE;
            let arcs = layout.edges.iter().filter(|edge| layout.nodes[edge.from].lane == lane).map(arc);
            let line = top + arcs.max().unwrap_or_default() + LINE;
            width = width.max(left + lane_title(channel).chars().count() * CHARACTER);
            bottom = line + RADIUS + LINE + GAP;
            lanes.push(LanePosition { left, top, line });
        }
        Self { x, lanes, width: width + MARGIN, height: bottom + LINE }
    }
}

/// Height of the arc of an edge; none between neighbours.
fn arc(edge: &PlacedEdge) -> usize {
    match edge.from.abs_diff(edge.to) {
        0 | 1 => 0,
        distance => (ARC + 4 * (distance - 2)).min(HIGHEST_ARC),
    }
}

fn node_width(node: &PlacedNode<'_>) -> usize {
    (label(node).chars().count() * CHARACTER).max(4 * RADIUS)
}

fn label(node: &PlacedNode<'_>) -> String {
    match node.bundles.as_slice() {
        [bundle] => shortened(bundle.version.as_deref().unwrap_or(&bundle.name), LABEL),
        run => format!("{} versions", run.len()),
    }
}

fn lane_title(channel: &ChannelGraph) -> String {
    let mut title = shortened(&channel.name, 2 * LABEL);
    if channel.default {
        title += " (default)";
    }
    if channel.deprecated.is_some() {
        title += " (deprecated)";
    }
    title
}

fn write_lane(
    layout: &Layout<'_>,
    geometry: &Geometry,
    lane: usize,
    channel: &ChannelGraph,
    place: Place<'_>,
    text: &mut String,
) {
    let LanePosition { left, top, line } = geometry.lanes[lane];
    let title = escaped(&lane_title(channel), usize::MAX);
    let _ = writeln!(text, "<text class=\"lane\" x=\"{left}\" y=\"{top}\">{title}</text>");
    let [mut solid, mut dashed] = [String::new(), String::new()];
    for edge in layout.edges.iter().filter(|edge| layout.nodes[edge.from].lane == lane) {
        let [from, to] = [edge.from, edge.to].map(|node| geometry.x[layout.nodes[node].column]);
        let drawn = match arc(edge) {
            0 => format!("M{from} {line}H{to}"),
            // The top of the curve is half as high as its control point.
            height => {
                format!("M{from} {line}Q{} {} {to} {line}", usize::midpoint(from, to), line - 2 * height)
            }
        };
        let skips = edge.kind != EdgeKind::Replaces;
        match edge.hop {
            Some(hop) => {
                let class = if skips { "edge skips path" } else { "edge path" };
                let _ =
                    writeln!(text, "<path class=\"{class}\" d=\"{drawn}\"><title>hop {hop}</title></path>");
            }
            None if skips => dashed += &drawn,
            None => solid += &drawn,
        }
    }
    for (class, drawn) in [("edge", solid), ("edge skips", dashed)] {
        if !drawn.is_empty() {
            let _ = writeln!(text, "<path class=\"{class}\" d=\"{drawn}\"/>");
        }
    }
    for node in layout.nodes.iter().filter(|node| node.lane == lane) {
        let x = geometry.x[node.column];
        match node.bundles.as_slice() {
            [bundle] => write_bundle(channel, bundle, (x, line), &label(node), place, text),
            run => write_run(run, (x, line), &label(node), node_width(node), text),
        }
    }
}

fn write_bundle(
    channel: &ChannelGraph,
    bundle: &GraphNode,
    (x, y): (usize, usize),
    label: &str,
    place: Place<'_>,
    text: &mut String,
) {
    let off = matches!(bundle.role, Role::Skipped | Role::Missing | Role::Stranded);
    let classes = [
        ("head", bundle.role == Role::Head),
        ("off", off),
        ("installed", bundle.installed),
        ("deprecated", bundle.deprecated.is_some()),
        ("hop", bundle.hop.is_some()),
    ];
    let classes: String =
        classes.into_iter().filter(|(_, has)| *has).map(|(class, _)| format!(" {class}")).collect();
    let (open, close) = match place {
        Place::File => ("g".to_owned(), "g"),
        // The table beside the drawing has the same links for keyboards.
        Place::Page(link) => {
            (format!("a href=\"{}\" tabindex=\"-1\"", escaped(&link(channel, bundle), usize::MAX)), "a")
        }
    };
    let mut tooltip = bundle.name.clone();
    let annotations = bundle.annotations();
    if !annotations.is_empty() {
        tooltip += &format!(": {annotations}");
    }
    if let Some(why) = &bundle.deprecated {
        tooltip += &format!("; deprecated: {why}");
    }
    let _ = write!(
        text,
        "<{open} class=\"node{classes}\" transform=\"translate({x} {y})\"><title>{}</title><circle r=\"{RADIUS}\"/>",
        escaped(&tooltip, TOOLTIP)
    );
    let marks = [
        (bundle.installed, "<circle class=\"mark\" r=\"3\"/>".to_owned()),
        (bundle.role == Role::Head && !bundle.installed, format!("<path class=\"mark\" d=\"{STAR}\"/>")),
        (is_crossed(bundle), format!("<path class=\"cross\" d=\"{SLASH}\"/>")),
    ];
    for (_, mark) in marks.iter().filter(|(has, _)| *has) {
        *text += mark;
    }
    // An installed head has both marks.
    let star = if bundle.installed && bundle.role == Role::Head { "★ " } else { "" };
    let _ = writeln!(text, "<text y=\"20\">{star}{}</text></{close}>", escaped(label, usize::MAX));
}

fn write_run(run: &[&GraphNode], (x, y): (usize, usize), label: &str, width: usize, text: &mut String) {
    let name = |bundle: Option<&&GraphNode>| {
        bundle.map(|bundle| bundle.version.as_ref().unwrap_or(&bundle.name).clone()).unwrap_or_default()
    };
    let tooltip = format!("{label}, {} to {}", name(run.first()), name(run.last()));
    let deprecated = if run.iter().any(|bundle| bundle.deprecated.is_some()) { " deprecated" } else { "" };
    let (left, height) = (width / 2, LINE);
    let _ = writeln!(
        text,
        "<g class=\"run{deprecated}\" transform=\"translate({x} {y})\"><title>{}</title>\
         <rect x=\"-{left}\" y=\"-9\" width=\"{width}\" height=\"{height}\" rx=\"9\"/><text y=\"4\">{label}</text></g>",
        escaped(&tooltip, TOOLTIP)
    );
}

/// The start of a text.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Text for content and attributes. Control characters are not allowed in XML, and marks of direction would
/// reorder the text around them.
fn escaped(text: &str, most: usize) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in shortened(text, most).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {}
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;

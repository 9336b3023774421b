//! `olm catalog graph`.

use olm_catalog::graph::{Format, MOST_DRAWN_BUNDLES, UpgradeGraph};

use super::read::package;
use crate::{
    args::{GraphArgs, GraphFormat},
    exit::{Code, Failure},
    output::Stream,
    prose::printable,
};

pub async fn run(args: GraphArgs) -> Result<(), Failure> {
    let catalog = super::load(&args.source, &args.registry, Some(&args.package)).await?;
    let package = package(&catalog, &args.package)?;
    let channel = args.channel.as_deref();
    let graph = UpgradeGraph::of(&package, channel);
    let graph = graph.ok_or_else(|| Failure::from(&package.nearest_channel(channel.unwrap_or_default())))?;
    print_graph(graph, args.output, &[])
}

/// Prints a graph. A drawing of a package with many channels has the default channel and the picked ones.
pub fn print_graph(mut graph: UpgradeGraph, format: GraphFormat, picked: &[String]) -> Result<(), Failure> {
    if format == GraphFormat::Svg {
        let dropped = graph.keep_drawn(picked).len();
        if graph.channels.is_empty() {
            let why = format!(
                "failed to draw {}: channels of more than {MOST_DRAWN_BUNDLES} bundles are not drawn",
                graph.package
            );
            return Err(Failure::new(Code::Usage, why).hint("print the graph with -o dot or -o json"));
        }
        if dropped > 0 {
            eprintln!("note: {dropped} other channels are not drawn; draw one with --channel");
        }
    }
    let rendered = graph.write(match format {
        GraphFormat::Text => Format::Text,
        GraphFormat::Mermaid => Format::Mermaid,
        GraphFormat::Dot => Format::Dot,
        GraphFormat::Json => Format::Json,
        GraphFormat::Svg => Format::Svg,
    });
    let mut out = Stream::new();
    for line in rendered.lines() {
        // The text is escaped for its format, but may contain direction marks.
        out.line(&printable(line))?;
    }
    out.end()
}

//! `olm catalog graph`.

use olm_catalog::graph::{Format, UpgradeGraph};

use super::read::package;
use crate::{
    args::{Drawing, GraphArgs},
    exit::Failure,
    output::Stream,
    prose::printable,
};

pub async fn run(args: GraphArgs) -> Result<(), Failure> {
    let catalog = super::load(&args.source, &args.registry, Some(&args.package)).await?;
    let package = package(&catalog, &args.package)?;
    let channel = args.channel.as_deref();
    let picture = UpgradeGraph::of(&package, channel);
    let picture =
        picture.ok_or_else(|| Failure::from(&package.nearest_channel(channel.unwrap_or_default())))?;
    draw(&picture, args.output)
}

pub fn draw(picture: &UpgradeGraph, drawing: Drawing) -> Result<(), Failure> {
    let drawn = picture.write(match drawing {
        Drawing::Text => Format::Text,
        Drawing::Mermaid => Format::Mermaid,
        Drawing::Dot => Format::Dot,
        Drawing::Json => Format::Json,
    });
    let mut out = Stream::new();
    for line in drawn.lines() {
        // The text is escaped for its format, but may contain direction marks.
        out.line(&printable(line))?;
    }
    out.end()
}

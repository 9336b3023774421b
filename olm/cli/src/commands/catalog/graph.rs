//! `olm catalog graph`.

use olm_catalog::graph::{Format, graph};

use super::package;
use crate::{
    args::{Drawing, GraphArgs},
    exit::Failure,
    output::{Stream, printable},
};

pub async fn run(args: GraphArgs) -> Result<(), Failure> {
    let catalog = super::load(&args.source, &args.registry, Some(&args.package)).await?;
    let package = package(&catalog, &args.package)?;
    let format = match args.output {
        Drawing::Text => Format::Text,
        Drawing::Mermaid => Format::Mermaid,
        Drawing::Dot => Format::Dot,
        Drawing::Json => Format::Json,
    };
    let channel = args.channel.as_deref();
    let drawn = graph(&package, channel, format);
    let drawn = drawn.ok_or_else(|| Failure::from(&package.nearest_channel(channel.unwrap_or_default())))?;
    let mut out = Stream::new();
    for line in drawn.lines() {
        // Escaped for its format already; what turns the direction of text is not.
        out.line(&printable(line))?;
    }
    out.end()
}

//! A tile of the catalog: a package on 132 pixels.

use maud::{Markup, html};

use super::parts;

#[derive(Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) href: &'a str,
    pub(crate) icon: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) provider: &'a str,
    pub(crate) summary: &'a str,
    /// Capability level in words.
    pub(crate) capability: &'a str,
}

/// `foot` is the state of the package, or its version.
pub(crate) fn show(tile: &Tile<'_>, foot: &Markup) -> Markup {
    html! {
        article.tile {
            div.tile-head {
                (parts::icon(tile.icon, tile.name, ""))
                div {
                    h3 title=(tile.name) { a href=(tile.href) { (tile.name) } }
                    @if !tile.provider.is_empty() { div.by.line { (tile.provider) } }
                }
            }
            @if !tile.summary.is_empty() { p.summary { (tile.summary) } }
            div.foot { span { (foot) } (parts::capability_dots(tile.capability)) }
        }
    }
}

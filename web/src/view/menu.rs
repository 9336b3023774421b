//! A menu of further actions, which works without scripts.

use maud::{Markup, html};

use super::glyph::Glyph;

pub(crate) struct Item {
    pub(crate) label: String,
    pub(crate) href: String,
    /// Whether the action deletes something.
    pub(crate) danger: bool,
}

impl Item {
    pub(crate) fn new(label: impl Into<String>, href: impl Into<String>) -> Self {
        Self { label: label.into(), href: href.into(), danger: false }
    }

    pub(crate) fn danger(self) -> Self {
        Self { danger: true, ..self }
    }
}

/// `id` identifies the menu across live updates.
pub(crate) fn show(id: &str, items: &[Item]) -> Markup {
    html! {
        details.popup id=(id) {
            summary.button title="More actions" { (Glyph::More.draw()) span.visually-hidden { "More actions" } }
            ul { @for item in items { li { a class=[item.danger.then_some("danger")] href=(item.href) { (item.label) } } } }
        }
    }
}

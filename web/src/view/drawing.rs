//! A drawing that is wider than the page.

use maud::{Markup, PreEscaped, html};

/// Shows an SVG element whose author escaped every text in it.
pub(crate) fn show(label: &str, svg: String) -> Markup {
    html! {
        // A scrollable region is reachable by keyboard.
        div.scroll.drawing tabindex="0" role="region" aria-label=(label) { (PreEscaped(svg)) }
    }
}

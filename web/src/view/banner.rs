//! Banners: what the user has to know before the rest of the page.

use maud::{Markup, html};

use super::parts::{Tone, prose};

pub(crate) fn note(tone: Tone, body: &Markup) -> Markup {
    html! { div.banner.(tone.class()) { (tone.glyph().draw()) div { (body) } } }
}

/// A banner that screen readers announce at once.
pub(crate) fn alert(title: &str, text: &str, hint: Option<&str>) -> Markup {
    announced(&html! {
        strong { (title) }
        p { (text) }
        @if let Some(hint) = hint { p.small { "Hint: " (prose(hint)) } }
    })
}

/// The problems of a form, each with a link to its field.
pub(crate) fn problems(title: &str, items: &[Markup]) -> Markup {
    announced(&html! {
        strong { (title) }
        ul { @for item in items { li { (item) } } }
    })
}

fn announced(body: &Markup) -> Markup {
    html! {
        div.banner.bad role="alert" tabindex="-1" data-error-summary="" {
            (Tone::Bad.glyph().draw())
            div { (body) }
        }
    }
}

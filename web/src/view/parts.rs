//! Chips, states, empty states and similar components.

use maud::{Markup, html};
use olm_ops::Status;

pub(crate) use super::banner::{alert, note};
use super::{glyph::Glyph, layout::initial};

/// The tone of a component. Never by colour alone: an icon and a word accompany it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Info,
    Warn,
    Bad,
    Plain,
}

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Plain => "plain",
        }
    }

    pub(crate) fn glyph(self) -> Glyph {
        match self {
            Self::Good => Glyph::Check,
            Self::Info => Glyph::Info,
            Self::Warn => Glyph::Warning,
            Self::Bad => Glyph::Cross,
            Self::Plain => Glyph::Dot,
        }
    }
}

pub(crate) fn chip(tone: Tone, glyph: Glyph, text: &str) -> Markup {
    html! { span.chip.(tone.class()) { (glyph.draw()) (text) } }
}

/// A chip without an icon, for facts rather than states.
pub(crate) fn tag(text: &str) -> Markup {
    html! { span.chip { (text) } }
}

/// A state in a list: a dot and a word.
pub(crate) fn state(tone: Tone, word: &str) -> Markup {
    html! { span.state.{ "is-" (tone.class()) } { (word) } }
}

/// The status of an operator in a list.
pub(crate) fn status_in_list(status: Status) -> Markup {
    state(status_style(&status).0, status.word())
}

/// The status of an operator in a header.
pub(crate) fn status(status: &Status) -> Markup {
    let (tone, glyph) = status_style(status);
    chip(tone, glyph, status.word())
}

pub(crate) fn status_style(status: &Status) -> (Tone, Glyph) {
    match status {
        Status::Uninstalling => (Tone::Plain, Glyph::Trash),
        Status::Failed => (Tone::Bad, Glyph::Cross),
        Status::Degraded => (Tone::Warn, Glyph::Warning),
        Status::NeedsApproval => (Tone::Info, Glyph::Hand),
        Status::Installing | Status::Updating => (Tone::Info, Glyph::Spinner),
        Status::Paused => (Tone::Plain, Glyph::Pause),
        Status::CannotUpdate => (Tone::Warn, Glyph::Unlink),
        Status::UpdateAvailable => (Tone::Info, Glyph::Up),
        Status::Healthy => (Tone::Good, Glyph::Check),
        Status::Unmanaged => (Tone::Plain, Glyph::Unlink),
    }
}

/// Text with commands between backticks.
pub(crate) fn prose(text: &str) -> Markup {
    let is_even = text.matches('`').count().is_multiple_of(2);
    html! {
        @if is_even {
            @for (i, part) in text.split('`').enumerate() {
                @if i % 2 == 1 { code { (part) } } @else { (part) }
            }
        } @else { (text) }
    }
}

/// An explanation; one of several lines is rendered as a tree.
pub(crate) fn explained(why: &str) -> Markup {
    html! { @if why.contains('\n') { pre tabindex="0" { (why) } } @else { p { (prose(&sentence(why))) } } }
}

pub(crate) fn empty(title: &str, text: &str, action: Option<(&str, &str)>) -> Markup {
    html! {
        div.panel {
            div.empty {
                (Glyph::Box.draw())
                h2 { (title) }
                p { (text) }
                @if let Some((href, label)) = action { a.button href=(href) { (label) } }
            }
        }
    }
}

/// The icon of an operator, or its first letter.
pub(crate) fn icon(hash: Option<&str>, name: &str, size: &str) -> Markup {
    let px = match size {
        "big" => 40,
        "mini" => 24,
        _ => 36,
    };
    html! {
        @match hash {
            Some(hash) => img.icon.(size) src={ "/icons/" (hash) } width=(px) height=(px) alt="" loading="lazy";,
            None => span.icon.icon-letter.(size) aria-hidden="true" { (initial(name)) },
        }
    }
}

pub(crate) fn crumbs(way: &[(&str, &str)], here: &str) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            ol {
                @for (href, label) in way { li { a href=(href) { (label) } } }
                li aria-current="page" { (here) }
            }
        }
    }
}

/// Hidden field with the CSRF token.
pub(crate) fn csrf(token: &str) -> Markup {
    html! { input type="hidden" name="_csrf" value=(token); }
}

/// Text with a copy button.
pub(crate) fn copyable(id: &str, label: &str, text: &str) -> Markup {
    html! {
        div.stack-s {
            div.row.between {
                strong { (label) }
                button.button.slim.quiet type="button" data-copy=(id) hidden { "Copy" }
            }
            pre tabindex="0" id=(id) { (text) }
        }
    }
}

/// Capability level of the Operator Framework, as five dots with the word.
pub(crate) fn capability(word: &str) -> Markup {
    html! { span.nowrap { (dots(word)) " " (word) } }
}

/// The same without the visible word.
pub(crate) fn capability_dots(word: &str) -> Markup {
    html! {
        @if !word.is_empty() {
            span title=(word) { (dots(word)) span.visually-hidden { "Capability level: " (word) } }
        }
    }
}

fn dots(word: &str) -> Markup {
    let level = level(word);
    html! {
        @if level > 0 {
            span.dots aria-hidden="true" {
                @for i in 1..=CAPABILITIES.len() { span.off[i > level] { (if i > level { "○" } else { "●" }) } }
            }
        }
    }
}

/// The capability levels, lowest first.
pub(crate) const CAPABILITIES: [&str; 5] =
    ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];

/// The number of a capability level, from 1; 0 for other words.
pub(crate) fn level(word: &str) -> usize {
    CAPABILITIES.iter().position(|known| known.eq_ignore_ascii_case(word.trim())).map_or(0, |i| i + 1)
}

pub(crate) fn plural(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// A clause of a log or of JSON as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(clause: &str) -> String {
    let mut chars = clause.trim().chars();
    let Some(first) = chars.next() else { return String::new() };
    // `spec.size`, `startingCSV` and names of objects keep their case.
    let is_name =
        |word: &str| word.contains(['-', '/', '.', '_', '`']) || word.chars().any(char::is_uppercase);
    let first_word_is_a_name = clause.trim().split(' ').next().is_some_and(is_name);
    let mut out: String =
        if first_word_is_a_name { first.to_string() } else { first.to_uppercase().collect() };
    out.push_str(chars.as_str());
    if !out.ends_with(['.', '!', '?', ':', ')', '"', '`']) {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_become_sentences() {
        for (clause, expected) in [
            ("the object was deleted", "The object was deleted."),
            ("startingCSV asks for it (channel a)", "startingCSV asks for it (channel a)"),
            ("spec.size is wrong", "spec.size is wrong."),
            ("Done already.", "Done already."),
            ("", ""),
        ] {
            assert_eq!(sentence(clause), expected);
        }
    }
}

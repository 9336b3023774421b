//! Facets: links that narrow a list, with the number of items that each would leave.

use maud::{Markup, html};

use super::{glyph::Glyph, parts::plural};

/// Values of a facet that are shown at once; the others are folded.
const SHOWN: usize = 6;

pub(crate) struct Facet {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// Most frequent first.
    pub(crate) values: Vec<Value>,
}

pub(crate) struct Value {
    pub(crate) label: String,
    pub(crate) count: usize,
    pub(crate) selected: bool,
    /// The list with the value selected, or without it where it is selected.
    pub(crate) href: String,
}

/// A restriction of the list, with the list without it.
pub(crate) struct Applied {
    pub(crate) label: String,
    pub(crate) href: String,
}

/// The column of facets; in a narrow window a button opens it.
pub(crate) fn show(facets: &[Facet]) -> Markup {
    let selected = facets.iter().flat_map(|facet| &facet.values).filter(|value| value.selected).count();
    let facets: Vec<&Facet> = facets.iter().filter(|facet| !facet.values.is_empty()).collect();
    html! {
        @if !facets.is_empty() {
            details.facets #facets {
                summary { (Glyph::Filter.draw()) "Filters" @if selected > 0 { " (" (selected) ")" } }
                div.facet-list { @for facet in facets { (one(facet)) } }
            }
        }
    }
}

fn one(facet: &Facet) -> Markup {
    let values = || facet.values.iter().enumerate();
    let shown = |i: usize, value: &Value| i < SHOWN || value.selected;
    let folded: Vec<&Value> = values().filter(|(i, v)| !shown(*i, v)).map(|(_, value)| value).collect();
    let heading = format!("facet-{}", facet.id);
    html! {
        section.facet aria-labelledby=(heading) {
            h2 id=(heading) { (facet.title) }
            ul { @for (_, value) in values().filter(|(i, v)| shown(*i, v)) { (item(value)) } }
            @if !folded.is_empty() {
                details id={ (heading) "-more" } {
                    summary { (folded.len()) " more" }
                    ul { @for value in folded { (item(value)) } }
                }
            }
        }
    }
}

fn item(value: &Value) -> Markup {
    html! {
        li {
            a href=(value.href) aria-current=[value.selected.then_some("true")] {
                span.value title=(value.label) { (value.label) }
                span.count { (value.count) span.visually-hidden { " " (plural_only(value.count)) } }
            }
        }
    }
}

fn plural_only(count: usize) -> &'static str {
    if count == 1 { "operator" } else { "operators" }
}

/// The restrictions in force, each with a link that removes it.
pub(crate) fn applied(list: &[Applied], clear: &str) -> Markup {
    html! {
        @if !list.is_empty() {
            div.filters role="group" aria-label=(plural(list.len(), "filter")) {
                @for one in list {
                    a.applied href=(one.href) { span.visually-hidden { "Remove " } span.clip { (one.label) } (Glyph::Cross.draw()) }
                }
                a.button.quiet.slim href=(clear) { "Clear all" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_facet_is_folded_except_for_what_is_selected() {
        let values = (0..10).map(|i| Value {
            label: format!("v{i}<"),
            count: 10 - i,
            selected: i == 9,
            href: format!("/catalog?x=v{i}"),
        });
        let facet = Facet { id: "x", title: "X", values: values.collect() };
        let html = show(&[facet, Facet { id: "none", title: "None", values: Vec::new() }]).into_string();
        let (before, folded) = html.split_once("id=\"facet-x-more\"").unwrap();
        assert!(
            before.contains("v0&lt;") && before.contains("v9&lt;") && !before.contains("v6&lt;"),
            "{html}"
        );
        assert!(
            folded.contains("3 more") && folded.contains("v8&lt;") && !folded.contains("v9&lt;"),
            "{html}"
        );
        assert!(html.contains("Filters (1)") && !html.contains("None"), "{html}");
    }
}

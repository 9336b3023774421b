//! Tabs: pages of an object, or views of a form.

use maud::{Markup, html};

pub(crate) struct Tab<'a> {
    pub(crate) label: &'a str,
    pub(crate) target: Target<'a>,
    pub(crate) current: bool,
    pub(crate) count: Option<usize>,
}

#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// A page.
    Link(&'a str),
    /// A button of the form around the tabs: name and value.
    Submit(&'a str, &'a str),
}

impl<'a> Tab<'a> {
    pub(crate) fn new(label: &'a str, target: Target<'a>, current: bool) -> Self {
        Self { label, target, current, count: None }
    }

    pub(crate) fn count(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }
}

pub(crate) fn show(label: &str, tabs: &[Tab<'_>]) -> Markup {
    let are_pages = tabs.iter().all(|tab| matches!(tab.target, Target::Link(_)));
    let items = html! { @for tab in tabs { (item(tab)) } };
    html! {
        @if are_pages { nav.tabs aria-label=(label) { (items) } }
        @else { div.tabs role="group" aria-label=(label) { (items) } }
    }
}

fn item(tab: &Tab<'_>) -> Markup {
    let text = html! { (tab.label) @if let Some(count) = tab.count { span.count { (count) } } };
    html! {
        @match tab.target {
            Target::Link(href) => a href=(href) aria-current=[tab.current.then_some("page")] { (text) },
            // The current view needs no request.
            Target::Submit(..) if tab.current => button type="button" aria-current="true" { (text) },
            Target::Submit(name, value) => button name=(name) value=(value) formnovalidate { (text) },
        }
    }
}

//! Form fields: label, input, help and problem.

use maud::{Markup, html};

use super::glyph::Glyph;
use crate::links::clean;

/// A labelled input. The input has the id of the field, and is described by `ID-help` and `ID-problem`.
#[derive(Default)]
pub(crate) struct Field<'a> {
    id: &'a str,
    label: Markup,
    required: bool,
    help: Option<Markup>,
    problem: Option<&'a str>,
    /// The id of the whole field, which a preview replaces.
    part: Option<&'a str>,
    /// A further class, with a space before it.
    class: &'static str,
}

impl<'a> Field<'a> {
    pub(crate) fn new(id: &'a str, label: Markup) -> Self {
        Self { id, label, ..Self::default() }
    }

    pub(crate) fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    pub(crate) fn help(mut self, help: Option<Markup>) -> Self {
        self.help = help;
        self
    }

    pub(crate) fn problem(mut self, problem: Option<&'a str>) -> Self {
        self.problem = problem;
        self
    }

    pub(crate) fn part(mut self, part: &'a str) -> Self {
        self.part = Some(part);
        self
    }

    /// The confirmation of a deletion, shown only for choices that delete.
    pub(crate) fn confirm(mut self) -> Self {
        self.class = " confirm";
        self
    }

    pub(crate) fn show(&self, input: &Markup) -> Markup {
        html! {
            div class={ "field" (self.class) } id=[self.part] {
                label for=(self.id) {
                    (self.label)
                    @if self.required { " " span.req { "(required)" } }
                }
                (input)
                @if let Some(help) = &self.help { p.help id={ (self.id) "-help" } { (help) } }
                @if let Some(text) = self.problem { (problem(self.id, text)) }
            }
        }
    }
}

/// The elements that describe the input `id`, for its `aria-describedby`.
pub(crate) fn described_by(id: &str, has_help: bool, has_problem: bool) -> Option<String> {
    let parts = [(has_help, "-help"), (has_problem, "-problem")];
    let ids: Vec<String> =
        parts.into_iter().filter(|(has, _)| *has).map(|(_, suffix)| format!("{id}{suffix}")).collect();
    (!ids.is_empty()).then(|| ids.join(" "))
}

/// What is wrong with the input `id`.
pub(crate) fn problem(id: &str, text: &str) -> Markup {
    html! { p.problem id={ (id) "-problem" } { (Glyph::Warning.draw()) span { (clean(text)) } } }
}

/// An option of a radio group.
pub(crate) fn radio(name: &str, value: &str, checked: bool, label: &Markup, help: &Markup) -> Markup {
    choice(name, value, checked, false, label, help)
}

/// An option of a radio group that may be unavailable; `help` has the reason.
pub(crate) fn choice(
    name: &str,
    value: &str,
    checked: bool,
    disabled: bool,
    label: &Markup,
    help: &Markup,
) -> Markup {
    html! {
        label.choice {
            input type="radio" name=(name) value=(value) checked[checked] disabled[disabled];
            span { (label) small { (help) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_beside_its_field() {
        let field = Field::new("f-size", html! { "Size" }).required(true).problem(Some("must be <7"));
        let html = field.show(&html! { input id="f-size"; }).into_string();
        assert!(
            html.contains("<label for=\"f-size\">Size <span class=\"req\">(required)</span></label>"),
            "{html}"
        );
        assert!(html.contains("id=\"f-size-problem\"") && html.contains("must be &lt;7"), "{html}");
        assert!(!html.contains("f-size-help"), "{html}");
        // only what exists describes the input
        assert_eq!(described_by("f-size", false, true).as_deref(), Some("f-size-problem"));
        assert_eq!(described_by("f-size", true, true).as_deref(), Some("f-size-help f-size-problem"));
        assert_eq!(described_by("f-size", false, false), None);
    }
}

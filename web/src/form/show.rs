//! Renders the fields.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    field::{Field, Widget, id},
    read::{Problems, resource_parts},
};
use crate::{
    dynamic,
    links::clean,
    posted::Fields,
    view::field::{self, Field as FormField},
};

/// Values of the inputs: what the user typed, else the value of the document.
pub(crate) struct Values<'a> {
    pub(crate) document: &'a Value,
    pub(crate) typed: Option<&'a Fields>,
    pub(crate) problems: &'a Problems,
}

/// Renders all fields, with the less important ones collapsed.
pub(crate) fn show(
    fields: &[Field],
    document: &Value,
    typed: Option<&Fields>,
    problems: &Problems,
) -> Markup {
    let values = Values { document, typed, problems };
    list(fields, &values, "spec")
}

fn list(fields: &[Field], values: &Values<'_>, name: &str) -> Markup {
    let (rest, first): (Vec<&Field>, Vec<&Field>) = fields.iter().partition(|f| f.advanced);
    let wrong = |f: &&Field| f.leaves().iter().any(|leaf| values.problems.contains_key(&leaf.pointer));
    html! {
        @for field in &first { (one(field, values)) }
        @if !rest.is_empty() {
            details.fold id={ "more-" (name) } open[rest.iter().any(wrong)] {
                summary { "More options (" (rest.len()) ")" }
                div.body { @for field in &rest { (one(field, values)) } }
            }
        }
    }
}

fn one(field: &Field, values: &Values<'_>) -> Markup {
    let id = field.id();
    match &field.widget {
        Widget::Group(inner) => html! {
            fieldset.group {
                legend { (field.label) }
                @if !field.help.is_empty() { p.help { (field.help) } }
                (list(inner, values, &id))
            }
        },
        Widget::Resources => resources(field, values),
        Widget::Switch => {
            let on = match values.typed {
                Some(typed) => typed.raw(&field.pointer).is_some(),
                None => {
                    values.document.pointer(&field.pointer).or(field.default.as_ref())
                        == Some(&Value::Bool(true))
                }
            };
            html! {
                div.field {
                    label.choice for=(id) {
                        input type="checkbox" id=(id) name=(field.pointer) value="true" checked[on];
                        span { strong { (field.label) } @if !field.help.is_empty() { small { (field.help) } } }
                    }
                    (problem(&field.pointer, values))
                }
            }
        }
        _ => html! {
            (FormField::new(&id, html! { (field.label) })
                .required(field.required)
                .help(help(field))
                .problem(values.problems.get(&field.pointer).map(String::as_str))
                .show(&input(field, values)))
        },
    }
}

fn input(field: &Field, values: &Values<'_>) -> Markup {
    let id = field.id();
    let value = text(field, values);
    let bad = values.problems.contains_key(&field.pointer).then_some("true");
    let about = field::described_by(&id, help(field).is_some(), bad.is_some());
    let hint = field.default.as_ref().map(plain);
    html! {
        @match &field.widget {
            Widget::Number { integer, min, max } => {
                input type="number" id=(id) name=(field.pointer) value=(value) min=[min] max=[max]
                    step=(if *integer { "1" } else { "any" }) placeholder=[hint] aria-invalid=[bad] aria-describedby=[&about];
            }
            Widget::Select(options) => {
                select id=(id) name=(field.pointer) aria-invalid=[bad] aria-describedby=[&about] {
                    @if !field.required || field.default.is_some() {
                        option value="" { @match &hint { Some(hint) => { "Default (" (hint) ")" }, None => "Not set" } }
                    }
                    @for option in options { option value=(option) selected[*option == value] { (clean(option)) } }
                    // A value that is not among the options is retained.
                    @if !value.is_empty() && !options.contains(&value) { option value=(value) selected { (clean(&value)) } }
                }
            }
            Widget::Password => {
                input type="password" id=(id) name=(field.pointer) value=(value) autocomplete="new-password" aria-invalid=[bad] aria-describedby=[&about];
            }
            Widget::List => {
                textarea id=(id) name=(field.pointer) rows="3" placeholder="one per line" aria-invalid=[bad] aria-describedby=[&about] { "\n" (value) }
            }
            Widget::Map => {
                textarea id=(id) name=(field.pointer) rows="3" placeholder="key=value, one per line" aria-invalid=[bad] aria-describedby=[&about] { "\n" (value) }
            }
            Widget::Yaml => {
                textarea id=(id) name=(field.pointer) rows="4" placeholder="YAML" spellcheck="false" aria-invalid=[bad] aria-describedby=[&about] { "\n" (value) }
            }
            _ => {
                input type="text" id=(id) name=(field.pointer) value=(value) placeholder=[hint] autocomplete="off"
                    spellcheck="false" aria-invalid=[bad] aria-describedby=[&about];
            }
        }
    }
}

fn resources(field: &Field, values: &Values<'_>) -> Markup {
    let labels = ["CPU request", "Memory request", "CPU limit", "Memory limit"];
    html! {
        fieldset.group {
            legend { (field.label) }
            @if !field.help.is_empty() { p.help { (field.help) } }
            div.grid2 {
                @for (pointer, label) in resource_parts(&field.pointer).into_iter().zip(labels) {
                    @let value = match values.typed.and_then(|t| t.raw(&pointer)) {
                        Some(typed) => typed.to_owned(),
                        None => values.document.pointer(&pointer).map(plain).unwrap_or_default(),
                    };
                    (FormField::new(&id(&pointer), html! { (label) }).show(&html! {
                        input type="text" id=(id(&pointer)) name=(pointer) value=(value) autocomplete="off"
                            placeholder=(if label.starts_with("CPU") { "100m" } else { "64Mi" });
                    }))
                }
            }
            (problem(&field.pointer, values))
        }
    }
}

fn problem(pointer: &str, values: &Values<'_>) -> Markup {
    html! {
        @if let Some(text) = values.problems.get(pointer) { (field::problem(&id(pointer), text)) }
    }
}

fn text(field: &Field, values: &Values<'_>) -> String {
    if let Some(typed) = values.typed.and_then(|typed| typed.raw(&field.pointer)) {
        return typed.to_owned();
    }
    let Some(value) = values.document.pointer(&field.pointer) else { return String::new() };
    match (&field.widget, value) {
        (Widget::List, Value::Array(items)) => items.iter().map(plain).collect::<Vec<_>>().join("\n"),
        (Widget::Map, Value::Object(map)) => {
            map.iter().map(|(k, v)| format!("{k}={}", plain(v))).collect::<Vec<_>>().join("\n")
        }
        (Widget::Yaml, value) => dynamic::yaml(value),
        (_, value) => plain(value),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The author's help, with the limits of a number.
fn help(field: &Field) -> Option<Markup> {
    let limits = limits(field);
    (!field.help.is_empty() || limits.is_some()).then(|| {
        html! { (field.help) @if let Some(limits) = limits { " " span.nowrap { (limits) } } }
    })
}

fn limits(field: &Field) -> Option<String> {
    let limits = match &field.widget {
        Widget::Number { min: Some(min), max: Some(max), .. } => Some(format!("{min} to {max}.")),
        Widget::Number { min: Some(min), .. } => Some(format!("At least {min}.")),
        Widget::Number { max: Some(max), .. } => Some(format!("At most {max}.")),
        _ => None,
    };
    // Unless the author's help already contains the limits.
    limits.filter(|limits| !field.help.contains(limits.trim_end_matches('.')))
}

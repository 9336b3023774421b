//! The page of an edit: form, review or conflict.

use maud::{Markup, html};
use serde_json::Value;

use super::{super::create, Edited, State, Step};
use crate::{
    form::{self, Difference},
    links::{clean, encode},
    view::{
        diff,
        field::Field as FormField,
        parts::{self, Tone},
        time,
    },
};

pub(super) fn show(title: &str, edited: &Edited, state: &State<'_>, csrf: &str) -> Markup {
    let kind = clean(&edited.kind.resource.kind);
    let list = format!("/instances/{}", encode(&edited.kind.crd));
    let (name, href) = (clean(&edited.name), edited.href());
    html! {
        (parts::crumbs(&[("/instances", "Instances"), (&list, &kind), (&href, &name)], "Edit"))
        div.head { div.head-text {
            h1 { (title) }
            p.muted { (kind) @if let Some(ns) = &edited.namespace { " in namespace " (clean(ns)) } }
            @if !edited.about.is_empty() && state.step == Step::Form { p.lead { (edited.about) } }
        } }
        @match state.step {
            Step::Form => (form_step(edited, state, csrf)),
            Step::Review => (review(edited, state, csrf)),
            Step::Conflict => (conflict(edited, state, csrf)),
        }
    }
}

fn form_step(edited: &Edited, state: &State<'_>, csrf: &str) -> Markup {
    let has_form = !edited.fields.is_empty();
    let yaml = create::yaml_input(&state.document, state.text, &state.problems);
    html! {
        form.stack method="post" action={ (edited.href()) "/edit" } novalidate[state.as_yaml] {
            (hidden(state, csrf))
            input type="hidden" name="view" value=(if state.as_yaml { "yaml" } else { "form" });
            // Enter in a field presses the first button of the form.
            button.visually-hidden name="action" value="review" tabindex="-1" aria-hidden="true" disabled[edited.why_not.is_some()] { "Review changes" }
            @if let Some(failed) = &state.failed { (parts::alert(&failed.what, &failed.why, failed.hint.as_deref())) }
            @if !state.problems.is_empty() {
                (create::summary("Not changed", &edited.fields, &state.problems, state.as_yaml))
            }
            @if state.merged { (merged(state)) }
            @if edited.live.pointer("/metadata/deletionTimestamp").is_some() {
                (parts::note(Tone::Warn, &html! { "This object is being deleted." }))
            }
            div.panel.narrow[!state.as_yaml] {
                div.body {
                    (create::views(has_form, state.as_yaml))
                    @if state.as_yaml {
                        @if !has_form { p.muted { "No form available: the cluster publishes no schema for this kind." } }
                        (FormField::new("document", html! { "Object" }).help(secret_help(edited)).show(&yaml))
                    } @else {
                        input type="hidden" name="document" value=(state.document);
                        div.stack { (form::show(&edited.fields, &state.document, state.typed, &state.problems)) }
                    }
                }
                footer.stack-s {
                    @if let Some(why) = &edited.why_not { (parts::note(Tone::Warn, &html! { (clean(why)) })) }
                    div.actions {
                        button.button.primary #review name="action" value="review" disabled[edited.why_not.is_some()] { "Review changes" }
                        a.button.quiet href=(edited.href()) { "Cancel" }
                    }
                }
            }
        }
    }
}

/// What the placeholders mean, if there are any.
fn secret_help(edited: &Edited) -> Option<Markup> {
    let any = edited.secrets().any(&form::editable(&edited.live));
    any.then(|| html! { "A value with dots is hidden and stays unchanged unless you replace it." })
}

fn hidden(state: &State<'_>, csrf: &str) -> Markup {
    html! {
        (parts::csrf(csrf))
        input type="hidden" name="base" value=(serde_json::to_string(&state.base).unwrap_or_default());
    }
}

/// The whole document, as a later step needs it.
fn whole(state: &State<'_>, csrf: &str) -> Markup {
    html! {
        (hidden(state, csrf))
        input type="hidden" name="view" value="document";
        input type="hidden" name="back" value=(if state.as_yaml { "yaml" } else { "form" });
        input type="hidden" name="document" value=(state.document);
    }
}

fn review(edited: &Edited, state: &State<'_>, csrf: &str) -> Markup {
    let none = state.changes.is_empty();
    html! {
        form.stack.narrow method="post" action={ (edited.href()) "/edit" } {
            (whole(state, csrf))
            section.panel #changes aria-labelledby="changes-h" {
                header { h2 #changes-h { "Changes" } (parts::tag(&state.changes.len().to_string())) }
                div.body.stack-s {
                    @if none { p { "No changes: the object matches the input." } }
                    (differences(&state.changes, false))
                    @if !none { p.small.muted { "Validated by the API server. The object is not changed yet." } }
                }
                footer {
                    div.actions {
                        button.button.primary #save name="action" value="save" disabled[none] { "Save" }
                        button.button name="action" value="edit" { "Back to the input" }
                        a.button.quiet href=(edited.href()) { "Cancel" }
                    }
                }
            }
        }
    }
}

fn conflict(edited: &Edited, state: &State<'_>, csrf: &str) -> Markup {
    let what =
        if state.another { "The object was deleted and created again" } else { "The object was changed" };
    html! {
        form.stack.narrow method="post" action={ (edited.href()) "/edit" } {
            (whole(state, csrf))
            (parts::alert(what, "Your changes are not saved. The changes of others are listed below.",
                Some("press Edit again: your input is applied to the current object, and you review the result")))
            section.panel #changes aria-labelledby="changes-h" {
                header { h2 #changes-h { "Changes since you opened the page" } }
                div.body.stack-s {
                    (last_write(&edited.live))
                    @if state.changes.is_empty() { p { "The changed fields are unknown or hidden." } }
                    (differences(&state.changes, true))
                }
                footer {
                    div.actions {
                        button.button.primary #again name="action" value="merge" { "Edit again" }
                        a.button href={ (edited.href()) "/edit" } { "Discard my input" }
                        a.button.quiet href=(edited.href()) { "Cancel" }
                    }
                }
            }
        }
    }
}

/// The latest write that is not a report of status.
fn last_write(live: &Value) -> Markup {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let writes = entries.into_iter().flatten().filter(|entry| text(entry, "subresource").is_empty());
    let last = writes.max_by_key(|entry| text(entry, "time"));
    html! {
        @if let Some(last) = last {
            p { "Last change by " strong { (clean(&text(last, "manager"))) } ", " (time::ago(&text(last, "time"))) "." }
        }
    }
}

/// The fields that both changed.
fn merged(state: &State<'_>) -> Markup {
    html! {
        @if state.both.is_empty() {
            (parts::note(Tone::Info, &html! { "Your input is applied to the current object." }))
        } @else {
            (parts::note(Tone::Warn, &html! {
                strong { "Changed by others too. " }
                "The form contains your value of " (parts::plural(state.both.len(), "field")) "; the current value is struck out."
                (differences(&state.both, true))
            }))
        }
    }
}

fn differences(list: &[Difference], with_owner: bool) -> Markup {
    html! {
        @for change in list {
            @let by = change.by.as_ref().filter(|_| with_owner).map(|by| format!("by {by}"));
            (diff::field(&change.path, change.live.as_ref(), change.new.as_ref(), by.as_deref()))
        }
    }
}

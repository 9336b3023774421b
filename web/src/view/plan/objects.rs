//! The objects of a plan by kind, each with its diff.

use maud::{Markup, html};
use olm_plan::{Cause, Op, Plan, PlannedObject};

use crate::{
    links::clean,
    view::{diff, parts},
};

fn mark(op: Op) -> &'static str {
    match op {
        Op::Create => "+",
        Op::Update | Op::Adopt => "~",
        Op::Delete => "−",
        Op::Noop | Op::Unchanged => "·",
    }
}

/// Deletions first.
fn rank(op: Op) -> u8 {
    match op {
        Op::Delete => 0,
        Op::Update | Op::Adopt => 1,
        Op::Create => 2,
        Op::Noop | Op::Unchanged => 3,
    }
}

fn kind(object: &PlannedObject) -> &str {
    object.gvk.split('.').next().unwrap_or(&object.gvk)
}

/// The objects by kind: kinds with deletions first, then those with changes, which are open; `id`
/// distinguishes several plans on one page.
pub(super) fn grouped(plan: &Plan, id: &str) -> Markup {
    let mut objects: Vec<&PlannedObject> = plan.objects.iter().collect();
    objects.sort_by_key(|object| (kind(object), rank(object.op)));
    let mut groups: Vec<&[&PlannedObject]> = objects.chunk_by(|a, b| kind(a) == kind(b)).collect();
    groups.sort_by_key(|group| rank(group[0].op));
    html! {
        @if !groups.is_empty() {
            div.stack-s {
                h3 { "Objects" }
                div.kinds { @for group in groups { (one_kind(group, id)) } }
            }
        }
    }
}

fn one_kind(group: &[&PlannedObject], id: &str) -> Markup {
    let kind = clean(kind(group[0]));
    let by_op = group.chunk_by(|a, b| rank(a.op) == rank(b.op));
    html! {
        details.fold id={ (id) "-kind-" (kind) } open[rank(group[0].op) < rank(Op::Create)] {
            summary {
                (kind) " "
                span.small.muted {
                    @for (i, same) in by_op.enumerate() { @if i > 0 { ", " } (same.len()) " " (word(same[0].op)) }
                }
            }
            div.body { ul.objects { @for object in group { (item(object, &html! { (clean(&object.name)) })) } } }
        }
    }
}

fn word(op: Op) -> &'static str {
    match op {
        Op::Create => "to create",
        Op::Update | Op::Adopt => "to change",
        Op::Delete => "to delete",
        Op::Noop | Op::Unchanged => "unchanged",
    }
}

/// One object of a list of several kinds.
pub(super) fn line(object: &PlannedObject) -> Markup {
    item(object, &html! { span.kind { (clean(kind(object))) } " " (clean(&object.name)) })
}

/// One object; its diff is folded.
fn item(object: &PlannedObject, name: &Markup) -> Markup {
    let name = html! {
        span.visually-hidden { (object.op.as_str()) " " }
        (name)
        @if let Some(ns) = &object.ns { span.muted { " in " (clean(ns)) } }
    };
    html! {
        li {
            span.op.(object.op.as_str()) aria-hidden="true" { (mark(object.op)) }
            span.what {
                @if object.diff.is_empty() { (name) } @else {
                    details.changes {
                        summary { (name) span.muted { " · " (parts::plural(object.diff.len(), "field")) } }
                        @for change in &object.diff {
                            @let note = cause(change.cause, change.by.as_deref());
                            (diff::field(&change.path, change.live.as_ref(), change.new.as_ref(), note.as_deref()))
                        }
                    }
                }
                @if let Some(note) = &object.note { div.small.muted { (clean(note)) } }
                @if let Some(with) = &object.goes_with { div.small.muted { "deleted with " (clean(with)) } }
                @if object.masked { div.small.muted { "Secret values are not shown." } }
            }
        }
    }
}

/// The author of a difference, unless it is the new version.
fn cause(cause: Cause, by: Option<&str>) -> Option<String> {
    let what = match cause {
        Cause::Change | Cause::Unknown => return None,
        Cause::Drift => "changed since the last apply",
        Cause::Both => "changed since the last apply and by this version",
    };
    Some(by.map_or_else(|| what.to_owned(), |by| format!("{what} by {by}")))
}

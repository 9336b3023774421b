//! Revision history with rollback.

use maud::{Markup, html};
use olm_ops::{Approval, Installed, Overview, Revision};

use crate::{
    links::{clean, encode},
    pages::installed::href,
    view::{
        parts::{self, Tone},
        time,
    },
};

/// Every stored revision, newest first.
pub(super) fn show(view: &Overview) -> Markup {
    let one = &view.timeline.installed;
    html! {
        section.panel #history aria-labelledby="history-h" {
            header { h2 #history-h { "Revision history" } }
            @if view.history.is_empty() {
                div.body { p.muted { "No completed plans." } }
            } @else {
                ul.rows { @for revision in &view.history { li { (row(one, revision)) } } }
            }
        }
    }
}

fn row(one: &Installed, revision: &Revision) -> Markup {
    let back = format!("{}/rollback?to={}", href(one), encode(&revision.csv));
    html! {
        div.grow.stack-xs {
            div.row {
                strong { (clean(&revision.version)) }
                @if revision.current { (parts::chip(Tone::Good, Tone::Good.glyph(), "Installed")) }
                @if let Some(at) = &revision.at { span.small.muted { (time::ago(at)) } }
            }
            p.small.muted { (approved(&revision.approval)) }
            p.small.muted { (clean(&revision.summary)) " · " code { (clean(&revision.plan)) } }
        }
        @if revision.older {
            a.button.slim href=(back) { "Roll back" span.visually-hidden { " to " (clean(&revision.version)) } }
        }
    }
}

/// The approver of a plan, or the author of the request that permits an automatic approval.
pub(super) fn approved(approval: &Approval) -> Markup {
    let who = approval.who();
    html! {
        @match who.as_str() {
            _ if approval.automatic => {
                "Automatic"
                @if let Some(author) = &approval.requested_by { ", requested by " (clean(author)) }
            }
            "unknown" => "Approved; approver not recorded",
            who => {
                "Approved by " (clean(who))
                @if let (Some(_), Some(with)) = (&approval.by, &approval.with) { " with " (clean(with)) }
            }
        }
        @if let Some(at) = approval.at.as_ref().filter(|_| !approval.automatic) { ", " (time::ago(at)) }
    }
}

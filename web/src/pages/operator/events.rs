//! Events of the operator's objects.

use maud::{Markup, html};
use olm_ops::{EventLine, Overview};

use crate::{
    links::clean,
    view::{
        parts::{self, Tone},
        time,
    },
};

/// Newest first.
pub(super) fn show(view: &Overview, list: &[EventLine]) -> Markup {
    let one = &view.timeline.installed;
    html! {
        div.stack {
            section.panel #events aria-labelledby="events-h" {
                header { h2 #events-h { "Events" } }
                @if list.is_empty() {
                    div.body { p.muted { "No events in the last hour." } }
                } @else {
                    ul.rows.events { @for event in list.iter().rev() { li { (row(event)) } } }
                }
            }
            p.small.muted { "Command line: " code { "olm events " (clean(&one.package)) " -n " (one.namespace) } }
        }
    }
}

fn row(event: &EventLine) -> Markup {
    html! {
        div.grow {
            div.row {
                @if event.type_ == "Warning" { (parts::chip(Tone::Warn, Tone::Warn.glyph(), &clean(&event.reason))) }
                @else { strong { (clean(&event.reason)) } }
                span.small.muted.clip { (clean(&event.object)) }
            }
            span.small { (clean(&event.message)) }
        }
        span.small.muted.when { (time::ago(&event.time)) }
    }
}

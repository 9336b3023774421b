//! Events, as a panel.

use maud::{Markup, html};

use super::{
    parts::{self, Tone},
    time,
};
use crate::links::clean;

pub(crate) struct Line<'a> {
    pub(crate) warning: bool,
    pub(crate) reason: &'a str,
    /// The object, or the number of occurrences.
    pub(crate) note: String,
    pub(crate) message: &'a str,
    /// In RFC 3339.
    pub(crate) time: &'a str,
}

/// The events, or why they cannot be read.
pub(crate) fn panel(list: Result<&[Line<'_>], &str>) -> Markup {
    html! {
        section.panel #events aria-labelledby="events-h" {
            header { h2 #events-h { "Events" } }
            @match list {
                Err(why) => div.body { p.muted { "Failed to read events: " (clean(why)) } },
                Ok([]) => div.body { p.muted { "No events in the last hour." } },
                Ok(lines) => ul.rows.events { @for line in lines { li { (row(line)) } } },
            }
        }
    }
}

fn row(line: &Line<'_>) -> Markup {
    let reason = clean(line.reason);
    html! {
        div.grow {
            div.row {
                @if line.warning { (parts::chip(Tone::Warn, Tone::Warn.glyph(), &reason)) } @else { strong { (reason) } }
                @if !line.note.is_empty() { span.small.muted.clip { (clean(&line.note)) } }
            }
            span.small { (clean(line.message)) }
        }
        span.small.muted.when { (time::ago(line.time)) }
    }
}

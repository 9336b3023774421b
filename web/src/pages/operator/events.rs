//! Events of the operator's objects.

use maud::{Markup, html};
use olm_ops::{EventLine, Overview};

use crate::{
    links::word,
    view::events::{self, Line},
};

/// Newest first.
pub(super) fn show(view: &Overview, list: &[EventLine]) -> Markup {
    let one = &view.timeline.installed;
    let lines: Vec<Line<'_>> = list.iter().rev().map(line).collect();
    html! {
        div.stack {
            (events::panel(Ok(&lines)))
            p.small.muted { "Command line: " code { "olm events " (word(&one.package)) " -n " (one.namespace) } }
        }
    }
}

fn line(event: &EventLine) -> Line<'_> {
    Line {
        warning: event.type_ == "Warning",
        reason: &event.reason,
        note: event.object.clone(),
        message: &event.message,
        time: &event.time,
    }
}

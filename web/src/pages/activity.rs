//! What happened to operators, and who approved it.

use std::collections::BTreeSet;

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use olm_ops::{Activity, ActivityLog};

use super::installed::home;
use crate::{
    caller::{Caller, Page},
    error::WebError,
    links::clean,
    posted::Fields,
    view::{
        layout::Section,
        parts::{self, Tone},
        table::{self, Column, Row, Style},
        time,
    },
};

/// `GET /activity`
pub(crate) async fn page(caller: Caller, RawQuery(query): RawQuery) -> Result<Response, WebError> {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let namespace = fields.text("namespace");
    let log = olm_ops::activity(&caller.client, namespace).await?;
    let body = view(&log, namespace);
    Ok(caller.answer(Page::new("Activity", Section::Activity, body), &log))
}

fn view(log: &ActivityLog, namespace: Option<&str>) -> Markup {
    html! {
        div.head {
            div.head-text {
                h1 { "Activity" }
                p.muted {
                    @if log.truncated { "the newest " (log.entries.len()) " entries" }
                    @else if log.entries.len() == 1 { "1 entry" }
                    @else { (log.entries.len()) " entries" }
                    @if let Some(namespace) = namespace { " in namespace " (clean(namespace)) }
                }
            }
        }
        div.stack {
            (filter(log, namespace))
            @if let Some(why) = &log.events_missing {
                (parts::note(Tone::Warn, &html! { strong { "Events are missing. " } span.small.muted { (clean(why)) } }))
            }
            @if log.entries.is_empty() {
                (parts::empty("No activity", "Events are retained for one hour by default, approvals as long as their plans.", None))
            } @else {
                div.panel { (list(log)) }
            }
        }
    }
}

/// A GET form; the script submits it when the choice changes.
fn filter(log: &ActivityLog, namespace: Option<&str>) -> Markup {
    let namespaces: BTreeSet<&str> =
        log.entries.iter().map(|entry| entry.namespace.as_str()).chain(namespace).collect();
    html! {
        form.toolbar method="get" action="/activity" data-auto="" {
            label.visually-hidden for="activity-namespace" { "Namespace" }
            select #activity-namespace name="namespace" {
                option value="" { "All namespaces" }
                @for one in namespaces { option value=(one) selected[Some(one) == namespace] { (clean(one)) } }
            }
            button.button { "Filter" }
            @if namespace.is_some() { a.button.quiet href="/activity" { "Clear" } }
        }
    }
}

fn list(log: &ActivityLog) -> Markup {
    let columns = [
        Column::new("Operator"),
        Column::new("Namespace"),
        Column::new("Event").with_class(table::FILL),
        Column::new("By"),
        Column::new("Time").with_class(table::NUMBER),
    ];
    let rows: Vec<Row> = log.entries.iter().map(row).collect();
    table::show(Style::Records, "Events and approvals", &columns, &rows)
}

fn row(entry: &Activity) -> Row {
    let event = &entry.event;
    let (object, message) = (clean(&event.object), clean(&event.message));
    let tone = if event.type_ == "Warning" { Tone::Warn } else { Tone::Plain };
    Row::new(vec![
        html! {
            @match &entry.operator {
                Some(name) => a href=(home(&entry.namespace, name)) { (clean(name)) },
                None => span.muted { (object) },
            }
        },
        html! { (entry.namespace) },
        html! {
            span title=(object) { (parts::state(tone, &clean(&event.reason))) }
            @if !message.is_empty() { span.sub.line title=(message) { (message) } }
        },
        html! { (clean(&entry.who)) },
        html! { (time::ago(&event.time)) },
    ])
}

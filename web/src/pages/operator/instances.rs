//! Instances: the custom resources that the operator manages.

use jiff::Timestamp;
use maud::{Markup, html};
use olm_ops::{Instance, Overview, ReadableInstances};

use super::header;
use crate::{
    dynamic,
    links::{clean, encode},
    pages::instance::state_tone,
    view::{
        parts::{self, Tone},
        table::{self, Column, Row, Style},
        time,
    },
};

pub(super) fn show(view: &Overview, list: &ReadableInstances) -> Markup {
    let first = header::ready_kinds(view).first();
    html! {
        div.stack {
            @if !list.not_listed.is_empty() {
                (parts::note(Tone::Warn, &html! { "Missing permissions: " (clean(&list.not_listed.join("; "))) "." }))
            }
            @if list.instances.is_empty() {
                @let action = first.map(|crd| (header::create(&view.timeline.installed, crd), format!("Create {}", clean(&crd.kind))));
                (parts::empty("No instances", "The operator manages no objects of its kinds.", action.as_ref().map(|(href, label)| (href.as_str(), label.as_str()))))
            } @else {
                div.panel { (rows(&list.instances)) }
            }
        }
    }
}

fn rows(list: &[Instance]) -> Markup {
    let columns = [
        Column::new("Name"),
        Column::new("Kind"),
        Column::new("Namespace"),
        Column::new("State").with_class(table::FILL),
        Column::new("Age").with_class(table::NUMBER),
    ];
    let rows: Vec<Row> = list.iter().map(row).collect();
    table::show(Style::Records, "Instances of the operator", &columns, &rows)
}

fn row(one: &Instance) -> Row {
    let created: Option<Timestamp> = one.created.as_deref().and_then(|created| created.parse().ok());
    Row {
        id: Some(format!("row-{}/{}/{}", one.plural, one.namespace.as_deref().unwrap_or("-"), one.name)),
        cells: vec![
            html! { div.cell-name { a href=(href(one)) { (clean(&one.name)) } } },
            html! { (clean(&one.kind)) },
            html! { @if let Some(namespace) = &one.namespace { (clean(namespace)) } },
            html! {
                @if one.object.pointer("/metadata/deletionTimestamp").is_some() { (parts::state(Tone::Plain, "Deleting")) }
                @else if let Some(state) = dynamic::state_of(&one.object, created) { (parts::state(state_tone(state.health), &state.word)) }
            },
            html! { @if let Some(created) = &one.created { (time::age(created)) } },
        ],
    }
}

fn href(one: &Instance) -> String {
    let group = one.api_version.split('/').next().unwrap_or_default();
    let namespace = one.namespace.as_deref().unwrap_or("-");
    format!(
        "/instances/{}.{}/{}/{}",
        encode(&one.plural),
        encode(group),
        encode(namespace),
        encode(&one.name)
    )
}

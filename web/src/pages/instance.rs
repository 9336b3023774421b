//! An object of a custom kind: status fields that its operator describes, conditions, events and YAML.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use kube::Client;
use maud::{Markup, html};
use olm_api::csv::SpecDescriptor;
use olm_ops::{Health, OperandState};
use olm_plan::without_secrets;
use serde_json::{Value, json};

use crate::{
    app::App,
    caller::{Caller, Page},
    dynamic::{self, CustomKind, EventView, at_path},
    error::WebError,
    form::{Descriptor, HIDDEN, Secrets, label_from},
    links::{self, clean, encode},
    view::{
        events::{self, Line},
        layout::Section,
        parts::{self, Tone},
        ring,
        table::{self, Column, Row, Style},
        time,
    },
};

pub(crate) struct View {
    pub(crate) kind: CustomKind,
    namespace: Option<String>,
    name: String,
    object: Value,
    spec: Vec<SpecDescriptor>,
    status: Vec<SpecDescriptor>,
    events: Result<Vec<EventView>, String>,
}

impl View {
    pub(crate) async fn read(
        client: &Client,
        crd: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Self, WebError> {
        let namespace = (namespace != "-").then(|| namespace.to_owned());
        let csvs = dynamic::csvs(client, namespace.as_deref()).await.unwrap_or_default();
        let described = dynamic::described(&csvs, crd).map(|d| d.description).unwrap_or_default();
        let kind = CustomKind::read(client, crd, Some(&described.version)).await?;
        let object = kind.api(client, namespace.as_deref()).get(name).await?;
        let in_namespace = namespace.as_deref().unwrap_or("default");
        let events =
            dynamic::events(client, in_namespace, &kind.resource.kind, &object).await.map_err(|e| e.why);
        let object = dynamic::tidy(serde_json::to_value(object).unwrap_or_default());
        let secrets = Secrets::new(kind.schema.as_ref(), &described.spec_descriptors);
        let object = secrets.mask(&without_secrets(&object));
        Ok(Self {
            kind,
            namespace,
            name: name.to_owned(),
            object,
            spec: described.spec_descriptors,
            status: described.status_descriptors,
            events,
        })
    }

    pub(crate) fn announcement(&self) -> String {
        self.state().map(|state| state.word).unwrap_or_default()
    }

    fn created(&self) -> Option<&str> {
        self.object.pointer("/metadata/creationTimestamp").and_then(Value::as_str)
    }

    fn state(&self) -> Option<OperandState> {
        dynamic::state_of(&self.object, self.created().and_then(|created| created.parse().ok()))
    }
}

/// `GET /instances/{crd}/{namespace}/{name}`
pub(crate) async fn page(
    State(_app): State<Arc<App>>,
    caller: Caller,
    Path((crd, namespace, name)): Path<(String, String, String)>,
) -> Result<Response, WebError> {
    let view = View::read(&caller.client, &crd, &namespace, &name).await?;
    let kind = clean(&view.kind.resource.kind);
    let list = format!("/instances/{}", encode(&crd));
    let events = format!("/api/v1/events?instance={}/{}/{}", encode(&crd), encode(&namespace), encode(&name));
    let body = html! {
        (parts::crumbs(&[("/instances", "Instances"), (&list, &kind)], &name))
        div data-live=(events) { (render(&view)) }
        div.visually-hidden #announce role="status" {}
    };
    let title = format!("{name} · {kind}");
    let model = json!({ "object": view.object, "events": view.events.as_deref().unwrap_or_default() });
    // Without JavaScript, the page reloads to show the progress of the operator.
    Ok(caller.answer(Page::new(&title, Section::Instances, body).refresh(Some(10)), &model))
}

/// The live part of the page.
pub(crate) fn render(view: &View) -> Markup {
    let state = view.state();
    let deleting = view.object.pointer("/metadata/deletionTimestamp").is_some();
    let created = view.created();
    let href = view.kind.href(view.namespace.as_deref(), &view.name);
    html! {
        div.head #instance-head {
            div.head-text {
                h1 { (view.name) }
                p.muted {
                    (clean(&view.kind.resource.kind))
                    @if let Some(ns) = &view.namespace { " in " (ns) }
                    @if let Some(created) = created { " · created " (time::ago(created)) }
                }
            }
            @if deleting { (parts::chip(Tone::Plain, crate::view::glyph::Glyph::Trash, "Deleting")) }
            @else if let Some(state) = &state { (state_chip(&state.word, state.health)) }
            div.actions {
                a.button href={ (href) "/edit" } { "Edit" }
                a.button.danger href={ (href) "/delete" } { "Delete" }
            }
        }
        div.stack {
            (status(view))
            (conditions(&view.object))
            (spec(view))
            (events(view))
            details.fold #yaml {
                summary { "YAML" }
                div.body { (parts::copyable("object-yaml", "Object", &dynamic::yaml(&view.object))) }
            }
        }
    }
}

fn state_chip(state: &str, health: Health) -> Markup {
    let tone = state_tone(health);
    parts::chip(tone, tone.glyph(), state)
}

/// The tone of an object's state.
pub(crate) fn state_tone(health: Health) -> Tone {
    match health {
        Health::Good => Tone::Good,
        Health::Progressing | Health::Unknown => Tone::Info,
        Health::Degraded => Tone::Warn,
        Health::Bad => Tone::Bad,
    }
}

fn status(view: &View) -> Markup {
    let empty = Value::Null;
    let root = view.object.get("status").unwrap_or(&empty);
    let shown: Vec<(&SpecDescriptor, Descriptor)> = view
        .status
        .iter()
        .map(|d| (d, Descriptor::parse(&d.x_descriptors)))
        .filter(|(_, x)| !x.hidden && !x.conditions)
        .collect();
    html! {
        section.panel #status aria-labelledby="status-h" {
            header { h2 #status-h { "Status" } }
            div.body.stack {
                @if root.is_null() {
                    p.muted { "The operator has not reported a status yet." }
                } @else {
                    @for (d, _) in shown.iter().filter(|(_, x)| x.pod_statuses) {
                        @if let Some(ring) = at_path(root, &d.path).and_then(ring::show) {
                            div.stack-s { h3 { (title(d)) } (ring) }
                        }
                    }
                    dl.facts.wide {
                        @for (d, x) in shown.iter().filter(|(_, x)| !x.pod_statuses) {
                            @if let Some(value) = at_path(root, &d.path) { div { dt { (title(d)) } dd { (show(value, x)) } } }
                        }
                        @if shown.is_empty() {
                            @for (key, value) in root.as_object().into_iter().flatten().filter(|(k, v)| *k != "conditions" && !v.is_object() && !v.is_array()) {
                                div { dt { (clean(key)) } dd { (show(value, &Descriptor::default())) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn spec(view: &View) -> Markup {
    let empty = Value::Null;
    let root = view.object.get("spec").unwrap_or(&empty);
    let shown: Vec<(&SpecDescriptor, Descriptor, &Value)> = view
        .spec
        .iter()
        .filter_map(|d| Some((d, Descriptor::parse(&d.x_descriptors), at_path(root, &d.path)?)))
        .filter(|(_, x, _)| !x.hidden)
        .collect();
    html! {
        @if !shown.is_empty() {
            section.panel #spec aria-labelledby="spec-h" {
                header { h2 #spec-h { "Configuration" } }
                div.body { dl.facts.wide {
                    @for (d, x, value) in &shown { div { dt { (title(d)) } dd { (show(value, x)) } } }
                } }
            }
        }
    }
}

fn title(d: &SpecDescriptor) -> String {
    clean(d.display_name.as_deref().filter(|n| !n.is_empty()).unwrap_or(&d.path))
}

fn show(value: &Value, x: &Descriptor) -> Markup {
    html! {
        @if x.password { (HIDDEN) }
        @else if let (true, Some(link)) = (x.link, value.as_str().and_then(links::safe)) {
            a href=(link) rel="noopener noreferrer" { (link) }
        } @else {
            @match value {
                Value::String(text) => (clean(text)),
                Value::Bool(true) => "yes",
                Value::Bool(false) => "no",
                Value::Number(n) if x.pod_count => (parts::plural(usize::try_from(n.as_u64().unwrap_or(0)).unwrap_or(usize::MAX), "pod")),
                Value::Number(n) => (n),
                Value::Null => span.muted { "not set" },
                Value::Array(items) if items.iter().all(Value::is_string) => (clean(&items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))),
                Value::Array(items) => @match columns(items) {
                    Some(columns) => (list(&columns, items)),
                    None => pre tabindex="0" { (dynamic::yaml(value)) },
                },
                other => pre tabindex="0" { (dynamic::yaml(other)) },
            }
            @if let Some(kind) = &x.refers_to { " " span.small.muted { "(" (kind) ")" } }
        }
    }
}

/// Maximum number of columns of a table.
const COLUMNS: usize = 6;

/// The columns of a list of objects, the name first; `None` when the list is not suitable for a table: an
/// item is not an object, or has nested values.
fn columns(items: &[Value]) -> Option<Vec<&str>> {
    let mut columns: Vec<&str> = Vec::new();
    for item in items {
        for (key, value) in item.as_object()? {
            if value.is_object() || value.is_array() {
                return None;
            }
            if !columns.contains(&key.as_str()) {
                columns.push(key);
            }
        }
    }
    columns.sort_by_key(|key| *key != "name");
    (1..=COLUMNS).contains(&columns.len()).then_some(columns)
}

fn list(columns: &[&str], items: &[Value]) -> Markup {
    let names: Vec<String> = columns.iter().map(|column| label_from(&clean(column))).collect();
    let headings: Vec<Column<'_>> = names.iter().map(|name| Column::new(name)).collect();
    let cell = |item: &Value, column: &str| {
        html! { @if let Some(value) = item.get(column) { (show(value, &Descriptor::default())) } }
    };
    let row = |item: &Value| Row::new(columns.iter().map(|column| cell(item, column)).collect());
    let rows: Vec<Row> = items.iter().map(row).collect();
    table::show(Style::Nested, "Items", &headings, &rows)
}

fn conditions(object: &Value) -> Markup {
    let list =
        object.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |c: &Value, key: &str| clean(c.get(key).and_then(Value::as_str).unwrap_or_default());
    html! {
        @if !list.is_empty() {
            section.panel #conditions aria-labelledby="conditions-h" {
                header { h2 #conditions-h { "Conditions" } }
                ul.rows.conditions {
                    @for c in list {
                        @let message = text(c, "message");
                        li {
                            strong.clip { (text(c, "type")) }
                            span { @match text(c, "status").as_str() { "True" => "yes", "False" => "no", _ => "unknown" } }
                            div.why.clip {
                                (text(c, "reason"))
                                @if !message.is_empty() { div.small.muted { (message) } }
                            }
                            span.small.muted.when { (time::ago(&text(c, "lastTransitionTime"))) }
                        }
                    }
                }
            }
        }
    }
}

fn events(view: &View) -> Markup {
    let lines = view.events.as_ref().map(|list| list.iter().map(line).collect::<Vec<Line<'_>>>());
    events::panel(lines.as_deref().map_err(|why| why.as_str()))
}

fn line(event: &EventView) -> Line<'_> {
    Line {
        warning: event.warning,
        reason: &event.reason,
        note: if event.count > 1 { format!("{} times", event.count) } else { String::new() },
        message: &event.message,
        time: event.time.as_deref().unwrap_or_default(),
    }
}

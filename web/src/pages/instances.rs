//! Operands: objects of the kinds that operators provide.

use axum::{
    extract::{Path, Query},
    response::Response,
};
use futures::future::join_all;
use kube::{ResourceExt as _, api::ListParams};
use maud::{Markup, html};
use olm_ops::Health;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    caller::{Caller, Page},
    dynamic::{self, CustomKind},
    error::WebError,
    links::{clean, encode},
    view::{
        layout::Section,
        parts::{self, Tone},
        table::{self, Column, Style},
        time,
    },
};

/// A kind in the index.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KindRow {
    crd: String,
    kind: String,
    display_name: String,
    description: String,
    operator: String,
    /// Absent when the user may not list them.
    count: Option<usize>,
}

/// An object in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    namespace: Option<String>,
    name: String,
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
    created: Option<String>,
    deleting: bool,
    /// They hold a deletion until their controllers remove them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[serde(skip)]
    href: String,
}

/// `GET /instances`
pub(crate) async fn index(caller: Caller) -> Result<Response, WebError> {
    let csvs = dynamic::csvs(&caller.client, None).await?;
    let mut names: Vec<String> =
        csvs.iter().flat_map(|csv| csv.spec.owned_crds().iter().map(|d| d.name.clone())).collect();
    names.sort();
    names.dedup();
    let rows = join_all(names.iter().map(|crd| async {
        let described = dynamic::described(&csvs, crd)?;
        let kind = CustomKind::read(&caller.client, crd, Some(&described.description.version)).await.ok();
        let count = match kind {
            Some(kind) => kind
                .api(&caller.client, None)
                .list_metadata(&ListParams::default())
                .await
                .ok()
                .map(|l| l.items.len()),
            None => None,
        };
        let d = described.description;
        Some(KindRow {
            crd: crd.clone(),
            display_name: clean(d.display_name.as_deref().unwrap_or(&d.kind)),
            kind: clean(&d.kind),
            description: clean(d.description.as_deref().unwrap_or_default()),
            operator: clean(&described.csv.spec.display_name),
            count,
        })
    }))
    .await;
    let rows: Vec<KindRow> = rows.into_iter().flatten().collect();
    let body = html! {
        div.head { div.head-text { h1 { "Instances" } p.muted { "Kinds provided by the installed operators" } } }
        @if rows.is_empty() {
            (parts::empty("No kinds", "No installed operator provides custom resources.", Some(("/catalog", "Go to the catalog"))))
        } @else {
            div.panel { (kinds(&rows)) }
        }
    };
    Ok(caller.answer(Page::new("Instances", Section::Instances, body), &json!({ "kinds": rows })))
}

/// `GET /instances/{crd}`
pub(crate) async fn all_namespaces(
    caller: Caller,
    Path(crd): Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Response, WebError> {
    list(caller, &crd, None, query.deleted.as_deref()).await
}

/// `GET /instances/{crd}/{namespace}`
pub(crate) async fn one_namespace(
    caller: Caller,
    Path((crd, namespace)): Path<(String, String)>,
    Query(query): Query<ListQuery>,
) -> Result<Response, WebError> {
    list(caller, &crd, Some(&namespace), query.deleted.as_deref()).await
}

#[derive(Deserialize, Default)]
pub(crate) struct ListQuery {
    /// The object whose deletion was requested before.
    deleted: Option<String>,
}

async fn list(
    caller: Caller,
    crd: &str,
    namespace: Option<&str>,
    deleted: Option<&str>,
) -> Result<Response, WebError> {
    let kind = CustomKind::read(&caller.client, crd, None).await?;
    let objects = kind.api(&caller.client, namespace).list(&ListParams::default()).await?;
    let mut rows: Vec<Row> = objects
        .items
        .iter()
        .map(|object| {
            let created = object.metadata.creation_timestamp.as_ref().map(|t| t.0);
            let state = dynamic::state_of(&object.data, created);
            Row {
                namespace: object.namespace(),
                name: object.name_any(),
                health: state.as_ref().map(|state| state.health),
                state: state.map(|state| state.word),
                created: created.map(|t| t.to_string()),
                deleting: object.metadata.deletion_timestamp.is_some(),
                finalizers: object.finalizers().iter().map(|name| clean(name)).collect(),
                href: kind.href(object.namespace().as_deref(), &object.name_any()),
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let body = view(&kind, namespace, &rows, deleted);
    let title = clean(&kind.resource.kind);
    // Without JavaScript, the page reloads until the objects are gone.
    let refresh = rows.iter().any(|row| row.deleting).then_some(10);
    let page = Page::new(&title, Section::Instances, body).refresh(refresh);
    Ok(caller.answer(page, &json!({ "crd": crd, "objects": rows })))
}

/// The progress of a deletion.
fn deletion(name: &str, rows: &[Row]) -> Markup {
    let name = clean(name);
    let note = |tone, body: &Markup| html! { div role="status" { (parts::note(tone, body)) } };
    match rows.iter().find(|row| row.name == name) {
        Some(row) if row.deleting && !row.finalizers.is_empty() => note(
            Tone::Info,
            &html! {
                strong { (name) " is being deleted. " }
                "Its finalizers hold the deletion until their controllers remove them: " (row.finalizers.join(", ")) "."
            },
        ),
        Some(row) if row.deleting => note(Tone::Info, &html! { strong { (name) " is being deleted." } }),
        Some(_) => note(Tone::Warn, &html! { "An object named " strong { (name) } " exists." }),
        None => note(
            Tone::Good,
            &html! {
                strong { (name) " is deleted. " } "Objects that it owned are removed in the background."
            },
        ),
    }
}

fn view(kind: &CustomKind, namespace: Option<&str>, rows: &[Row], deleted: Option<&str>) -> Markup {
    let name = clean(&kind.resource.kind);
    let new = match namespace {
        Some(ns) => format!("/instances/new/{}?ns={}", encode(&kind.crd), encode(ns)),
        None => format!("/instances/new/{}", encode(&kind.crd)),
    };
    html! {
        (parts::crumbs(&[("/instances", "Instances")], &name))
        div.head {
            div.head-text {
                h1 { (name) }
                p.muted {
                    (parts::plural(rows.len(), "object")) " "
                    @match namespace { Some(ns) => { "in " (clean(ns)) " · " a href={ "/instances/" (encode(&kind.crd)) } { "all namespaces" } }, None => "in all namespaces" }
                }
            }
            div.actions { a.button.primary href=(new) { "Create " (name) } }
        }
        @if let Some(deleted) = deleted { (deletion(deleted, rows)) br; }
        @if rows.is_empty() {
            (parts::empty(&format!("No {name} yet"), "The form starts with the example of the operator.", Some((&new, &format!("Create {name}")))))
        } @else {
            div.panel { (objects(&name, rows)) }
        }
    }
}

fn objects(kind: &str, rows: &[Row]) -> Markup {
    let row = |row: &Row| {
        table::Row::new(vec![
            html! { div.cell-name { a href=(row.href) { (row.name) } } },
            html! { @if let Some(ns) = &row.namespace { (ns) } },
            html! {
                @if row.deleting {
                    (parts::state(Tone::Plain, "Deleting"))
                    @if !row.finalizers.is_empty() { span.sub { "Finalizers: " (row.finalizers.join(", ")) } }
                }
                @else if let (Some(state), Some(health)) = (&row.state, row.health) { (parts::state(super::instance::state_tone(health), state)) }
            },
            html! { @if let Some(created) = &row.created { (time::age(created)) } },
        ])
    };
    let columns = [
        Column::new("Name"),
        Column::new("Namespace"),
        Column::new("State").with_class(table::FILL),
        Column::new("Age").with_class(table::NUMBER),
    ];
    let rows: Vec<table::Row> = rows.iter().map(row).collect();
    table::show(Style::Records, &format!("Objects of kind {kind}"), &columns, &rows)
}

fn kinds(rows: &[KindRow]) -> Markup {
    let row = |row: &KindRow| {
        table::Row::new(vec![
            html! { div.cell-name { a href={ "/instances/" (encode(&row.crd)) } { (row.display_name) } } },
            html! {
                (row.operator)
                @if !row.description.is_empty() { span.sub.line title=(row.description) { (row.description) } }
            },
            html! { @match row.count { Some(count) => (parts::plural(count, "object")), None => "not listable" } },
            html! { a.button.slim href={ "/instances/new/" (encode(&row.crd)) } { "Create" span.visually-hidden { " " (row.kind) } } },
        ])
    };
    let columns = [
        Column::new("Kind"),
        Column::new("Operator").with_class(table::FILL),
        Column::new("Objects").with_class(table::NUMBER),
        Column::new("Actions").with_class(table::BUTTONS).unlabelled(),
    ];
    let rows: Vec<table::Row> = rows.iter().map(row).collect();
    table::show(Style::Records, "Kinds of the installed operators", &columns, &rows)
}

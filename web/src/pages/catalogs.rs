//! The CatalogSources of the cluster.

pub(crate) mod add;
pub(crate) mod detail;
pub(crate) mod remove;

use std::collections::BTreeSet;

use axum::{extract::RawQuery, response::Response};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::catalogs::{self, CatalogStatus, ClusterCatalog};
use serde_json::json;

use crate::{
    caller::{Caller, Page},
    error::WebError,
    links::{clean, encode},
    posted::Fields,
    view::{
        layout::Section,
        parts::{self, Tone, sentence},
        table::{self, Column, Row, Style},
        time,
    },
};

/// Seconds after which a page with a pending read reloads.
const RELOAD: u32 = 3;

/// URL of the page of a catalog.
pub(crate) fn href(namespace: &str, name: &str) -> String {
    format!("/catalogs/{}/{}", encode(namespace), encode(name))
}

/// The packages of a catalog.
fn packages_href(catalog: &ClusterCatalog) -> String {
    format!("/catalog?source={}.{}", encode(&catalog.namespace), encode(&catalog.name))
}

/// `GET /catalogs`
pub(crate) async fn page(caller: Caller, RawQuery(query): RawQuery) -> Result<Response, WebError> {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let namespace = fields.text("namespace");
    let sources = match catalogs::list_sources(&caller.client, namespace).await {
        Ok(sources) => sources,
        Err(error) => return refused(&caller, namespace, error.into()),
    };
    let list: Vec<ClusterCatalog> = sources.iter().map(ClusterCatalog::of).collect();
    let pending = list.iter().any(is_pending);
    let body = html! { div data-reload=[pending.then_some(RELOAD)] { (view(&list, namespace)) } };
    let page = Page::new("Catalogs", Section::Catalogs, body).refresh(pending.then_some(RELOAD));
    Ok(caller.answer(page, &json!({ "catalogs": list })))
}

/// A user without rights in the whole cluster selects a namespace.
fn refused(caller: &Caller, namespace: Option<&str>, error: WebError) -> Result<Response, WebError> {
    if caller.wants_json || error.status != StatusCode::FORBIDDEN {
        return Err(error);
    }
    let body = html! {
        div.head { div.head-text { h1 { "Catalogs" } } }
        div.stack {
            (filter(&[], namespace))
            (parts::note(Tone::Warn, &html! {
                strong { (error.what) ". " } (sentence(&clean(&error.why)))
                p.small { "Enter a namespace in which you may list catalogs, or ask an administrator for the permission." }
            }))
        }
    };
    Ok(caller.answer(Page::new("Catalogs", Section::Catalogs, body).status(error.status), &json!(null)))
}

/// Whether the state of the catalog will change without a further request.
fn is_pending(catalog: &ClusterCatalog) -> bool {
    catalog.refresh_pending || matches!(catalog.status, CatalogStatus::Reading | CatalogStatus::Removing)
}

fn view(list: &[ClusterCatalog], namespace: Option<&str>) -> Markup {
    html! {
        div.head {
            div.head-text {
                h1 { "Catalogs" }
                p.muted {
                    (parts::plural(list.len(), "catalog"))
                    @if let Some(namespace) = namespace { " in namespace " (clean(namespace)) }
                }
            }
            div.actions { a.button.primary href=(add::href(namespace)) { "Add a catalog" } }
        }
        (filter(list, namespace))
        @if list.is_empty() {
            (parts::empty("No catalogs", "Operators are installed from catalogs. Add one to see its packages.", Some((&add::href(namespace), "Add a catalog"))))
        } @else {
            div.panel { (rows(list)) }
        }
    }
}

/// A GET form. The namespace is a text: a user who may list one namespace may lack the right to list all of them.
fn filter(list: &[ClusterCatalog], namespace: Option<&str>) -> Markup {
    let namespaces: BTreeSet<&str> = list.iter().map(|catalog| catalog.namespace.as_str()).collect();
    html! {
        form.toolbar method="get" action="/catalogs" {
            label.visually-hidden for="catalogs-namespace" { "Namespace" }
            input #catalogs-namespace type="search" name="namespace" value=(namespace.unwrap_or_default()) placeholder="Namespace"
                list="catalogs-namespaces" autocomplete="off" spellcheck="false";
            datalist #catalogs-namespaces { @for one in namespaces { option value=(one) {} } }
            button.button { "Filter" }
            @if namespace.is_some() { a.button.quiet href="/catalogs" { "All namespaces" } }
        }
    }
}

fn rows(list: &[ClusterCatalog]) -> Markup {
    let columns = [
        Column::new("Name"),
        Column::new("Namespace"),
        Column::new("Status").with_class(table::PART),
        Column::new("Source").with_class(table::PART),
        Column::new("Packages").with_class(table::NUMBER),
        Column::new("Priority").with_class(table::NUMBER),
        Column::new("Last read").with_class(table::NUMBER),
    ];
    let rows: Vec<Row> = list.iter().map(row).collect();
    table::show(Style::Records, "Catalogs of the cluster", &columns, &rows)
}

fn row(one: &ClusterCatalog) -> Row {
    let reason = reason(one);
    let source = clean(&one.source);
    let title = [&one.display_name, &one.publisher].into_iter().flatten().map(|text| clean(text));
    let cells = vec![
        html! {
            div.cell-name { a href=(href(&one.namespace, &one.name)) { (clean(&one.name)) } }
            span.sub { (title.collect::<Vec<_>>().join(" · ")) }
        },
        html! { (one.namespace) },
        html! {
            (state(one.status))
            @if let Some(reason) = &reason { span.sub.line title=(reason) { (reason) } }
        },
        html! {
            span.line title=(source) { (source) }
            @if let Some(digest) = &one.digest { span.sub.line title=(clean(digest)) { (clean(digest)) } }
        },
        html! { @if let Some(packages) = one.packages { a href=(packages_href(one)) { (packages) } } },
        html! { (one.priority) },
        html! {
            @if let Some(read) = one.last_success { (time::ago(&read.to_string())) }
            span.sub.line { (polls(one)) }
        },
    ];
    Row { id: Some(format!("catalog-{}", one.reference())), cells }
}

/// The last poll of the registry, and the interval.
fn polls(one: &ClusterCatalog) -> Markup {
    html! {
        @match (one.last_poll, &one.poll_interval) {
            (Some(poll), Some(every)) => { "polled " (time::ago(&poll.to_string())) ", every " (clean(every)) }
            (Some(poll), None) => { "polled " (time::ago(&poll.to_string())) }
            (None, Some(every)) => { "every " (clean(every)) }
            (None, None) => {}
        }
    }
}

fn tone(status: CatalogStatus) -> Tone {
    match status {
        CatalogStatus::Failed => Tone::Bad,
        CatalogStatus::Stale => Tone::Warn,
        CatalogStatus::Reading => Tone::Info,
        CatalogStatus::Removing => Tone::Plain,
        CatalogStatus::Ready => Tone::Good,
    }
}

fn state(status: CatalogStatus) -> Markup {
    parts::state(tone(status), status.word())
}

/// Why the catalog is in its state, or what is wrong with its content.
fn reason(one: &ClusterCatalog) -> Option<String> {
    if let Some(message) = &one.message {
        let reason = one.reason.as_deref().filter(|reason| !message.contains(reason));
        let reason = reason.map(|reason| format!("{reason}: ")).unwrap_or_default();
        return Some(clean(&format!("{reason}{message}")));
    }
    if one.refresh_pending {
        return Some("refresh requested".to_owned());
    }
    (!one.problems.is_empty()).then(|| "some entries are invalid and not served".to_owned())
}

//! Installed operators, worst status first.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::{Installed, Status};
use serde_json::json;

use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::Snapshot,
    error::WebError,
    inventory::{Filter, Sort, count_updates, status_key},
    links::{clean, encode},
    rights,
    view::{
        layout::Section,
        parts::{self, Tone},
        table::{self, Column, Order, Row, Style},
        time,
    },
};

/// URL of the page of an installed operator.
pub(crate) fn href(one: &Installed) -> String {
    home(&one.namespace, &one.name)
}

pub(crate) fn home(namespace: &str, target: &str) -> String {
    format!("/installed/{}/{}", encode(namespace), encode(target))
}

/// `GET /installed`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let filter = Filter::parse(query.unwrap_or_default().as_bytes());
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    let installed = installed?;
    caller.set_installed(&installed);
    let cannot = rights::cannot_approve(&caller.client, &installed).await;
    let events = format!("/api/v1/events?installed&{}", filter.query());
    let body = html! {
        div #live-root data-live=(events.trim_end_matches('&')) {
            (view(&installed, &filter, &snapshot, caller.csrf(), &cannot))
        }
        div.visually-hidden #announce role="status" {}
    };
    let model = json!({ "installed": filter.select(&installed) });
    Ok(caller.answer(Page::new("Installed", Section::Installed, body), &model))
}

/// The live part of the page; `cannot` has why the user cannot approve plans, by namespace.
pub(crate) fn view(
    installed: &[Installed],
    filter: &Filter,
    snapshot: &Snapshot,
    csrf: &str,
    cannot: &BTreeMap<String, String>,
) -> Markup {
    let shown = filter.select(installed);
    html! {
        div #installed-list data-installed=(installed.len()) data-updates=(count_updates(installed)) {
            div.head {
                div.head-text {
                    h1 { "Installed" }
                    p.muted {
                        @if filter.is_restricted() { (shown.len()) " of " }
                        (parts::plural(installed.len(), "operator"))
                        @if shown.len() > 1 && filter.sort_value().is_none() { ", sorted by urgency" }
                    }
                }
            }
            @if installed.is_empty() {
                (parts::empty("No operators installed", "Install an operator from the catalog.", Some(("/catalog", "Go to the catalog"))))
            } @else {
                (toolbar(installed, filter))
                @if shown.is_empty() {
                    (parts::empty("No match", "No installed operator matches the filter.", Some(("/installed", "Clear the filter"))))
                } @else {
                    div.panel { (list(&shown, filter, snapshot, csrf, cannot)) }
                }
            }
        }
    }
}

/// The filter, a GET form; the script submits it when a choice changes.
fn toolbar(installed: &[Installed], filter: &Filter) -> Markup {
    let namespaces: BTreeSet<&str> = installed
        .iter()
        .map(|one| one.namespace.as_str())
        .chain(Some(filter.namespace.as_str()))
        .filter(|namespace| !namespace.is_empty())
        .collect();
    let statuses: BTreeSet<Status> = installed.iter().map(|one| one.status).collect();
    html! {
        form.toolbar #installed-filter method="get" action="/installed" data-auto="" {
            @if let Some(sort) = filter.sort_value() { input type="hidden" name="sort" value=(sort); }
            label.visually-hidden for="filter-text" { "Name, namespace or reason" }
            input #filter-text type="search" name="q" value=(filter.text) placeholder="Name, namespace or reason" autocomplete="off";
            label.visually-hidden for="filter-namespace" { "Namespace" }
            select #filter-namespace name="namespace" {
                option value="" { "All namespaces" }
                @for namespace in namespaces { option value=(namespace) selected[namespace == filter.namespace] { (clean(namespace)) } }
            }
            label.visually-hidden for="filter-status" { "Status" }
            select #filter-status name="status" {
                option value="" { "All states" }
                @for status in statuses {
                    @let key = status_key(status);
                    option value=(key) selected[key == filter.status] { (status.word()) }
                }
            }
            button.button { "Filter" }
            @if filter.is_restricted() { a.button.quiet href="/installed" { "Clear" } }
        }
    }
}

fn list(
    shown: &[&Installed],
    filter: &Filter,
    snapshot: &Snapshot,
    csrf: &str,
    cannot: &BTreeMap<String, String>,
) -> Markup {
    let sorted = |label: &'static str, sort: Sort| {
        let order = if filter.descending { Order::Descending } else { Order::Ascending };
        let current = (filter.sort == sort).then_some(order);
        Column::new(label).sort(table::Sort { href: filter.sorted(sort).href(), current })
    };
    let columns = [
        sorted("Name", Sort::Name),
        sorted("Namespace", Sort::Namespace),
        sorted("Status", Sort::Status).with_class(table::FILL),
        Column::new("Version").with_class(table::NUMBER),
        sorted("Age", Sort::Age).with_class(table::NUMBER),
        Column::new("Actions").with_class(table::BUTTONS).unlabelled(),
    ];
    let rows: Vec<Row> = shown.iter().map(|one| row(one, snapshot, csrf, cannot)).collect();
    table::show(Style::Records, "Installed operators", &columns, &rows)
}

fn row(one: &Installed, snapshot: &Snapshot, csrf: &str, cannot: &BTreeMap<String, String>) -> Row {
    let why_not = cannot.get(&one.namespace).map(String::as_str);
    let icon = snapshot.card(one.catalog.as_deref(), &one.package).and_then(|(_, card)| card.icon.as_deref());
    let (name, reason) = (name(one), clean(&one.reason));
    let cells = vec![
        html! { div.cell-name { (parts::icon(icon, &name, "mini")) a href=(href(one)) { (name) } } },
        html! { (one.namespace) },
        html! {
            (parts::status_in_list(one.status))
            @if !reason.is_empty() { span.sub.line title=(reason) { (reason) } }
            @for text in &one.deprecations {
                @let text = clean(text);
                span.sub.line title=(text) { (parts::state(Tone::Warn, "Deprecated")) ": " (text) }
            }
        },
        html! { (versions(one)) },
        html! { @if let Some(created) = &one.created { (time::age(created)) } },
        html! {
            @if one.status == Status::NeedsApproval { (decide(one, csrf, why_not)) }
        },
    ];
    Row { id: Some(format!("row-{}/{}", one.namespace, one.name)), cells }
}

pub(crate) fn name(one: &Installed) -> String {
    clean(if one.display_name.is_empty() { &one.package } else { &one.display_name })
}

/// The page for a refused action on an operator, with the reason and a link back. Other errors, and errors
/// for JSON clients, are returned as such.
pub(crate) fn cannot(
    caller: &Caller,
    (namespace, target): (&str, &str),
    error: WebError,
) -> Result<Response, WebError> {
    let refused = matches!(error.status, StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY);
    if caller.wants_json || !refused {
        return Err(error);
    }
    let home = home(namespace, target);
    let body = html! {
        (parts::crumbs(&[("/installed", "Installed"), (&home, &clean(target))], &error.what))
        div.head { div.head-text { h1 { (error.what) } p.muted { (clean(target)) " in namespace " (clean(namespace)) } } }
        div.stack.narrow {
            (parts::note(Tone::Bad, &html! {
                (parts::explained(&clean(&error.why)))
                @if let Some(hint) = &error.hint { p.small { "Hint: " (parts::prose(&clean(hint))) } }
            }))
            div.actions { a.button href=(home) { "Back" } }
        }
    };
    let page = Page::new(&error.what, Section::Installed, body).status(error.status);
    Ok(caller.answer(page, &json!(null)))
}

/// The version, and the next one when an upgrade is pending or in progress.
pub(crate) fn versions(one: &Installed) -> Markup {
    html! {
        @match (&one.version, one.next.as_ref().or(one.available.as_ref())) {
            (Some(from), Some(to)) if from != to => { (from) " " span aria-hidden="true" { "→" } span.visually-hidden { "to" } " " strong { (to) } }
            (Some(version), _) | (None, Some(version)) => (version),
            (None, None) => span.muted { "no version yet" },
        }
    }
}

/// The action on a pending plan in a list: approval, or a link to the plan where a review is needed first.
pub(crate) fn decide(one: &Installed, csrf: &str, why_not: Option<&str>) -> Markup {
    if one.review.is_some() { review(one, "slim") } else { approve(one, csrf, "slim", why_not) }
}

/// The link to a plan whose approval needs a review first.
pub(crate) fn review(one: &Installed, class: &str) -> Markup {
    html! {
        a.button.(class) href={ (href(one)) "/plan" } title=[one.review.as_deref().map(clean)] {
            "Review" @if let Some(next) = &one.next { " " (next) }
            span.visually-hidden { " of " (name(one)) }
        }
    }
}

/// The button that approves exactly the displayed plan, and why it is disabled.
pub(crate) fn approve(one: &Installed, csrf: &str, class: &str, why_not: Option<&str>) -> Markup {
    html! {
        (approve_form(one, csrf, class, why_not.is_some()))
        @if let Some(why) = why_not { p.small.muted { (clean(why)) } }
    }
}

/// The button alone.
pub(crate) fn approve_form(one: &Installed, csrf: &str, class: &str, disabled: bool) -> Markup {
    html! {
        @if let (Some(plan), Some(digest)) = (&one.plan, &one.plan_digest) {
            form id={ "approve-" (plan) } method="post" action={ (href(one)) "/approve" } {
                (parts::csrf(csrf))
                input type="hidden" name="plan" value=(plan);
                input type="hidden" name="digest" value=(digest);
                button.button.(class) disabled[disabled] {
                    "Approve" @if let Some(next) = &one.next { " " (next) }
                    span.visually-hidden { " of " (name(one)) }
                }
            }
        }
    }
}

//! Installed operators, worst status first.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::{Installed, Status};
use serde_json::json;

use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::Snapshot,
    error::WebError,
    links::{clean, encode},
    rights,
    view::{
        layout::Section,
        parts::{self, Tone},
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
pub(crate) async fn page(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, WebError> {
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    let installed = installed?;
    let cannot = rights::cannot_approve(&caller.client, &installed).await;
    let body = html! {
        (parts::live_row(&html! {}))
        div #live-root data-live="/api/v1/events?installed" { (view(&installed, &snapshot, caller.csrf(), &cannot)) }
        div.visually-hidden #announce role="status" {}
    };
    Ok(caller.answer(Page::new("Installed", Section::Installed, body), &json!({ "installed": installed })))
}

/// `cannot` has why the user cannot approve plans, by namespace.
pub(crate) fn view(
    installed: &[Installed],
    snapshot: &Snapshot,
    csrf: &str,
    cannot: &BTreeMap<String, String>,
) -> Markup {
    html! {
        div #installed-list {
            div.head {
                div.head-text {
                    h1 { "Installed" }
                    p.muted { (parts::plural(installed.len(), "operator")) @if installed.len() > 1 { ", sorted by urgency" } }
                }
            }
            @if installed.is_empty() {
                (parts::empty("No operators installed", "Install an operator from the catalog.", Some(("/catalog", "Go to the catalog"))))
            } @else {
                div.panel { ul.rows.operators { @for one in installed { li { (row(one, snapshot, csrf, cannot)) } } } }
            }
        }
    }
}

fn row(one: &Installed, snapshot: &Snapshot, csrf: &str, cannot: &BTreeMap<String, String>) -> Markup {
    let icon = snapshot.card(one.catalog.as_deref(), &one.package).and_then(|(_, card)| card.icon.as_deref());
    let name = name(one);
    html! {
        (parts::icon(icon, &name, "mini"))
        div.grow {
            a.name href=(href(one)) { (name) }
            div.small.muted {
                "in " (one.namespace)
                @if let Some(created) = &one.created { " · since " (time::ago(created)) }
            }
        }
        div.grow {
            (parts::status(&one.status))
            @if !one.reason.is_empty() { div.small.muted { (clean(&one.reason)) } }
        }
        div.nowrap.version { (versions(one)) }
        @if one.status == Status::NeedsApproval {
            @if one.review.is_some() { (review(one, "slim")) }
            @else { div { (approve(one, csrf, "slim", cannot.get(&one.namespace).map(String::as_str))) } }
        }
    }
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
        @match (&one.version, &one.next) {
            (Some(from), Some(to)) if from != to => { (from) " " span aria-hidden="true" { "→" } span.visually-hidden { "to" } " " strong { (to) } }
            (Some(version), _) | (None, Some(version)) => (version),
            (None, None) => span.muted { "no version yet" },
        }
    }
}

/// The link to a plan whose approval needs a review first.
pub(crate) fn review(one: &Installed, size: &str) -> Markup {
    html! {
        a.button.primary.(size) href={ (href(one)) "/plan" } title=[one.review.as_deref().map(clean)] {
            "Review" @if let Some(next) = &one.next { " " (next) }
            span.visually-hidden { " of " (name(one)) }
        }
    }
}

/// The button that approves exactly the displayed plan.
pub(crate) fn approve(one: &Installed, csrf: &str, size: &str, why_not: Option<&str>) -> Markup {
    html! {
        @if let (Some(plan), Some(digest)) = (&one.plan, &one.plan_digest) {
            form id={ "approve-" (plan) } method="post" action={ (href(one)) "/approve" } {
                (parts::csrf(csrf))
                input type="hidden" name="plan" value=(plan);
                input type="hidden" name="digest" value=(digest);
                button.button.primary.(size) disabled[why_not.is_some()] {
                    "Approve" @if let Some(next) = &one.next { " " (next) }
                    span.visually-hidden { " of " (name(one)) }
                }
            }
            @if let Some(why) = why_not { p.small.muted { (clean(why)) } }
        }
    }
}

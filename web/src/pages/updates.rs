//! Inbox of pending plans and available upgrades.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::{BulkApproval, BulkOutcome, Installed, Status};
use serde::Serialize;
use serde_json::json;

use super::installed::{decide, home, href, name, versions};
use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::Snapshot,
    error::WebError,
    inventory::has_update,
    links::{clean, encode},
    posted::Posted,
    rights,
    view::{
        glyph::Glyph,
        layout::Section,
        parts::{self, Tone},
        table::{self, Column, Row, Style},
        time,
    },
};

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    updates: Vec<Installed>,
    /// Why the user cannot approve plans, by namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    cannot_approve: BTreeMap<String, String>,
}

impl Model {
    /// Whether the user can approve a plan without a review. The rule of the request is stricter: it examines each
    /// plan again.
    fn is_safe(&self, one: &Installed) -> bool {
        one.status == Status::NeedsApproval
            && one.review.is_none()
            && !self.cannot_approve.contains_key(&one.namespace)
    }
}

/// `GET /updates`
pub(crate) async fn page(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, WebError> {
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    let mut updates = installed?;
    caller.set_installed(&updates);
    updates.retain(|one| has_update(one.status));
    let cannot_approve = rights::cannot_approve(&caller.client, &updates).await;
    let model = Model { updates, cannot_approve };
    let body = view(&model, &snapshot, caller.csrf());
    Ok(caller.answer(Page::new("Updates", Section::Updates, body), &model))
}

/// `POST /updates`: approves each pending plan that needs no review, as `olm approve --all`.
pub(crate) async fn approve_all(State(app): State<Arc<App>>, posted: Posted) -> Result<Response, WebError> {
    let caller = posted.caller;
    let snapshot = app.catalogs.read(&caller.identity).await;
    let plans = olm_ops::approve_all(&caller.client, &snapshot.loaded, None, false).await?;
    let body = outcome(&plans);
    let page = Page::new("Approved plans", Section::Updates, body).status(StatusCode::ACCEPTED);
    Ok(caller.answer(page, &json!({ "plans": plans })))
}

fn view(model: &Model, snapshot: &Snapshot, csrf: &str) -> Markup {
    let safe = model.updates.iter().filter(|one| model.is_safe(one)).count();
    html! {
        div.head {
            div.head-text {
                h1 { "Updates" }
                p.muted { (parts::plural(model.updates.len(), "operator")) }
            }
            @if safe > 0 {
                form method="post" action="/updates" {
                    (parts::csrf(csrf))
                    button.button.primary { "Approve all safe" span.visually-hidden { " plans" } " (" (safe) ")" }
                }
            }
        }
        @if model.updates.is_empty() {
            (parts::empty("No updates", "No plan is pending and no upgrade is available.", Some(("/installed", "Installed operators"))))
        } @else {
            div.stack {
                @if safe > 0 {
                    p.small.muted {
                        "Safe plans add no permissions of level HIGH, delete no objects, install no other operators and have no warnings."
                    }
                }
                div.panel { (list(model, snapshot, csrf)) }
            }
        }
    }
}

fn list(model: &Model, snapshot: &Snapshot, csrf: &str) -> Markup {
    let columns = [
        Column::new("Name"),
        Column::new("Namespace"),
        Column::new("Version").with_class(table::NUMBER),
        Column::new("Review").with_class(table::FILL),
        Column::new("Policy"),
        Column::new("Age").with_class(table::NUMBER),
        Column::new("Actions").with_class(table::BUTTONS).unlabelled(),
    ];
    let rows: Vec<Row> = model.updates.iter().map(|one| row(one, model, snapshot, csrf)).collect();
    table::show(Style::Records, "Pending plans and available upgrades", &columns, &rows)
}

fn row(one: &Installed, model: &Model, snapshot: &Snapshot, csrf: &str) -> Row {
    let icon = snapshot.card(one.catalog.as_deref(), &one.package).and_then(|(_, card)| card.icon.as_deref());
    let (label, reason) = (name(one), clean(&one.reason));
    let pending = one.status == Status::NeedsApproval;
    let cells = vec![
        html! { div.cell-name { (parts::icon(icon, &label, "mini")) a href=(href(one)) { (label) } } },
        html! { (one.namespace) },
        html! { (versions(one)) },
        html! {
            @match (pending, one.review.as_deref()) {
                (true, Some(points)) => div.counts { @for point in points.split(", ") { (point_chip(point)) } },
                (true, None) => (parts::state(Tone::Good, "No review needed")),
                (false, _) => (parts::status_in_list(one.status)),
            }
            @if !reason.is_empty() { span.sub.line title=(reason) { (reason) } }
        },
        html! { (one.approval) },
        html! { @if let Some(planned) = &one.planned { (time::age(planned)) } },
        html! { div.row { (actions(one, model, csrf)) } },
    ];
    Row { id: Some(format!("update-{}/{}", one.namespace, one.name)), cells }
}

/// A point to review, such as `new permissions of level HIGH` or `2 objects deleted`.
fn point_chip(point: &str) -> Markup {
    let glyph = if point.ends_with("deleted") { Glyph::Trash } else { Glyph::Warning };
    parts::chip(Tone::Bad, glyph, &clean(point))
}

fn actions(one: &Installed, model: &Model, csrf: &str) -> Markup {
    let why_not = model.cannot_approve.get(&one.namespace).map(String::as_str);
    let skipped = one.next.as_ref().or(one.available.as_ref()).filter(|_| one.csv.is_some() && !one.paused);
    html! {
        @if one.status == Status::NeedsApproval {
            @if one.review.is_none() { a.button.slim.quiet href={ (href(one)) "/plan" } { "Review" (of(one)) } }
            (decide(one, csrf, why_not))
        }
        @if let Some(version) = skipped {
            a.button.slim.quiet href={ (href(one)) "/change?what=skip&version=" (encode(version)) } { "Skip this version" (of(one)) }
        }
    }
}

fn of(one: &Installed) -> Markup {
    html! { span.visually-hidden { " of " (name(one)) " in namespace " (one.namespace) } }
}

fn outcome(plans: &[BulkApproval]) -> Markup {
    let columns = [
        Column::new("Name"),
        Column::new("Namespace"),
        Column::new("Version").with_class(table::NUMBER),
        Column::new("Result").with_class(table::FILL),
        Column::new("Actions").with_class(table::BUTTONS).unlabelled(),
    ];
    let rows: Vec<Row> = plans.iter().map(outcome_row).collect();
    html! {
        (parts::crumbs(&[("/updates", "Updates")], "Approved plans"))
        div.head { div.head-text { h1 { "Approved plans" } p.muted { (parts::plural(plans.len(), "plan")) " examined" } } }
        @if plans.is_empty() {
            (parts::empty("No plan is waiting for approval", "All plans are approved already.", Some(("/updates", "Updates"))))
        } @else {
            div.panel { (table::show(Style::Records, "Examined plans", &columns, &rows)) }
        }
    }
}

fn outcome_row(plan: &BulkApproval) -> Row {
    let home = home(&plan.namespace, &plan.name);
    let (tone, word) = match plan.outcome {
        BulkOutcome::Approved => (Tone::Good, "Approved"),
        BulkOutcome::Review => (Tone::Warn, "Needs review"),
        BulkOutcome::Failed => (Tone::Bad, "Failed"),
    };
    Row::new(vec![
        html! { a href=(home) { (clean(&plan.name)) } },
        html! { (plan.namespace) },
        html! {
            @if let Some(from) = &plan.from { (from) " " span aria-hidden="true" { "→" } span.visually-hidden { "to" } " " }
            @if let Some(to) = &plan.to { strong { (to) } }
        },
        html! {
            (parts::state(tone, word))
            @if !plan.reason.is_empty() { span.sub { (clean(&plan.reason)) } }
        },
        html! {
            @if plan.outcome == BulkOutcome::Review {
                a.button.slim href={ (home) "/plan" } { "Review" span.visually-hidden { " of " (clean(&plan.name)) } }
            }
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_examined_plan_has_its_result_and_the_next_step() {
        let plan = |name: &str, outcome, reason: &str| BulkApproval {
            namespace: "data".into(),
            name: name.into(),
            package: name.into(),
            from: Some("1.0.0".into()),
            to: Some("1.1.0".into()),
            plan: "install-1".into(),
            outcome,
            reason: reason.into(),
            csv: None,
        };
        let html = outcome(&[
            plan("a", BulkOutcome::Approved, ""),
            plan("b", BulkOutcome::Review, "1 finding"),
            plan("c", BulkOutcome::Failed, "<forbidden>"),
        ])
        .into_string();
        for text in
            ["is-good\">Approved<", "is-warn\">Needs review<", "is-bad\">Failed<", "&lt;forbidden&gt;"]
        {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert_eq!(html.matches("/plan\"").count(), 1, "{html}");
        assert!(html.contains("href=\"/installed/data/b/plan\""), "{html}");
        assert!(outcome(&[]).into_string().contains("No plan is waiting for approval"));
    }
}

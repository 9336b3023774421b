//! An installed operator: progress, pending actions, operands, update settings and history.

mod history;
mod updates;
mod waits;

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use maud::{Markup, html};
use olm_api::{ClusterServiceVersion, Subscription, condition, names};
use olm_ops::{Overview, Status, StepState, Timeline};

use super::installed::{home, href, name, versions};
use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::Snapshot,
    error::WebError,
    links::{clean, encode},
    posted::Posted,
    rights,
    view::{
        glyph::Glyph,
        layout::Section,
        parts::{self, Tone},
        time,
    },
};

/// Whether the state changes only after an action of a user.
fn is_settled(view: &Overview) -> bool {
    match view.timeline.installed.status {
        Status::Healthy => view.timeline.steps.iter().all(|s| s.state == StepState::Done),
        Status::NeedsApproval | Status::Paused | Status::UpdateAvailable | Status::Unmanaged => true,
        _ => false,
    }
}

/// The announcement for screen readers.
pub(crate) fn announcement(view: &Overview) -> String {
    let status = view.timeline.installed.status.word();
    match view.timeline.steps.iter().find(|s| !matches!(s.state, StepState::Done | StepState::Pending)) {
        Some(step) => clean(format!("{status}. {}: {}", step.title, step.text).trim_end_matches([':', ' '])),
        None => status.to_owned(),
    }
}

/// `GET /installed/{namespace}/{name}`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, target)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let (snapshot, view) = tokio::join!(
        app.catalogs.read(&caller.identity),
        olm_ops::overview(&caller.client, &namespace, &target)
    );
    let view = view?;
    let cannot = cannot_approve(&caller, &view).await;
    let title = name(&view.timeline.installed);
    let events = format!("/api/v1/events?installed={}/{}", encode(&namespace), encode(&target));
    let body = html! {
        (parts::crumbs(&[("/installed", "Installed")], &title))
        div data-live=(events) { (render(&view, &snapshot, caller.csrf(), cannot.as_deref())) }
        div.visually-hidden #announce role="status" {}
    };
    let refresh = (!is_settled(&view)).then_some(3);
    Ok(caller.answer(Page::new(&title, Section::Installed, body).refresh(refresh), &view))
}

/// `POST /installed/{namespace}/{name}/approve` with the plan and the digest that the user reviewed.
pub(crate) async fn approve(
    Path((namespace, name)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let digest = fields.text("digest").ok_or_else(|| {
        WebError::bad_request("the digest of the plan is missing")
            .hint("open the operator's page and approve the plan there")
    })?;
    let target = fields.text("plan").unwrap_or(&name);
    let approved =
        olm_ops::approve(&caller.client, Some(&namespace), target, Some(digest)).await.map_err(|error| {
            let error = WebError::from(error);
            if error.status == http::StatusCode::CONFLICT {
                return WebError { what: "The plan changed".into(), ..error }
                    .hint("return to the operator's page, review the new plan and approve it");
            }
            error
        })?;
    Ok(caller.done(http::StatusCode::ACCEPTED, &home(&namespace, &name), &approved))
}

/// Why the user cannot approve the pending plan.
pub(crate) async fn cannot_approve(caller: &Caller, view: &Overview) -> Option<String> {
    let one = &view.timeline.installed;
    rights::cannot_approve(&caller.client, std::slice::from_ref(one)).await.remove(&one.namespace)
}

/// The live part of the page. `cannot_approve` is why the user cannot approve its pending plan.
pub(crate) fn render(
    view: &Overview,
    snapshot: &Snapshot,
    csrf: &str,
    cannot_approve: Option<&str>,
) -> Markup {
    let one = &view.timeline.installed;
    let card = snapshot.card(one.catalog.as_deref(), &one.package);
    let summary = card.and_then(|(source, _)| source.catalog.summary(&one.package));
    let channels = summary.map(|summary| summary.channels.as_slice()).unwrap_or_default();
    html! {
        div.head #operator-head {
            (parts::icon(card.and_then(|(_, card)| card.icon.as_deref()), &name(one), "big"))
            div.head-text {
                h1 { (name(one)) }
                div.row { (parts::status(&one.status)) span { (versions(one)) } }
                // The banner below has the text of a pause.
                @if !one.reason.is_empty() && one.status != Status::Paused { p.muted { (clean(&one.reason)) } }
            }
            div.actions {
                @if let Some((source, _)) = card {
                    a.button.quiet href={ "/catalog/" (encode(&source.id)) "/" (encode(&one.package)) } { "View in catalog" }
                }
                a.button.danger href={ (href(one)) "/uninstall" } { "Uninstall" }
            }
        }
        div.split {
            div.stack #operator-main {
                @if one.status == Status::NeedsApproval { (waits::approval(view, csrf, cannot_approve)) }
                (waits::paused(view))
                (waits::blockers(view))
                (create(view))
                (timeline(view))
                (updates::show(view, channels))
                (waits::unmanaged(view, card.map(|(source, _)| source.id.as_str())))
                (history::show(view))
                (events(&view.timeline))
            }
            (facts(view))
        }
    }
}

fn create(view: &Overview) -> Markup {
    let one = &view.timeline.installed;
    let owned = view.csv.as_ref().map(|csv| csv.spec.owned_crds()).unwrap_or_default();
    let ready = view
        .csv
        .as_ref()
        .and_then(|csv| csv.status.as_ref())
        .is_some_and(|status| status.phase == olm_api::csv::CsvPhase::Succeeded);
    html! {
        @if ready && !owned.is_empty() {
            section.panel #create aria-labelledby="create-h" {
                header { h2 #create-h { "Provided kinds" } }
                ul.rows {
                    @for crd in owned {
                        @let kind = clean(&crd.kind);
                        li {
                            div.grow {
                                strong { (clean(crd.display_name.as_deref().unwrap_or(&crd.kind))) }
                                @if let Some(text) = &crd.description { p.small.muted { (clean(text)) } }
                            }
                            div.actions {
                                a.button href={ "/instances/" (encode(&crd.name)) } { "View" span.visually-hidden { " " (kind) " objects" } }
                                a.button.primary href={ "/instances/new/" (encode(&crd.name)) "?ns=" (encode(instance_namespace(one))) } { "Create " (kind) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A namespace for new objects that the operator watches.
fn instance_namespace(one: &olm_ops::Installed) -> &str {
    match one.watches.as_slice() {
        [only] if !only.is_empty() => only,
        [] | [_] => "default",
        many if many.contains(&one.namespace) => &one.namespace,
        many => &many[0],
    }
}

fn timeline(view: &Overview) -> Markup {
    let timeline = &view.timeline;
    let current = view.history.iter().find(|revision| revision.current);
    // The approver of the current plan, else of the installed revision.
    let approval = view.approval.as_ref().or(current.map(|r| &r.approval).filter(|_| view.plan.is_none()));
    html! {
        section.panel #progress aria-labelledby="progress-h" {
            header { h2 #progress-h { "Progress" } }
            div.body {
                ol.timeline {
                    @for step in &timeline.steps {
                        @let (class, glyph, word) = appearance(step.state);
                        li.(class) {
                            span.mark { (glyph.draw()) }
                            div.clip {
                                div.row {
                                    span.title { (step.title) span.visually-hidden { ": " (word) } }
                                    @if let Some(at) = &step.at { span.small.muted { (time::ago(at)) } }
                                }
                                @if !step.text.is_empty() { p { (clean(&step.text)) } }
                                @if let Some(approval) = approval.filter(|_| step.id == "plan") { p.small { (history::approved(approval)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn appearance(state: StepState) -> (&'static str, Glyph, &'static str) {
    match state {
        StepState::Pending => ("pending", Glyph::Dot, "not started"),
        StepState::Running => ("running", Glyph::Spinner, "in progress"),
        StepState::Waiting => ("waiting", Glyph::Hand, "action required"),
        StepState::Done => ("done", Glyph::Check, "done"),
        StepState::Failed => ("failed", Glyph::Cross, "failed"),
    }
}

fn events(timeline: &Timeline) -> Markup {
    html! {
        section.panel #events aria-labelledby="events-h" {
            header { h2 #events-h { "Events" } }
            @if timeline.events.is_empty() {
                div.body { p.muted { "No events in the last hour." } }
            } @else {
                ul.rows.events {
                    @for event in timeline.events.iter().rev() {
                        li {
                            div.grow {
                                div.row {
                                    @if event.type_ == "Warning" { (parts::chip(Tone::Warn, Tone::Warn.glyph(), &clean(&event.reason))) }
                                    @else { strong { (clean(&event.reason)) } }
                                    span.small.muted { (clean(&event.object)) }
                                }
                                span.small { (clean(&event.message)) }
                            }
                            span.small.muted.when { (time::ago(&event.time)) }
                        }
                    }
                }
            }
        }
    }
}

fn facts(view: &Overview) -> Markup {
    let one = &view.timeline.installed;
    html! {
        aside.panel #facts aria-label="Facts" {
            div.body {
                dl.facts {
                    div { dt { "Namespace" } dd { (one.namespace) } }
                    div { dt { "Watches" } dd {
                        @if one.watches.iter().any(String::is_empty) { "all namespaces" }
                        @else if one.watches.is_empty() { "unknown" }
                        @else { (one.watches.join(", ")) }
                    } }
                    div { dt { "Updates" } dd { @if one.approval == "Manual" { "manual approval" } @else { "automatic" } } }
                    @if let Some(channel) = &one.channel { div { dt { "Channel" } dd { (clean(channel)) } } }
                    @if let Some(catalog) = &one.catalog { div { dt { "Catalog" } dd { (clean(catalog)) } } }
                    @if let Some(created) = &one.created { div { dt { "Installed" } dd { (time::ago(created)) } } }
                    @if let Some(csv) = &one.csv { div { dt { "ClusterServiceVersion" } dd { code { (clean(csv)) } } } }
                    @if view.subscription.is_some() { div { dt { "Subscription" } dd { code { (clean(&one.name)) } } } }
                    @if let Some(ready) = view.subscription.as_ref().and_then(ready) { div { dt { "Ready" } dd { (ready) } } }
                    @if let Some(due) = view.csv.as_ref().and_then(certificates) { div { dt { "Certificates" } dd { "renewed " (time::ago(&due)) } } }
                }
                hr;
                p.small.muted { "Command line:" br; code { "olm status " (clean(&one.package)) " -n " (one.namespace) } }
            }
        }
    }
}

/// The kstatus conditions in one line: `yes`, or the condition that holds and its reason.
fn ready(subscription: &Subscription) -> Option<String> {
    let conditions = &subscription.status.as_ref()?.conditions;
    let ready = condition::find(conditions, names::CONDITION_READY)?;
    if ready.is_true() {
        return Some("yes".to_owned());
    }
    let holds = [names::CONDITION_STALLED, names::CONDITION_RECONCILING];
    let other = holds.iter().find_map(|type_| condition::find(conditions, type_).filter(|c| c.is_true()));
    let shown = other.unwrap_or(ready);
    let reason = shown.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some(clean(&match other {
        Some(other) => format!("no: {}{reason}", other.type_),
        None => format!("no{reason}"),
    }))
}

/// When its certificates are due for renewal, if it has any.
fn certificates(csv: &ClusterServiceVersion) -> Option<String> {
    csv.status.as_ref()?.certs_rotate_at.as_ref().map(|due| due.0.to_string())
}

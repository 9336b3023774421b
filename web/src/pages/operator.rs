//! One installed operator: how far it is, what can be made with it, what happened.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use kube::Api;
use maud::{Markup, html};
use olm_api::{ClusterServiceVersion, InstallPlan};
use olm_manager::ops::{self, Status, StepState, Timeline};
use serde_json::json;

use super::installed::{approve as approve_button, href, name, versions};
use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::Snapshot,
    error::WebError,
    links::{clean, encode},
    posted::Posted,
    view::{
        glyph::Glyph,
        layout::Section,
        parts::{self, Tone},
        time,
    },
};

/// Everything the page shows.
pub(crate) struct View {
    pub(crate) timeline: Timeline,
    pub(crate) csv: Option<ClusterServiceVersion>,
    pub(crate) plan: Option<InstallPlan>,
}

impl View {
    pub(crate) async fn read(client: &kube::Client, namespace: &str, name: &str) -> Result<Self, WebError> {
        let timeline = ops::timeline(client, namespace, name).await?;
        let csv = async {
            let name = timeline.installed.csv.as_deref()?;
            Api::<ClusterServiceVersion>::namespaced(client.clone(), &timeline.installed.namespace)
                .get(name)
                .await
                .ok()
        };
        let plan = async {
            let name = timeline.installed.plan.as_deref()?;
            Api::<InstallPlan>::namespaced(client.clone(), &timeline.installed.namespace).get(name).await.ok()
        };
        let (csv, plan) = tokio::join!(csv, plan);
        Ok(Self { timeline, csv, plan })
    }

    /// Whether nothing more will happen by itself.
    pub(crate) fn is_settled(&self) -> bool {
        let status = self.timeline.installed.status;
        status == Status::Healthy && self.timeline.steps.iter().all(|s| s.state == StepState::Done)
    }

    /// What screen readers are told when it changes.
    pub(crate) fn say(&self) -> String {
        let status = self.timeline.installed.status.word();
        match self.timeline.steps.iter().find(|s| !matches!(s.state, StepState::Done | StepState::Pending)) {
            Some(step) => {
                clean(format!("{status}. {}: {}", step.title, step.text).trim_end_matches([':', ' ']))
            }
            None => status.to_owned(),
        }
    }
}

/// `GET /installed/{namespace}/{name}`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, target)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let (snapshot, view) = tokio::join!(app.catalogs.read(), View::read(&caller.client, &namespace, &target));
    let view = view?;
    let title = name(&view.timeline.installed);
    let events = format!("/api/v1/events?installed={}/{}", encode(&namespace), encode(&target));
    let body = html! {
        (parts::live_row(&parts::crumbs(&[("/installed", "Installed")], &title)))
        div data-live=(events) { (render(&view, &snapshot, caller.csrf())) }
        div.visually-hidden #announce role="status" {}
    };
    let refresh = (!view.is_settled()).then_some(3);
    Ok(caller.answer(Page::new(&title, Section::Installed, body).refresh(refresh), &json!(view.timeline)))
}

/// `POST /installed/{namespace}/{name}/approve` with the plan and the digest that was looked at.
pub(crate) async fn approve(
    Path((namespace, name)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let digest = fields.text("digest").ok_or_else(|| {
        WebError::bad_request("the digest of the plan is missing")
            .hint("open the operator's page and approve there")
    })?;
    let target = fields.text("plan").unwrap_or(&name);
    let approved =
        ops::approve(&caller.client, Some(&namespace), target, Some(digest)).await.map_err(|error| {
            let error = WebError::from(error);
            if error.status == http::StatusCode::CONFLICT {
                return WebError { what: "The plan changed".into(), ..error }
                    .hint("go back to the operator's page, look at the new plan, and approve that one");
            }
            error
        })?;
    if caller.wants_json {
        return Ok((http::StatusCode::ACCEPTED, axum::Json(json!(approved))).into_response());
    }
    Ok(Redirect::to(&format!("/installed/{}/{}", encode(&namespace), encode(&name))).into_response())
}

/// The part of the page that changes.
pub(crate) fn render(view: &View, snapshot: &Snapshot, csrf: &str) -> Markup {
    let one = &view.timeline.installed;
    let card = snapshot.card(one.catalog.as_deref(), &one.package);
    html! {
        div.head #operator-head {
            (parts::icon(card.and_then(|(_, card)| card.icon.as_deref()), &name(one), "big"))
            div.head-text {
                h1 { (name(one)) }
                div.row { (parts::status(&one.status)) span { (versions(one)) } }
                @if !one.reason.is_empty() { p.muted { (clean(&one.reason)) } }
            }
            div.actions {
                @if let Some((source, _)) = card {
                    a.button.quiet href={ "/catalog/" (encode(&source.id)) "/" (encode(&one.package)) } { "In the catalog" }
                }
                a.button.danger href={ (href(one)) "/uninstall" } { "Uninstall" }
            }
        }
        div.split {
            div.stack #operator-main {
                @if one.status == Status::NeedsApproval { (waiting(view, csrf)) }
                (create(view))
                (timeline(&view.timeline))
                (events(&view.timeline))
            }
            (facts(view))
        }
    }
}

fn waiting(view: &View, csrf: &str) -> Markup {
    let one = &view.timeline.installed;
    let steps =
        view.plan.as_ref().and_then(|p| p.status.as_ref()).map(|s| s.plan.as_slice()).unwrap_or_default();
    html! {
        section.panel #waiting aria-labelledby="waiting-h" {
            header { h2 #waiting-h { "A plan waits for you" } }
            div.body.stack {
                @if !steps.is_empty() {
                    details.fold #waiting-objects {
                        summary { (parts::plural(steps.len(), "object")) " in this plan" }
                        div.body {
                            ul.objects {
                                @for step in steps {
                                    li { span.what { span.kind { (clean(&step.resource.kind)) } " " (clean(&step.resource.name)) } }
                                }
                            }
                        }
                    }
                }
                div.actions { (approve_button(one, csrf, "")) }
                p.small.muted {
                    @if let Some(digest) = &one.plan_digest { "It approves exactly the plan " code title=(digest) { (short(digest)) } ", and no other. " }
                    "In a terminal: " code { "olm approve " (clean(&one.package)) " -n " (one.namespace) }
                }
            }
        }
    }
}

/// As many digits of a digest as people compare.
fn short(digest: &str) -> &str {
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    digits.get(..12).unwrap_or(digits)
}

fn create(view: &View) -> Markup {
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
                header { h2 #create-h { "What you can create" } }
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

/// Where a new object is seen by its operator.
fn instance_namespace(one: &ops::Installed) -> &str {
    match one.watches.as_slice() {
        [only] if !only.is_empty() => only,
        [] | [_] => "default",
        many if many.contains(&one.namespace) => &one.namespace,
        many => &many[0],
    }
}

fn timeline(timeline: &Timeline) -> Markup {
    html! {
        section.panel #progress aria-labelledby="progress-h" {
            header { h2 #progress-h { "Progress" } }
            div.body {
                ol.timeline {
                    @for step in &timeline.steps {
                        @let (class, glyph, word) = look(step.state);
                        li.(class) {
                            span.mark { (glyph.draw()) }
                            div.clip {
                                div.row {
                                    span.title { (step.title) span.visually-hidden { ": " (word) } }
                                    @if let Some(at) = &step.at { span.small.muted { (time::ago(at)) } }
                                }
                                @if !step.text.is_empty() { p { (clean(&step.text)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn look(state: StepState) -> (&'static str, Glyph, &'static str) {
    match state {
        StepState::Pending => ("pending", Glyph::Dot, "not started"),
        StepState::Running => ("running", Glyph::Spinner, "in progress"),
        StepState::Waiting => ("waiting", Glyph::Hand, "waiting for you"),
        StepState::Done => ("done", Glyph::Check, "done"),
        StepState::Failed => ("failed", Glyph::Cross, "failed"),
    }
}

fn events(timeline: &Timeline) -> Markup {
    html! {
        section.panel #events aria-labelledby="events-h" {
            header { h2 #events-h { "Events" } }
            @if timeline.events.is_empty() {
                div.body { p.muted { "Nothing was reported in the last hour." } }
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

fn facts(view: &View) -> Markup {
    let one = &view.timeline.installed;
    html! {
        aside.panel #facts aria-label="Facts" {
            div.body {
                dl.facts {
                    div { dt { "Namespace" } dd { (one.namespace) } }
                    div { dt { "Watches" } dd {
                        @if one.watches.iter().any(String::is_empty) { "all namespaces" }
                        @else if one.watches.is_empty() { "not known yet" }
                        @else { (one.watches.join(", ")) }
                    } }
                    div { dt { "Updates" } dd { @if one.approval == "Manual" { "ask first" } @else { "automatic" } } }
                    @if let Some(channel) = &one.channel { div { dt { "Channel" } dd { (clean(channel)) } } }
                    @if let Some(catalog) = &one.catalog { div { dt { "Catalog" } dd { (clean(catalog)) } } }
                    @if let Some(created) = &one.created { div { dt { "Installed" } dd { (time::ago(created)) } } }
                    @if let Some(csv) = &one.csv { div { dt { "ClusterServiceVersion" } dd { code { (clean(csv)) } } } }
                    div { dt { "Subscription" } dd { code { (clean(&one.name)) } } }
                }
                hr;
                p.small.muted { "In a terminal:" br; code { "olm status " (clean(&one.package)) " -n " (one.namespace) } }
            }
        }
    }
}

//! One catalog: facts, problems of its content, its Subscriptions, and its actions.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, State},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use kube::api::DynamicObject;
use maud::{Markup, html};
use olm_api::{CatalogSource, condition};
use olm_catalog::Problem;
use olm_engine::site::manager_namespace;
use olm_ops::catalogs::{self, ClusterCatalog, PollInterval};
use serde::Serialize;
use serde_json::Value;

use super::{RELOAD, href, is_pending, packages_href, reason, tone};
use crate::{
    app::App,
    caller::{Caller, Page},
    dynamic::{self, EventView},
    error::WebError,
    links::{clean, word},
    pages::installed::home,
    posted::Posted,
    rights,
    view::{
        events::{self, Line},
        field::{Field, described_by},
        layout::Section,
        parts::{self, Tone, sentence},
        table::{self, Column, Row, Style},
        time,
    },
};

/// Maximum number of problems on the page.
const SHOWN: usize = 100;

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    catalog: ClusterCatalog,
    /// Problems of the served content, where the user may read it.
    problems: Vec<Problem>,
    /// The Subscriptions that use it, as NAMESPACE/NAME; absent without the right to list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    subscriptions: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventView>>,
    /// Why the user cannot refresh it or change its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    /// The signer, or why none is accepted, where the spec requires one.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// What a refused change left on the page.
#[derive(Default)]
struct Failed {
    error: Option<WebError>,
    /// The interval as the user typed it, and what is wrong with it.
    interval: Option<(String, String)>,
}

/// `GET /catalogs/{namespace}/{name}`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let source = catalogs::find_source(&caller.client, &namespace, &name).await?;
    show(&app, &caller, &source, &Failed::default()).await
}

/// `POST /catalogs/{namespace}/{name}/refresh`: the manager reads the source now.
pub(crate) async fn refresh(
    State(app): State<Arc<App>>,
    Path((namespace, name)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let caller = posted.caller;
    let source = catalogs::find_source(&caller.client, &namespace, &name).await?;
    match catalogs::refresh(&caller.client, &source, Timestamp::now()).await {
        Ok(source) => {
            let catalog = ClusterCatalog::of(&source);
            Ok(caller.done(StatusCode::ACCEPTED, &href(&namespace, &name), &catalog))
        }
        Err(error) => refused(&app, &caller, &source, error.into()).await,
    }
}

/// `POST /catalogs/{namespace}/{name}/interval` with the poll interval; an empty one unsets it.
pub(crate) async fn interval(
    State(app): State<Arc<App>>,
    Path((namespace, name)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let typed = fields.raw("interval").ok_or_else(|| WebError::bad_request("`interval` is missing"))?.trim();
    let source = catalogs::find_source(&caller.client, &namespace, &name).await?;
    let interval = match typed {
        "" => None,
        typed => match PollInterval::parse(typed) {
            Ok(interval) => Some(interval),
            Err(why) if caller.wants_json => {
                let what = "Invalid poll interval";
                return Err(WebError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-interval", what, why));
            }
            Err(why) => {
                let failed = Failed { interval: Some((typed.to_owned(), why)), ..Failed::default() };
                return show(&app, &caller, &source, &failed).await;
            }
        },
    };
    match catalogs::set_poll_interval(&caller.client, &source, interval.as_ref()).await {
        Ok(()) => {
            let catalog = ClusterCatalog {
                poll_interval: interval.map(|i| i.as_str().to_owned()),
                ..ClusterCatalog::of(&source)
            };
            Ok(caller.done(StatusCode::OK, &href(&namespace, &name), &catalog))
        }
        Err(error) => refused(&app, &caller, &source, error.into()).await,
    }
}

/// The page with the error of a change.
async fn refused(
    app: &App,
    caller: &Caller,
    source: &CatalogSource,
    error: WebError,
) -> Result<Response, WebError> {
    if caller.wants_json || error.status == StatusCode::UNAUTHORIZED {
        return Err(error);
    }
    show(app, caller, source, &Failed { error: Some(error), ..Failed::default() }).await
}

async fn show(
    app: &App,
    caller: &Caller,
    source: &CatalogSource,
    failed: &Failed,
) -> Result<Response, WebError> {
    let catalog = ClusterCatalog::of(source);
    let object = DynamicObject { types: None, metadata: source.metadata.clone(), data: Value::Null };
    let (snapshot, subscriptions, events, why_not) = tokio::join!(
        app.catalogs.read(&caller.identity),
        catalogs::subscriptions_of(&caller.client, &catalog.namespace, &catalog.name),
        dynamic::events(&caller.client, &catalog.namespace, "CatalogSource", &object),
        rights::missing(&caller.client, "patch", "catalogsources", &catalog.namespace)
    );
    let of_this = |loaded: &&olm_engine::catalogs::LoadedCatalog| {
        (&loaded.reference.namespace, &loaded.reference.name) == (&catalog.namespace, &catalog.name)
    };
    let loaded = snapshot.loaded.iter().find(of_this);
    let conditions = source.status.as_ref().map(|status| status.conditions.as_slice());
    let signed = condition::find(conditions.unwrap_or_default(), "Signed");
    let model = Model {
        problems: loaded.map(|loaded| loaded.catalog.problems.clone()).unwrap_or_default(),
        subscriptions: subscriptions?,
        events: events.ok(),
        why_not,
        signature: signed.and_then(|signed| signed.message.clone()),
        catalog,
    };
    let status = match (&failed.error, &failed.interval) {
        (Some(error), _) => error.status,
        (None, Some(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        (None, None) => StatusCode::OK,
    };
    // A reload would discard the problem of a refused change.
    let reload = (is_pending(&model.catalog) && status == StatusCode::OK).then_some(RELOAD);
    let body = html! { div data-reload=[reload] { (view(&model, caller.csrf(), failed)) } };
    let title = clean(&model.catalog.name);
    Ok(caller.answer(Page::new(&title, Section::Catalogs, body).status(status).refresh(reload), &model))
}

fn view(model: &Model, csrf: &str, failed: &Failed) -> Markup {
    let one = &model.catalog;
    let home = href(&one.namespace, &one.name);
    html! {
        (parts::crumbs(&[("/catalogs", "Catalogs")], &clean(&one.name)))
        div.head {
            div.head-text {
                h1 { (clean(&one.name)) }
                p.muted {
                    "in namespace " (one.namespace)
                    @if one.namespace == manager_namespace() { ", visible from every namespace" }
                    @else { ", visible only from this namespace" }
                }
            }
            (parts::chip(tone(one.status), tone(one.status).glyph(), one.status.word()))
            div.actions {
                @if let Some(packages) = one.packages {
                    a.button.primary href=(packages_href(one)) { "Show " (parts::plural(usize::try_from(packages).unwrap_or_default(), "package")) }
                }
                a.button.danger href={ (home) "/remove" } { "Remove" }
            }
        }
        div.stack {
            @if let Some(error) = &failed.error { (parts::alert(&error.what, &sentence(&clean(&error.why)), error.hint.as_deref())) }
            @if let Some(reason) = reason(one).filter(|_| one.message.is_some() || !one.refresh_pending) {
                (parts::note(if tone(one.status) == Tone::Good { Tone::Warn } else { tone(one.status) }, &html! { (parts::explained(&reason)) }))
            }
            section.panel #facts aria-labelledby="facts-h" {
                header { h2 #facts-h { "Catalog" } }
                div.body { (facts(model)) }
            }
            (reading(model, csrf, failed))
            (problems(model))
            (users(model))
            (event_list(model))
            (commands(one))
        }
    }
}

fn facts(model: &Model) -> Markup {
    let one = &model.catalog;
    let text = |value: &Option<String>| value.as_deref().map(clean);
    let texts = [
        ("Display name", text(&one.display_name)),
        ("Publisher", text(&one.publisher)),
        ("Source type", Some(clean(&one.source_type))),
        ("Source", Some(clean(&one.source))),
        ("Resolved source", text(&one.resolved_source)),
        ("Digest", text(&one.digest)),
        ("Signature", text(&model.signature)),
        ("Priority", Some(one.priority.to_string())),
        ("Pull secrets", (!one.secrets.is_empty()).then(|| clean(&one.secrets.join(", ")))),
    ];
    let times = [("Last poll", one.last_poll), ("Last successful read", one.last_success)];
    html! {
        dl.facts.wide {
            @for (label, value) in texts { @if let Some(value) = value { div { dt { (label) } dd { (value) } } } }
            @if let Some(packages) = one.packages { div { dt { "Packages" } dd { (packages) } } }
            @for (label, at) in times { @if let Some(at) = at { div { dt { (label) } dd { (time::ago(&at.to_string())) } } } }
        }
    }
}

/// When the source is read, and the two changes of that.
fn reading(model: &Model, csrf: &str, failed: &Failed) -> Markup {
    let one = &model.catalog;
    let home = href(&one.namespace, &one.name);
    let blocked = model.why_not.is_some();
    let (value, problem) = match &failed.interval {
        Some((typed, why)) => (typed.as_str(), Some(why.as_str())),
        None => (one.poll_interval.as_deref().unwrap_or_default(), None),
    };
    let help = html! { "Such as 10m or 1h30m. Empty for the default of the source type; an image is then read once. An image by digest is never polled." };
    let input = html! {
        input #interval type="text" name="interval" value=(value) autocomplete="off" spellcheck="false" placeholder="default"
            aria-invalid=[problem.map(|_| "true")] aria-describedby=[described_by("interval", true, problem.is_some())] disabled[blocked];
    };
    html! {
        section.panel #reading aria-labelledby="reading-h" {
            header {
                h2 #reading-h { "Updates" }
                form method="post" action={ (home) "/refresh" } {
                    (parts::csrf(csrf))
                    button.button #refresh disabled[blocked] { "Refresh now" }
                }
            }
            div.body.stack {
                @if one.refresh_pending { p role="status" { "A refresh is requested. The manager reads the source." } }
                form.stack-s.narrow method="post" action={ (home) "/interval" } {
                    (parts::csrf(csrf))
                    (Field::new("interval", html! { "Poll interval" }).help(Some(help)).problem(problem).show(&input))
                    div.actions { button.button disabled[blocked] { "Change interval" } }
                }
                @if let Some(why) = &model.why_not { (parts::note(Tone::Info, &html! { (clean(why)) })) }
            }
        }
    }
}

/// Invalid entries of the content, by package.
fn problems(model: &Model) -> Markup {
    let reported = &model.catalog.problems;
    let mut by_package: BTreeMap<&str, Vec<&Problem>> = BTreeMap::new();
    for problem in &model.problems {
        by_package.entry(problem.package.as_deref().unwrap_or_default()).or_default().push(problem);
    }
    let rows: Vec<Row> = by_package.into_values().flatten().take(SHOWN).map(problem).collect();
    let columns = [
        Column::new("Package"),
        Column::new("Problem").with_class(table::FILL),
        Column::new("Code"),
        Column::new("Place"),
    ];
    html! {
        @if !rows.is_empty() || !reported.is_empty() {
            section.panel #problems aria-labelledby="problems-h" {
                header {
                    h2 #problems-h { "Problems of the content" }
                    @if model.problems.len() > rows.len() && !rows.is_empty() { span.small.muted { "the first " (rows.len()) " of " (model.problems.len()) } }
                }
                @if rows.is_empty() {
                    // The content is not readable for the user; the status has the first problems.
                    div.body { ul { @for text in reported { li { (clean(text)) } } } }
                } @else {
                    (table::show(Style::Records, "Problems of the content", &columns, &rows))
                }
            }
        }
    }
}

fn problem(problem: &Problem) -> Row {
    let (text, fix) = (clean(&problem.text), clean(&problem.fix));
    let place = &problem.place;
    Row::new(vec![
        html! { @match &problem.package { Some(package) => (clean(package)), None => span.muted { "(catalog)" } } },
        html! {
            span { (sentence(&text)) }
            @if !fix.is_empty() { span.sub { " " (sentence(&fix)) } }
        },
        html! { code { (clean(&problem.code)) } },
        html! { span.small.muted.clip { (clean(&place.path)) @if place.line > 0 { ":" (place.line) } } },
    ])
}

fn users(model: &Model) -> Markup {
    html! {
        section.panel #users aria-labelledby="users-h" {
            header {
                h2 #users-h { "Installed from this catalog" }
                @if let Some(list) = &model.subscriptions { (parts::tag(&list.len().to_string())) }
            }
            @match model.subscriptions.as_deref() {
                None => div.body { p.muted { "Missing permission: list subscriptions." } },
                Some([]) => div.body { p.muted { "No operator is installed from this catalog." } },
                Some(list) => ul.rows { @for user in list { li { (subscription(user)) } } },
            }
        }
    }
}

/// A link to the operator of a Subscription, `NAMESPACE/NAME`.
pub(super) fn subscription(reference: &str) -> Markup {
    let (namespace, name) = reference.split_once('/').unwrap_or(("", reference));
    html! { a.name href=(home(namespace, name)) { (clean(name)) } span.muted { " in namespace " (clean(namespace)) } }
}

fn event_list(model: &Model) -> Markup {
    let list: Option<Vec<Line<'_>>> = model.events.as_ref().map(|list| list.iter().map(line).collect());
    events::panel(list.as_deref().ok_or("Missing permission: list events."))
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

fn commands(one: &ClusterCatalog) -> Markup {
    let reference = word(&one.reference());
    let every = one.poll_interval.as_deref().and_then(|every| PollInterval::parse(every).ok());
    let every = every.as_ref().map_or("default", PollInterval::as_str);
    let all = [
        ("List its packages", format!("olm search --catalog {reference}")),
        ("Read it now", format!("olm catalog refresh {reference}")),
        ("Change the interval", format!("olm catalog set-interval {reference} {every}")),
        ("Remove it", format!("olm catalog remove {reference}")),
    ];
    html! {
        details.fold #cli {
            summary { "Commands" }
            div.body.stack {
                @for (i, (label, command)) in all.iter().enumerate() { (parts::copyable(&format!("command-{i}"), label, command)) }
            }
        }
    }
}

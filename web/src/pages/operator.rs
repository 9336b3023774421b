//! An installed operator: a header with its state and its most urgent problem, and tabs, each with a URL.

mod events;
mod header;
mod history;
mod instances;
mod overview;
mod permissions;
mod updates;
mod workloads;
mod yaml;

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse as _, Redirect, Response},
};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::{DeploymentState, EventLine, Overview, ReadableInstances, Status, StepState};
use serde_json::{Value, json};

use super::installed::{home, href, name};
use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::Snapshot,
    error::WebError,
    links::{clean, encode},
    posted::Posted,
    rights::{ReviewedRights, Right},
    view::{
        layout::Section,
        parts::{self, Tone},
        tabs,
    },
};

/// A tab of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Overview,
    Updates,
    Instances,
    Workloads,
    Permissions,
    History,
    Events,
    Yaml,
}

impl Tab {
    const ALL: [Self; 8] = [
        Self::Overview,
        Self::Updates,
        Self::Instances,
        Self::Workloads,
        Self::Permissions,
        Self::History,
        Self::Events,
        Self::Yaml,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Updates => "Updates",
            Self::Instances => "Instances",
            Self::Workloads => "Workloads",
            Self::Permissions => "Permissions",
            Self::History => "History",
            Self::Events => "Events",
            Self::Yaml => "YAML",
        }
    }

    /// The tab of the last part of a URL.
    pub(crate) fn parse(part: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tab| tab.part() == part)
    }

    fn part(self) -> String {
        self.label().to_lowercase()
    }

    /// URL of the tab; the overview has that of the operator.
    fn href(self, operator: &str) -> String {
        match self {
            Self::Overview => operator.to_owned(),
            tab => format!("{operator}/{}", tab.part()),
        }
    }

    /// The rights that the tab takes, apart from those of every tab.
    fn rights(self, namespace: &str) -> Vec<Right<'_>> {
        let list = |group, plural| Right { verb: "list", group, plural, namespace: Some(namespace) };
        match self {
            Self::Workloads => vec![list("apps", "deployments"), list("", "pods")],
            Self::Events => vec![list("", "events")],
            Self::Yaml => ["subscriptions", "clusterserviceversions", "installplans"]
                .map(|plural| Right::of_olm("get", plural, namespace))
                .into(),
            _ => Vec::new(),
        }
    }
}

/// What a tab shows besides the overview.
enum Content {
    Nothing,
    Instances(ReadableInstances),
    Workloads(Vec<DeploymentState>),
    Events(Vec<EventLine>),
    Yaml(Vec<Value>),
}

/// The data of a tab.
pub(crate) struct View {
    pub(crate) overview: Overview,
    tab: Tab,
    /// Why the user cannot approve the pending plan.
    cannot_approve: Option<String>,
    /// The content, or the missing rights.
    content: Result<Content, String>,
}

impl View {
    pub(crate) async fn read(
        caller: &Caller,
        rights: &mut ReviewedRights,
        namespace: &str,
        target: &str,
        tab: Tab,
    ) -> Result<Self, WebError> {
        let client = &caller.client;
        let needed = tab.rights(namespace);
        let (overview, missing) =
            tokio::join!(olm_ops::overview(client, namespace, target), rights.all_missing(client, &needed));
        let overview = overview?;
        let content = match missing {
            Some(why) => Err(why),
            None => Ok(match tab {
                Tab::Overview | Tab::Updates | Tab::Permissions | Tab::History => Content::Nothing,
                Tab::Instances => {
                    Content::Instances(olm_ops::readable_instances(client, namespace, target).await?)
                }
                Tab::Workloads => Content::Workloads(olm_ops::workloads(client, namespace, target).await?),
                Tab::Events => Content::Events(olm_ops::list_events(client, namespace, target).await?),
                Tab::Yaml => Content::Yaml(yaml::read(client, namespace, &overview).await?),
            }),
        };
        let one = std::slice::from_ref(&overview.timeline.installed);
        let cannot_approve = rights.cannot_approve(client, one).await.remove(namespace);
        Ok(Self { overview, tab, cannot_approve, content })
    }

    /// The page as JSON.
    fn model(&self, channels: &[String]) -> Result<Value, WebError> {
        let content = self.content.as_ref().map_err(|why| WebError::forbidden(why.clone()))?;
        Ok(match content {
            Content::Instances(list) => json!(list),
            Content::Workloads(list) => json!({ "deployments": list }),
            Content::Events(list) => json!({ "events": list }),
            Content::Yaml(list) => json!({ "objects": list }),
            Content::Nothing => match self.tab {
                Tab::Updates => updates::model(&self.overview, channels),
                Tab::Permissions => json!({ "permissions": permissions::of(&self.overview) }),
                Tab::History => json!({ "history": self.overview.history }),
                _ => json!(self.overview),
            },
        })
    }

    /// Whether the state changes only after an action of a user.
    fn is_settled(&self) -> bool {
        let timeline = &self.overview.timeline;
        match timeline.installed.status {
            Status::Healthy => timeline.steps.iter().all(|s| s.state == StepState::Done),
            Status::NeedsApproval | Status::Paused | Status::UpdateAvailable | Status::Unmanaged => true,
            _ => false,
        }
    }

    /// The announcement for screen readers.
    pub(crate) fn announcement(&self) -> String {
        let timeline = &self.overview.timeline;
        let status = timeline.installed.status.word();
        match timeline.steps.iter().find(|s| !matches!(s.state, StepState::Done | StepState::Pending)) {
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
    show(&app, &caller, &namespace, &target, Tab::Overview).await
}

/// `GET /installed/{namespace}/{name}/{tab}`
pub(crate) async fn tab(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, target, tab)): Path<(String, String, String)>,
) -> Result<Response, WebError> {
    match Tab::parse(&tab) {
        Some(Tab::Overview) => Ok(Redirect::permanent(&home(&namespace, &target)).into_response()),
        Some(tab) => show(&app, &caller, &namespace, &target, tab).await,
        None => Err(WebError::not_found("page not found")),
    }
}

async fn show(
    app: &App,
    caller: &Caller,
    namespace: &str,
    target: &str,
    tab: Tab,
) -> Result<Response, WebError> {
    let mut rights = ReviewedRights::default();
    let (snapshot, view) = tokio::join!(
        app.catalogs.read(&caller.identity),
        View::read(caller, &mut rights, namespace, target, tab)
    );
    let view = view?;
    if caller.wants_json {
        let model = view.model(channels(&view.overview, &snapshot))?;
        return Ok(axum::Json(model).into_response());
    }
    let name = name(&view.overview.timeline.installed);
    let title = match tab {
        Tab::Overview => name.clone(),
        tab => format!("{} · {name}", tab.label()),
    };
    let events =
        format!("/api/v1/events?installed={}/{}&tab={}", encode(namespace), encode(target), tab.part());
    let body = html! {
        (parts::crumbs(&[("/installed", "Installed")], &name))
        div data-live=(events) { (render(&view, &snapshot, caller.csrf())) }
        div.visually-hidden #announce role="status" {}
    };
    let refresh = (!view.is_settled()).then_some(3);
    let status = if view.content.is_ok() { StatusCode::OK } else { StatusCode::FORBIDDEN };
    let page = Page::new(&title, Section::Installed, body).refresh(refresh).status(status);
    Ok(caller.answer(page, &Value::Null))
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
            if error.status == StatusCode::CONFLICT {
                return WebError { what: "The plan changed".into(), ..error }
                    .hint("return to the operator's page, review the new plan and approve it");
            }
            error
        })?;
    Ok(caller.done(StatusCode::ACCEPTED, &home(&namespace, &name), &approved))
}

/// The channels of the package in its catalog.
fn channels<'a>(overview: &Overview, snapshot: &'a Snapshot) -> &'a [String] {
    let one = &overview.timeline.installed;
    let source = snapshot.card(one.catalog.as_deref(), &one.package).map(|(source, _)| source);
    let summary = source.and_then(|source| source.catalog.summary(&one.package));
    summary.map(|summary| summary.channels.as_slice()).unwrap_or_default()
}

/// The live part of the page.
pub(crate) fn render(view: &View, snapshot: &Snapshot, csrf: &str) -> Markup {
    let overview = &view.overview;
    let one = &overview.timeline.installed;
    let home = href(one);
    let links: Vec<(Tab, String)> = Tab::ALL.into_iter().map(|tab| (tab, tab.href(&home))).collect();
    let tabs: Vec<tabs::Tab<'_>> = links
        .iter()
        .map(|(tab, href)| tabs::Tab::new(tab.label(), tabs::Target::Link(href), *tab == view.tab))
        .collect();
    html! {
        (header::show(view, snapshot, csrf))
        (tabs::show("Pages of the operator", &tabs))
        div id={ "tab-" (view.tab.part()) } {
            @match &view.content {
                Err(why) => (parts::note(Tone::Warn, &html! { (clean(why)) " Ask an administrator for access." })),
                Ok(Content::Instances(list)) => (instances::show(overview, list)),
                Ok(Content::Workloads(list)) => (workloads::show(overview, list)),
                Ok(Content::Events(list)) => (events::show(overview, list)),
                Ok(Content::Yaml(list)) => (yaml::show(list)),
                Ok(Content::Nothing) => @match view.tab {
                    Tab::Updates => (updates::show(overview, channels(overview, snapshot))),
                    Tab::Permissions => (permissions::show(overview)),
                    Tab::History => (history::show(overview)),
                    _ => (overview::show(overview)),
                },
            }
        }
    }
}

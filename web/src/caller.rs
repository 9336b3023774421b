//! The caller of a request, and the format of the response.

use std::sync::Arc;

use axum::{
    Json,
    extract::FromRequestParts,
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderName, StatusCode, header, request::Parts};
use kube::Client;
use maud::Markup;
use olm_ops::Installed;
use serde::Serialize;

use crate::{
    api_server::{Identity, Token},
    app::App,
    audit,
    catalogs::Snapshot,
    client::ClientAddress,
    delivery::{self, Tag},
    error::WebError,
    inventory,
    session::Session,
    validity,
    view::{
        layout::{Search, Section, Shell},
        theme::Theme,
    },
};

/// An authenticated caller, by session cookie or by bearer token.
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) identity: Identity,
    /// Absent for callers with a bearer token.
    pub(crate) session: Option<Session>,
    pub(crate) wants_json: bool,
    pub(crate) theme: Theme,
    /// Path and query of the request.
    pub(crate) path: String,
    /// Of the request, for conditional requests.
    headers: HeaderMap,
    /// Entity tag of the page, where it is known before the page.
    tag: Option<Tag>,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, WebError> {
        let headers = &parts.headers;
        let wants_json = wants_json(headers);
        let theme = Theme::of(headers);
        let path = parts.uri.path_and_query().map(|p| p.as_str().to_owned()).unwrap_or_default();
        if let Some(token) = bearer(headers) {
            let from = ClientAddress::from_request_parts(parts, app).await?;
            let (client, identity) = app.who_is(from, &token).await?;
            note(parts, &identity);
            let headers = headers_of_condition(&parts.headers);
            return Ok(Self { client, identity, session: None, wants_json, theme, path, headers, tag: None });
        }
        let session = validity::valid_session(app, headers).await?;
        note(parts, &session.identity);
        Ok(Self {
            client: session.client.clone(),
            identity: session.identity.clone(),
            session: Some(session),
            wants_json,
            theme,
            path,
            headers: headers_of_condition(headers),
            tag: None,
        })
    }
}

/// The headers that decide on a conditional request.
fn headers_of_condition(headers: &HeaderMap) -> HeaderMap {
    if !headers.contains_key(header::IF_NONE_MATCH) {
        return HeaderMap::new();
    }
    let site = HeaderName::from_static("sec-fetch-site");
    let names = [header::IF_NONE_MATCH, header::ACCEPT_ENCODING, header::AUTHORIZATION, site];
    let all = names.into_iter().flat_map(|name| {
        headers.get_all(&name).iter().cloned().map(move |value| (name.clone(), value)).collect::<Vec<_>>()
    });
    all.collect()
}

/// Records the user for the audit log.
fn note(parts: &Parts, identity: &Identity) {
    if let Some(user) = parts.extensions.get::<audit::User>() {
        user.is(&identity.name);
    }
}

impl Caller {
    /// The CSRF token for forms; empty for callers with a bearer token, which need none.
    pub(crate) fn csrf(&self) -> &str {
        self.session.as_ref().map_or("", |s| &s.csrf)
    }

    /// Checks the CSRF token; callers with a bearer token need none.
    pub(crate) fn check_csrf(&self, field: Option<&str>, headers: &HeaderMap) -> Result<(), WebError> {
        self.session.as_ref().map_or(Ok(()), |session| session.check_csrf(field, headers))
    }

    /// The response to a completed change: its result as JSON, or a redirect to a page.
    pub(crate) fn done(&self, status: StatusCode, to: &str, result: &impl Serialize) -> Response {
        match self.wants_json {
            true => (status, Json(result)).into_response(),
            false => Redirect::to(to).into_response(),
        }
    }

    /// Records the numbers of installed operators and of updates for the navigation.
    pub(crate) fn set_installed(&self, installed: &[Installed]) {
        if let Some(session) = &self.session {
            session.installed.set(installed.len());
            session.updates.set(inventory::count_updates(installed));
        }
    }

    /// Gives a page of the catalogs its entity tag before it is rendered, and returns the response if the client has
    /// this page. Such a page is a function of the program, the request, the session, the catalogs and the installed
    /// operators, and shows no relative times.
    pub(crate) fn confirm(
        &mut self,
        snapshot: &Snapshot,
        installed: Option<&[Installed]>,
    ) -> Option<Response> {
        let catalogs = snapshot.inputs()?;
        self.session = self.session.take().map(Session::fixed);
        let session = self.session.as_ref();
        let session = session.map(|session| (&session.csrf, session.installed.get(), session.updates.get()));
        let tag = Tag::of_inputs(&(
            (&self.path, self.wants_json, self.theme),
            (&self.identity.name, &self.identity.groups, session),
            (catalogs, installed),
        ));
        if tag.is_known(&self.headers) {
            return Some(tag.unchanged());
        }
        self.tag = Some(tag);
        None
    }

    /// The page as HTML, or its model as JSON.
    pub(crate) fn answer(&self, page: Page<'_>, model: &impl Serialize) -> Response {
        let revalidated = page.revalidated;
        let mut response = self.render(page, model);
        if revalidated {
            response.headers_mut().insert(header::CACHE_CONTROL, delivery::REVALIDATED);
            if let Some(tag) = &self.tag {
                response.extensions_mut().insert(tag.clone());
            }
        }
        response
    }

    fn render(&self, page: Page<'_>, model: &impl Serialize) -> Response {
        if self.wants_json {
            return (page.status, Json(model)).into_response();
        }
        let shell = Shell {
            title: page.title,
            section: page.section,
            theme: self.theme,
            user: self.session.as_ref(),
            path: &self.path,
            search: page.search,
            refresh: page.refresh,
            onward: None,
        };
        (page.status, shell.page(&page.body)).into_response()
    }
}

/// A page without its frame.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) section: Option<Section>,
    pub(crate) body: Markup,
    pub(crate) status: StatusCode,
    pub(crate) search: Search,
    /// Seconds after which a browser without JavaScript reloads the page.
    pub(crate) refresh: Option<u32>,
    /// Whether the browser may store the page and validates it before each use.
    pub(crate) revalidated: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(title: &'a str, section: Section, body: Markup) -> Self {
        let search = Search::default();
        Self {
            title,
            section: Some(section),
            body,
            status: StatusCode::OK,
            search,
            refresh: None,
            revalidated: false,
        }
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn search(mut self, search: Search) -> Self {
        self.search = search;
        self
    }

    pub(crate) fn refresh(mut self, seconds: Option<u32>) -> Self {
        self.refresh = seconds;
        self
    }

    /// For pages of catalogs.
    pub(crate) fn revalidated(mut self) -> Self {
        self.revalidated = true;
        self
    }
}

/// Whether the client prefers JSON to HTML.
pub(crate) fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    for part in accept.split(',') {
        match part.split(';').next().unwrap_or_default().trim() {
            "application/json" => return true,
            "text/html" => return false,
            _ => {}
        }
    }
    false
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<Token> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::new(token.trim()))
}

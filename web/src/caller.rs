//! Who asks, and how they want the answer.

use std::sync::Arc;

use axum::{
    Json,
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, header, request::Parts};
use kube::Client;
use maud::Markup;
use serde::Serialize;

use crate::{
    api_server::{Identity, Token},
    app::App,
    error::WebError,
    security::{cookie, same},
    session::{COOKIE, Session},
    view::layout::{Section, Shell},
};

/// Light, dark, or as the system has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::Auto,
        }
    }

    pub(crate) fn of(headers: &HeaderMap) -> Self {
        cookie(headers, "olm_theme").map_or(Self::Auto, Self::parse)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// Somebody who may ask: by a session cookie, or by a bearer token of their own.
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) identity: Identity,
    /// Absent for callers with a bearer token.
    pub(crate) session: Option<Session>,
    pub(crate) wants_json: bool,
    pub(crate) theme: Theme,
    /// Path and query of the request.
    pub(crate) path: String,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, WebError> {
        let headers = &parts.headers;
        let wants_json = wants_json(headers);
        let theme = Theme::of(headers);
        let path = parts.uri.path_and_query().map(|p| p.as_str().to_owned()).unwrap_or_default();
        if let Some(token) = bearer(headers) {
            let (client, identity) = app.api_server.who_is(&token).await?;
            return Ok(Self { client, identity, session: None, wants_json, theme, path });
        }
        let session = session(app, headers).ok_or_else(|| WebError::unauthorized("you are not signed in"))?;
        Ok(Self {
            client: session.client.clone(),
            identity: session.identity.clone(),
            session: Some(session),
            wants_json,
            theme,
            path,
        })
    }
}

impl Caller {
    /// The token for forms; empty for callers with a bearer token, who need none.
    pub(crate) fn csrf(&self) -> &str {
        self.session.as_ref().map_or("", |s| &s.csrf)
    }

    pub(crate) fn check_csrf(&self, given: Option<&str>) -> Result<(), WebError> {
        match &self.session {
            Some(session) if !given.is_some_and(|given| same(given, &session.csrf)) => {
                Err(WebError::forbidden("the form is from another session")
                    .hint("go back, reload the page, and send it again"))
            }
            _ => Ok(()),
        }
    }

    /// The page, or its JSON twin.
    pub(crate) fn answer(&self, page: Page<'_>, model: &impl Serialize) -> Response {
        if self.wants_json {
            return (page.status, Json(model)).into_response();
        }
        let shell = Shell {
            title: page.title,
            section: page.section,
            theme: self.theme,
            user: self.session.as_ref(),
            path: &self.path,
            refresh: page.refresh,
        };
        (page.status, shell.page(&page.body)).into_response()
    }
}

/// A page before its frame is around it.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) section: Option<Section>,
    pub(crate) body: Markup,
    pub(crate) status: http::StatusCode,
    /// Seconds after which a browser without JavaScript loads it again.
    pub(crate) refresh: Option<u32>,
}

impl<'a> Page<'a> {
    pub(crate) fn new(title: &'a str, section: Section, body: Markup) -> Self {
        Self { title, section: Some(section), body, status: http::StatusCode::OK, refresh: None }
    }

    pub(crate) fn status(mut self, status: http::StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn refresh(mut self, seconds: Option<u32>) -> Self {
        self.refresh = seconds;
        self
    }
}

/// Whether JSON comes before HTML in what the client accepts.
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
    scheme.eq_ignore_ascii_case("bearer").then(|| Token(token.trim().to_owned()))
}

pub(crate) fn session(app: &App, headers: &HeaderMap) -> Option<Session> {
    app.sessions.find(cookie(headers, COOKIE)?)
}

//! The caller of a request, and the format of the response.

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
    api_server::{self, Identity, Token},
    app::App,
    audit,
    client::{ClientAddress, cookie_name, is_secure},
    error::WebError,
    openid,
    security::{cookie, same},
    session::{COOKIE, Session},
    view::layout::{Section, Shell},
};

pub(crate) const THEME_COOKIE: &str = "olm_theme";

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
        let cookie =
            [true, false].into_iter().find_map(|secure| cookie(headers, &cookie_name(secure, THEME_COOKIE)));
        cookie.map_or(Self::Auto, Self::parse)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

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
            return Ok(Self { client, identity, session: None, wants_json, theme, path });
        }
        let session = valid_session(app, headers).await?;
        note(parts, &session.identity);
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

    /// The page as HTML, or its model as JSON.
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
            onward: None,
        };
        (page.status, shell.page(&page.body)).into_response()
    }
}

impl Session {
    /// A changing request carries the CSRF token of the session, in a field or a header.
    pub(crate) fn check_csrf(&self, field: Option<&str>, headers: &HeaderMap) -> Result<(), WebError> {
        let given = field.or_else(|| headers.get("x-csrf-token")?.to_str().ok());
        if given.is_some_and(|given| same(given, &self.csrf)) {
            return Ok(());
        }
        Err(WebError::forbidden("the form belongs to another session")
            .hint("reload the page and submit the form again"))
    }
}

/// A page without its frame.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) section: Option<Section>,
    pub(crate) body: Markup,
    pub(crate) status: http::StatusCode,
    /// Seconds after which a browser without JavaScript reloads the page.
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

/// The session of a request, as of the last validation of its token by the API server.
pub(crate) fn session(app: &App, headers: &HeaderMap) -> Option<Session> {
    app.sessions.find(session_cookie(app, headers)?)
}

pub(crate) fn session_cookie<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a str> {
    cookie(headers, &cookie_name(is_secure(app, headers), COOKIE))
}

/// The session of a request, validated first when the last validation is old: the account may have been
/// deleted.
async fn valid_session(app: &Arc<App>, headers: &HeaderMap) -> Result<Session, WebError> {
    let mut session = session(app, headers).ok_or_else(|| WebError::unauthorized("you are not signed in"))?;
    openid::keep_valid(app, &session).await?;
    if session.validated_ago() < app.revalidate {
        return Ok(session);
    }
    match api_server::identity(&session.client, &session.identity.token).await {
        Ok(identity) => {
            app.sessions.validated(&session.key, identity.clone());
            session.identity = identity;
            Ok(session)
        }
        Err(error) if error.status == http::StatusCode::UNAUTHORIZED => {
            tracing::info!(user = %session.identity.name, "session ended: token no longer accepted");
            app.sessions.end_key(&session.key);
            Err(error)
        }
        // An unreachable API server does not invalidate the account, and no request succeeds without it.
        Err(error) => {
            tracing::debug!(error = %error.why, "failed to validate the session");
            Ok(session)
        }
    }
}

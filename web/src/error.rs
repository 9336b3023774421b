//! Errors with cause and hint, as a page and as JSON.

use std::sync::Arc;

use axum::{
    Json,
    extract::Request,
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use maud::html;
use serde_json::json;

use crate::{
    app::App,
    caller::{self, Theme},
    security::RequestId,
    session::Session,
    view::{layout, parts},
};

/// A failed or refused request.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub(crate) struct WebError {
    pub(crate) status: StatusCode,
    /// The failed operation, as a heading.
    pub(crate) what: String,
    /// Cause.
    pub(crate) why: String,
    /// The next step.
    pub(crate) hint: Option<String>,
    /// Stable code for programs.
    pub(crate) code: &'static str,
}

const ASK: &str = "ask an administrator for this permission, or sign in as another user";

/// The data of a request that its error page needs.
pub(crate) struct Context {
    pub(crate) wants_json: bool,
    pub(crate) theme: Theme,
    pub(crate) session: Option<Session>,
    pub(crate) path: String,
    pub(crate) is_get: bool,
    pub(crate) request_id: String,
}

impl Context {
    pub(crate) fn of(app: &Arc<App>, request: &Request) -> Self {
        let headers = request.headers();
        Self {
            wants_json: caller::wants_json(headers) || request.uri().path().starts_with("/api/"),
            theme: Theme::of(headers),
            session: caller::session(app, headers),
            path: request.uri().path_and_query().map(|p| p.as_str().to_owned()).unwrap_or_default(),
            is_get: request.method() == http::Method::GET,
            request_id: request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default(),
        }
    }
}

impl WebError {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { status, what: what.into(), why: why.into(), hint: None, code }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn not_found(why: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", why)
    }

    pub(crate) fn bad_request(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "Invalid request", why)
    }

    pub(crate) fn forbidden(why: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", why)
    }

    pub(crate) fn unauthorized(why: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Sign-in required", why)
            .hint("run `olm token` for a link that signs you in, or paste a token")
    }

    pub(crate) fn too_many(why: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", "Too many requests", why)
            .hint("wait a few seconds and try again")
    }

    pub(crate) fn render(self, context: &Context) -> Response {
        if self.status == StatusCode::UNAUTHORIZED && !context.wants_json && context.is_get {
            let next: String = form_urlencoded::byte_serialize(context.path.as_bytes()).collect();
            let to = if context.path == "/" { "/login".to_owned() } else { format!("/login?next={next}") };
            return Redirect::to(&to).into_response();
        }
        if context.wants_json {
            let body = json!({
                "error": self.what, "code": self.code, "why": self.why, "hint": self.hint,
                "requestId": context.request_id,
            });
            return (self.status, Json(body)).into_response();
        }
        let body = html! {
            div.error-page {
                p.eyebrow { "Error " (self.status.as_u16()) }
                h1 { (self.what) }
                p.lead { (parts::prose(&sentence(&self.why))) }
                @if let Some(hint) = &self.hint { p { strong { "Hint: " } (parts::prose(hint)) } }
                p.actions {
                    @if context.session.is_some() {
                        a.button href="/catalog" { "Go to the catalog" }
                    } @else {
                        a.button href="/login" { "Sign in" }
                    }
                }
                p.muted.small { "Request " code { (context.request_id) } }
            }
        };
        let shell = layout::Shell {
            title: &self.what,
            section: None,
            theme: context.theme,
            user: context.session.as_ref(),
            path: "/catalog",
            refresh: None,
            onward: None,
        };
        (self.status, shell.page(&body)).into_response()
    }
}

/// A clause of a log or of JSON as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(clause: &str) -> String {
    let mut chars = clause.trim().chars();
    let Some(first) = chars.next() else { return String::new() };
    // `spec.size`, `startingCSV` and names of objects keep their case.
    let is_name =
        |word: &str| word.contains(['-', '/', '.', '_', '`']) || word.chars().any(char::is_uppercase);
    let first_word_is_a_name = clause.trim().split(' ').next().is_some_and(is_name);
    let mut out: String =
        if first_word_is_a_name { first.to_string() } else { first.to_uppercase().collect() };
    out.push_str(chars.as_str());
    if !out.ends_with(['.', '!', '?', ':', ')', '"', '`']) {
        out.push('.');
    }
    out
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<kube::Error> for WebError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(&status),
            error => {
                let mut why = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    let text = cause.to_string();
                    if !why.contains(&text) {
                        why = format!("{why}: {text}");
                    }
                    source = cause.source();
                }
                Self::new(StatusCode::BAD_GATEWAY, "api-server-unreachable", "API server unreachable", why)
                    .hint("check that the cluster is running, then reload")
            }
        }
    }
}

impl WebError {
    /// The error of an API server, with its own message.
    pub(crate) fn of_status(status: &kube::core::Status) -> Self {
        let why = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
        match status.code {
            401 => Self::unauthorized("your token is no longer valid"),
            403 => Self::new(StatusCode::FORBIDDEN, "forbidden", "Permission denied", why).hint(ASK),
            404 => Self::not_found(why),
            409 => Self::new(StatusCode::CONFLICT, "conflict", "Conflicting change", why)
                .hint("reload and try again"),
            400 | 422 => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid",
                "The API server rejected the request",
                why,
            ),
            429 => Self::too_many(why),
            _ => Self::new(StatusCode::BAD_GATEWAY, "api-server-error", "API server error", why),
        }
    }
}

impl From<olm_ops::Error> for WebError {
    fn from(error: olm_ops::Error) -> Self {
        use olm_ops::{Error, Kind, PLAN_CHANGED};
        if let Error::Kube { what, source } = &error
            && let kube::Error::Api(status) = source.as_ref()
        {
            let inner = Self::of_status(status);
            return Self { why: format!("failed to {what}: {}", inner.why), ..inner };
        }
        let kind = error.kind();
        let (code, what) = match kind {
            Kind::Unexpected => ("unexpected", "Request failed"),
            Kind::NotFound => ("not-found", "Not found"),
            Kind::Refused if error.is_plan_changed() => (PLAN_CHANGED, "The plan changed"),
            Kind::Refused => ("refused", "Refused"),
            Kind::Unresolvable => ("unresolvable", "No matching version"),
            Kind::Timeout => ("timeout", "Timed out"),
            Kind::Forbidden => ("forbidden", "Permission denied"),
            Kind::AwaitingApproval => ("awaiting-approval", "Waiting for approval"),
        };
        let status = StatusCode::from_u16(kind.http_status()).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut out = Self::new(status, code, what, error.to_string());
        out.hint = error.hint();
        if kind == Kind::Forbidden && out.hint.is_none() {
            return out.hint(ASK);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_become_sentences() {
        for (clause, said) in [
            ("the object was deleted", "The object was deleted."),
            ("startingCSV asks for it (channel a)", "startingCSV asks for it (channel a)"),
            ("spec.size is wrong", "spec.size is wrong."),
            ("Done already.", "Done already."),
            ("", ""),
        ] {
            assert_eq!(sentence(clause), said);
        }
    }
}

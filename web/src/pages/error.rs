//! The page, or the JSON object, of a failed or refused request.

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
    caller,
    error::WebError,
    session::Session,
    view::{
        layout::Shell,
        parts::{self, sentence},
        theme::Theme,
    },
};

/// The data of a request that its error page needs.
pub(crate) struct Context {
    wants_json: bool,
    theme: Theme,
    session: Option<Session>,
    path: String,
    is_get: bool,
    request_id: String,
}

impl Context {
    pub(crate) fn of(app: &App, request: &Request, request_id: &str) -> Self {
        let headers = request.headers();
        Self {
            wants_json: caller::wants_json(headers) || request.uri().path().starts_with("/api/"),
            theme: Theme::of(headers),
            session: app.session(headers),
            path: request.uri().path_and_query().map(|p| p.as_str().to_owned()).unwrap_or_default(),
            is_get: request.method() == http::Method::GET,
            request_id: request_id.to_owned(),
        }
    }
}

pub(crate) fn page(error: &WebError, context: &Context) -> Response {
    if error.status == StatusCode::UNAUTHORIZED && !context.wants_json && context.is_get {
        let next: String = form_urlencoded::byte_serialize(context.path.as_bytes()).collect();
        let to = if context.path == "/" { "/login".to_owned() } else { format!("/login?next={next}") };
        return Redirect::to(&to).into_response();
    }
    if context.wants_json {
        let body = json!({
            "error": error.what, "code": error.code, "why": error.why, "hint": error.hint,
            "requestId": context.request_id,
        });
        return (error.status, Json(body)).into_response();
    }
    let body = html! {
        div.error-page {
            p.eyebrow { "Error " (error.status.as_u16()) }
            h1 { (error.what) }
            p.lead { (parts::prose(&sentence(&error.why))) }
            @if let Some(hint) = &error.hint { p { strong { "Hint: " } (parts::prose(hint)) } }
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
    let shell = Shell {
        title: &error.what,
        theme: context.theme,
        user: context.session.as_ref(),
        path: "/catalog",
        ..Shell::default()
    };
    (error.status, shell.page(&body)).into_response()
}

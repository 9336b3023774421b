//! Signing in and out.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, Request, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use crate::{
    api_server::{Identity, Token},
    app::App,
    assets,
    caller::{Caller, Theme, bearer, session},
    codes,
    error::WebError,
    links::local,
    posted::{Body, Posted},
    security::cookie,
    session::COOKIE,
    view::{layout::Shell, parts},
};

#[derive(Deserialize)]
pub(crate) struct LoginQuery {
    code: Option<String>,
    next: Option<String>,
}

/// `GET /login`: the form, or with a code straight in.
pub(crate) async fn form(
    State(app): State<Arc<App>>,
    Query(query): Query<LoginQuery>,
    request: Request,
) -> Result<Response, WebError> {
    let headers = request.headers();
    let next = local(query.next.as_deref().unwrap_or("/catalog"));
    let Some(code) = query.code else {
        if session(&app, headers).is_some() {
            return Ok(Redirect::to(&next).into_response());
        }
        return Ok(login_page(Theme::of(headers), &next, None).into_response());
    };
    let (client, identity) = app.codes.redeem(code.trim()).ok_or_else(|| {
        WebError::new(
            StatusCode::FORBIDDEN,
            "code-used",
            "This link does not work any more",
            "A login link works once, for five minutes. This one was used before, or is too old.",
        )
        .hint("run `olm token` for a new one, with --data-dir if `olm up` was started with one")
    })?;
    let cookie = start(&app, client, identity);
    // A browser that comes from another site (a web terminal, a chat) does not send a strict cookie along with a
    // redirect; from a page of our own it does.
    let from_elsewhere = headers.get("sec-fetch-site").and_then(|v| v.to_str().ok()) == Some("cross-site");
    let mut response = if from_elsewhere {
        let page = html! {
            (maud::DOCTYPE)
            html lang="en" {
                head { meta charset="utf-8"; title { "Signed in · olm" } meta http-equiv="refresh" content={ "0; url=" (next) }; }
                body { p { "You are signed in. " a href=(next) { "Go on" } } }
            }
        };
        page.into_response()
    } else {
        Redirect::to(&next).into_response()
    };
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// `POST /login` with a token.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(fields): Body,
) -> Result<Response, WebError> {
    let theme = Theme::of(&headers);
    let next = local(fields.text("next").unwrap_or("/catalog"));
    if !app.login_limit.allow() {
        return Err(WebError::too_many("too many people try to sign in at once"));
    }
    let token = Token(fields.text("token").unwrap_or_default().to_owned());
    let who = if token.0.is_empty() {
        Err(WebError::unauthorized("the token is missing"))
    } else {
        app.api_server.who_is(&token).await
    };
    match who {
        Ok((client, identity)) => {
            // A new session each time: nobody can prepare one for somebody else.
            if let Some(old) = cookie(&headers, COOKIE) {
                app.sessions.end(old);
            }
            let cookie = start(&app, client, identity);
            let mut response = Redirect::to(&next).into_response();
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            Ok(response)
        }
        Err(error) if crate::caller::wants_json(&headers) => Err(error),
        Err(error) => {
            let status = error.status;
            let why = match status {
                StatusCode::UNAUTHORIZED if !token.0.is_empty() => {
                    "The API server does not accept this token: it may have expired, or be for another cluster.".to_owned()
                }
                _ => format!("{}: {}", error.what, error.why),
            };
            Ok((status, login_page(theme, &next, Some(&why))).into_response())
        }
    }
}

fn start(app: &App, client: kube::Client, identity: Identity) -> HeaderValue {
    tracing::info!(user = %identity.name, "signed in");
    let id = app.sessions.start(client, identity);
    session_cookie(&id, app.tls, None)
}

fn session_cookie(id: &str, tls: bool, max_age: Option<u32>) -> HeaderValue {
    let secure = if tls { "; Secure" } else { "" };
    let age = max_age.map(|s| format!("; Max-Age={s}")).unwrap_or_default();
    let text = format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict{secure}{age}");
    HeaderValue::from_str(&text).expect("hexadecimal digits and fixed words are a header value")
}

fn login_page(theme: Theme, next: &str, problem: Option<&str>) -> Markup {
    let body = html! {
        div.login {
            img.logo src=(assets::LOGO.url) width="56" height="56" alt="";
            div { h1 { "Sign in to olm" } }
            @if let Some(problem) = problem {
                (parts::alert("That did not work", problem, Some("paste a fresh token, or run `olm token` for a link")))
            }
            div.panel {
                form.body.stack method="post" action="/login" {
                    input type="hidden" name="next" value=(next);
                    div.field {
                        label for="token" { "Token" }
                        input #token type="password" name="token" required autocomplete="off" spellcheck="false"
                            aria-invalid=[problem.map(|_| "true")] aria-describedby="token-help";
                        p.help #token-help { "A bearer token that your cluster accepts. For a ServiceAccount:" }
                        pre tabindex="0" { "kubectl create token NAME -n NAMESPACE" }
                    }
                    button.button.primary.wide { "Sign in" }
                }
            }
            div.stack-s.small.muted {
                p { "On a cluster of " code { "olm up" } " it is quicker: " code { "olm token" } " prints a link that signs you in, once. Where " code { "olm up" } " has a data directory of its own, add " code { "--data-dir" } "." }
                p { "A token stays in the memory of the console and goes nowhere but to the API server." }
            }
        }
    };
    Shell { title: "Sign in", section: None, theme, user: None, path: "/login", refresh: None }.page(&body)
}

/// `POST /api/v1/login-codes` with the user's token: a code for a browser.
pub(crate) async fn issue_code(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    if !app.login_limit.allow() {
        return Err(WebError::too_many("too many login codes are asked for"));
    }
    let token = bearer(&headers).ok_or_else(|| WebError::unauthorized("the request has no bearer token"))?;
    let (client, identity) = app.api_server.who_is(&token).await?;
    let code = app.codes.issue(client, identity);
    let seconds = i64::try_from(codes::VALID.as_secs()).unwrap_or(i64::MAX);
    let expires = Timestamp::from_second(Timestamp::now().as_second().saturating_add(seconds))
        .unwrap_or(Timestamp::MAX);
    Ok((StatusCode::CREATED, Json(json!({ "code": code, "expires": expires.to_string() }))).into_response())
}

/// `POST /logout`
pub(crate) async fn logout(State(app): State<Arc<App>>, headers: HeaderMap, posted: Posted) -> Response {
    if let Some(id) = cookie(&headers, COOKIE) {
        app.sessions.end(id);
    }
    tracing::info!(user = %posted.caller.identity.name, "signed out");
    let mut response = Redirect::to("/login").into_response();
    response.headers_mut().insert(header::SET_COOKIE, session_cookie("", app.tls, Some(0)));
    response
}

/// `GET /me`
pub(crate) async fn me(caller: Caller) -> Json<Identity> {
    Json(caller.identity)
}

/// `POST /theme`: remembered in a cookie, for signed-in people and others.
pub(crate) async fn theme(Body(fields): Body) -> Response {
    let theme = Theme::parse(fields.text("theme").unwrap_or_default());
    let next = local(fields.text("next").unwrap_or("/catalog"));
    let mut response = Redirect::to(&next).into_response();
    let text = format!("olm_theme={}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict", theme.as_str());
    let value = HeaderValue::from_str(&text).expect("one of three words is a header value");
    response.headers_mut().insert(header::SET_COOKIE, value);
    response
}

//! Sign-in and sign-out.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use crate::{
    api_server::{Identity, Token},
    app::{App, too_many_failures},
    assets,
    caller::{Caller, bearer},
    client::{ClientAddress, cookie, cookie_name, set_cookie},
    codes,
    error::WebError,
    links::{clean, local},
    posted::{Body, Fields},
    renewal::Renewal,
    session::{is_random, random_text, same},
    view::{
        field::Field,
        layout::Shell,
        parts::{self, sentence},
        theme::{THEME_COOKIE, Theme},
    },
};

/// Cookie of a browser that opened the sign-in page. The form sends its value back, so that another site's
/// page cannot sign a browser in as another user (login CSRF).
const BROWSER_COOKIE: &str = "olm_login";
/// Lifetime of an open sign-in page, in seconds.
const BROWSER_SECONDS: u32 = 30 * 60;

#[derive(Deserialize)]
pub(crate) struct LoginQuery {
    code: Option<String>,
    next: Option<String>,
}

/// `GET /login`: the form for a token; with a code, the user of the code and a button. Does not sign in.
pub(crate) async fn form(
    State(app): State<Arc<App>>,
    from: ClientAddress,
    Query(query): Query<LoginQuery>,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    let next = local(query.next.as_deref().unwrap_or("/catalog"));
    let current = app.session(&headers);
    let Some(code) = query.code else {
        if current.is_some() {
            return Ok(Redirect::to(&next).into_response());
        }
        return Ok(open(&app, &headers, StatusCode::OK, &Form::Token { problem: None }, &next));
    };
    let code = code.trim();
    let user = match app.codes.user(code) {
        Some(identity) => identity.name,
        None => return Err(bad_code(&app, from)),
    };
    let instead_of = current.map(|session| session.identity.name).filter(|current| *current != user);
    let form = Form::Code { code, user: &user, instead_of: instead_of.as_deref() };
    Ok(open(&app, &headers, StatusCode::OK, &form, &next))
}

/// `POST /login` with a token or a code.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    from: ClientAddress,
    headers: HeaderMap,
    Body(fields): Body,
) -> Result<Response, WebError> {
    let secure = app.is_secure(&headers);
    let next = local(fields.text("next").unwrap_or("/catalog"));
    check_browser(&app, &headers, &fields)?;
    let signed_in = match fields.text("code") {
        Some(code) => app.codes.redeem(code).ok_or_else(|| bad_code(&app, from)),
        None => match fields.text("token") {
            Some(token) => app.who_is(from, &Token::new(token)).await,
            None => Err(WebError::unauthorized("the token is missing")),
        },
    };
    match signed_in {
        Ok((client, identity)) => {
            // Every sign-in starts a new session, which prevents session fixation.
            if let Some(old) = app.session_cookie(&headers) {
                app.sessions.end(old);
            }
            tracing::info!(user = %identity.name, "signed in");
            let id = app.sessions.start(client, identity, None);
            let mut response = Redirect::to(&next).into_response();
            let cookies = response.headers_mut();
            cookies.append(header::SET_COOKIE, set_cookie(secure, &app.session_name, &id, None));
            cookies.append(header::SET_COOKIE, set_cookie(secure, BROWSER_COOKIE, "", Some(0)));
            Ok(response)
        }
        Err(error) if fields.text("code").is_some() || crate::caller::wants_json(&headers) => Err(error),
        Err(error) => {
            let mut error = error;
            if error.status == StatusCode::UNAUTHORIZED && fields.text("token").is_some() {
                error.why =
                    "the API server rejected the token: it may be expired or belong to another cluster"
                        .into();
            }
            error.what = "Sign-in failed".into();
            error.hint = Some(
                "paste a new token, or run `olm token` (dev cluster) or `olm console` for a sign-in link"
                    .into(),
            );
            Ok(open(&app, &headers, error.status, &Form::Token { problem: Some(&error) }, &next))
        }
    }
}

/// Checks that the form belongs to a sign-in page that this browser opened.
pub(super) fn check_browser(app: &App, headers: &HeaderMap, fields: &Fields) -> Result<(), WebError> {
    let name = cookie_name(app.is_secure(headers), BROWSER_COOKIE);
    let browser = cookie(headers, &name).filter(|value| !value.is_empty());
    if browser.zip(fields.text("browser")).is_some_and(|(cookie, field)| same(cookie, field)) {
        return Ok(());
    }
    Err(WebError::forbidden("the sign-in form was opened in another browser or has expired")
        .hint("reload the sign-in page; the console requires cookies"))
}

/// An invalid code counts as a failed attempt. A valid one is never limited.
fn bad_code(app: &App, from: ClientAddress) -> WebError {
    if app.failures.begin(from).is_none() {
        return too_many_failures();
    }
    WebError::new(
        StatusCode::FORBIDDEN,
        "code-used",
        "Sign-in link expired",
        "A sign-in link is valid once, for five minutes. This link was used before or has expired.",
    )
    .hint("run `olm token` for a new link, with --data-dir if `olm up` was started with it, or restart `olm console`")
}

/// The content of the sign-in page.
pub(super) enum Form<'a> {
    Token { problem: Option<&'a WebError> },
    Code { code: &'a str, user: &'a str, instead_of: Option<&'a str> },
}

/// The sign-in page, and the cookie that identifies the browser.
pub(super) fn open(
    app: &App,
    headers: &HeaderMap,
    status: StatusCode,
    form: &Form<'_>,
    next: &str,
) -> Response {
    let secure = app.is_secure(headers);
    // Tabs share the cookie.
    let known = cookie(headers, &cookie_name(secure, BROWSER_COOKIE)).filter(|value| is_random(value));
    let browser = known.map_or_else(random_text, str::to_owned);
    let hidden = html! {
        input type="hidden" name="browser" value=(browser);
        input type="hidden" name="next" value=(next);
    };
    let body = match form {
        Form::Token { problem } => {
            let provider = app.openid.as_ref().map(|openid| openid.provider.host());
            sign_in_options(&hidden, provider, *problem)
        }
        Form::Code { code, user, instead_of } => code_form(&hidden, code, user, *instead_of),
    };
    let theme = Theme::of(headers);
    let shell = Shell { title: "Sign in", theme, path: "/login", ..Shell::default() };
    let mut response = (status, shell.page(&body)).into_response();
    let value = set_cookie(secure, BROWSER_COOKIE, &browser, Some(BROWSER_SECONDS));
    response.headers_mut().insert(header::SET_COOKIE, value);
    response
}

fn code_form(hidden: &Markup, code: &str, user: &str, instead_of: Option<&str>) -> Markup {
    let user = clean(user);
    html! {
        div.login {
            img.logo src=(assets::LOGO.url) width="40" height="40" alt="";
            div { h1 { "Sign in to olm" } }
            div.panel {
                form.body.stack method="post" action="/login" {
                    (hidden)
                    input type="hidden" name="code" value=(code);
                    p { "Sign in this browser as " strong { (user) } "." }
                    @if let Some(current) = instead_of {
                        p { "This ends the current session of " strong { (clean(current)) } "." }
                    }
                    button.button.primary.wide { "Sign in as " (user) }
                }
            }
            div.stack-s.small.muted {
                p { "Continue only if you requested this link." }
            }
        }
    }
}

/// The provider, if configured, and a token.
fn sign_in_options(hidden: &Markup, provider: Option<&str>, problem: Option<&WebError>) -> Markup {
    let refused_token = problem.is_some_and(|problem| problem.status == StatusCode::UNAUTHORIZED);
    html! {
        div.login {
            img.logo src=(assets::LOGO.url) width="40" height="40" alt="";
            div { h1 { "Sign in to olm" } }
            @if let Some(problem) = problem {
                (parts::alert(&problem.what, &sentence(&problem.why), problem.hint.as_deref()))
            }
            @if let Some(host) = provider {
                div.panel {
                    form.body.stack method="post" action="/oidc/login" {
                        (hidden)
                        p { "Sign in with your account at " strong { (host) } ". Your permissions are those of this account in the cluster." }
                        button.button.primary.wide { "Sign in with " (host) }
                    }
                }
                details.fold open[refused_token] {
                    summary { "Sign in with a token" }
                    div.body { form.stack method="post" action="/login" { (token_form(hidden, refused_token)) } }
                }
            } @else {
                div.panel {
                    form.body.stack method="post" action="/login" { (token_form(hidden, refused_token)) }
                }
            }
            div.stack-s.small.muted {
                p { "On a cluster created by " code { "olm up" } ", " code { "olm token" } " prints a single-use sign-in link. If " code { "olm up" } " runs with a custom data directory, add " code { "--data-dir" } ". On other clusters, " code { "olm console" } " opens the console with your kubeconfig." }
                p { "The console keeps the token in memory and sends it only to the API server." }
            }
        }
    }
}

fn token_form(hidden: &Markup, refused: bool) -> Markup {
    let input = html! {
        input #token type="password" name="token" required autocomplete="off" spellcheck="false"
            aria-invalid=[refused.then_some("true")] aria-describedby="token-help";
    };
    html! {
        (hidden)
        (Field::new("token", html! { "Token" })
            .help(Some(html! { "A bearer token of your cluster. For a ServiceAccount: " code { "kubectl create token NAME -n NAMESPACE" } }))
            .show(&input))
        button.button.primary.wide { "Sign in" }
    }
}

/// `POST /api/v1/login-codes` with the user's token: a code for a browser.
pub(crate) async fn issue_code(
    State(app): State<Arc<App>>,
    from: ClientAddress,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    let token = bearer(&headers).ok_or_else(|| WebError::unauthorized("the request has no bearer token"))?;
    let (client, identity) = app.who_is(from, &token).await?;
    if app.codes_of_user.begin(identity.name.clone()).is_none() {
        return Err(WebError::too_many("too many requests for login codes"));
    }
    let code = app.codes.issue(client, identity);
    let seconds = i64::try_from(codes::VALID.as_secs()).unwrap_or(i64::MAX);
    let expires = Timestamp::from_second(Timestamp::now().as_second().saturating_add(seconds))
        .unwrap_or(Timestamp::MAX);
    Ok((StatusCode::CREATED, Json(json!({ "code": code, "expires": expires.to_string() }))).into_response())
}

/// `POST /logout`: ends the session, also at the provider where the session has one that supports it. Works with an
/// expired token.
pub(crate) async fn logout(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(fields): Body,
) -> Result<Response, WebError> {
    let secure = app.is_secure(&headers);
    let mut elsewhere = None;
    if let Some(session) = app.session(&headers) {
        session.check_csrf(fields.raw("_csrf"), &headers)?;
        app.sessions.end_key(&session.key);
        tracing::info!(user = %session.identity.name, "signed out");
        if let (Some(renewal), Some(openid)) = (session.renewal, &app.openid) {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let back = format!("{}://{host}/login", if secure { "https" } else { "http" });
            elsewhere = openid.provider.end_session(&back).await;
            withdraw(Arc::clone(&app), renewal);
        }
    }
    let mut response = match elsewhere {
        Some(url) => leave(&headers, "Signed out", "Sign out at the provider", &url),
        None => Redirect::to("/login").into_response(),
    };
    response.headers_mut().insert(header::SET_COOKIE, set_cookie(secure, &app.session_name, "", Some(0)));
    // Browsers show stored pages after Back without a request.
    let cleared = HeaderValue::from_static("\"cache\"");
    response.headers_mut().insert(HeaderName::from_static("clear-site-data"), cleared);
    Ok(response)
}

/// A page that redirects immediately, also to another site.
pub(super) fn leave(headers: &HeaderMap, title: &str, label: &str, to: &str) -> Response {
    let body = html! {
        div.login {
            img.logo src=(assets::LOGO.url) width="40" height="40" alt="";
            div { h1 { (title) } }
            div.panel { div.body { a.button.primary.wide href=(to) { (label) } } }
        }
    };
    let (theme, onward) = (Theme::of(headers), Some(to));
    let shell = Shell { title, theme, path: "/login", onward, ..Shell::default() };
    shell.page(&body).into_response()
}

/// Withdraws the refresh token at the provider, in the background so that the response does not wait.
fn withdraw(app: Arc<App>, renewal: Arc<Renewal>) {
    tokio::spawn(async move {
        let (Some(token), Some(openid)) = (renewal.take_refresh_token().await, &app.openid) else { return };
        if let Err(error) = openid.provider.revoke(&token).await {
            tracing::debug!(%error, "failed to revoke a refresh token");
        }
    });
}

/// `GET /me`
pub(crate) async fn me(caller: Caller) -> Json<Identity> {
    Json(caller.identity)
}

/// `POST /theme`: stores the theme in a cookie, with or without a session.
pub(crate) async fn theme(State(app): State<Arc<App>>, headers: HeaderMap, Body(fields): Body) -> Response {
    let theme = Theme::parse(fields.text("theme").unwrap_or_default());
    let next = local(fields.text("next").unwrap_or("/catalog"));
    let mut response = Redirect::to(&next).into_response();
    let secure = app.is_secure(&headers);
    let value = set_cookie(secure, THEME_COOKIE, theme.as_str(), Some(365 * 24 * 3600));
    response.headers_mut().insert(header::SET_COOKIE, value);
    response
}

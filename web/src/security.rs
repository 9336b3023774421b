//! Security headers of every response, and checks of every request.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

use crate::{
    app::App,
    audit,
    error::WebError,
    pages::{self, error::Context},
    session,
};

/// Only files of the console, and nothing inline.
pub(crate) const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'";

/// Assigns an id to the request, checks its origin, and sets the security headers of the response.
pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = session::hex(&rand::random::<[u8; 6]>());
    let is_probe = matches!(request.uri().path(), "/healthz" | "/readyz");
    let user = audit::User::default();
    request.extensions_mut().insert(user.clone());
    let context = Context::of(&app, &request, &id);
    let secure = app.is_secure(request.headers());
    // The kubelet probes by pod address; the probe responses contain no data.
    let refusal = if is_probe { None } else { refuse(&app, &request) };
    let method = request.method().clone();
    let uri = request.uri().clone();
    let mut response = match refusal {
        Some(error) => pages::error::page(&error, &context),
        None => next.run(request).await,
    };
    // Handlers return bare errors; caller and request are known here.
    if let Some(error) = response.extensions_mut().remove::<WebError>() {
        tracing::info!(request = %id, %method, path = uri.path(), status = error.status.as_u16(), error = %error.why, "refused");
        response = pages::error::page(&error, &context);
    }
    audit::log(&user, &method, &uri, response.status(), &id);
    add_headers(response.headers_mut(), &id, secure);
    response
}

fn refuse(app: &App, request: &Request) -> Option<WebError> {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|v| v.to_str().ok())
        .or_else(|| request.uri().authority().map(|a| a.as_str()))
        .unwrap_or_default();
    if !app.allowed_hosts.allows(host) {
        return Some(
            WebError::forbidden(format!("Host: `{}` is not an allowed host name", crate::links::clean(host)))
                .hint("use 127.0.0.1 or localhost, or start the console with --allowed-host NAME"),
        );
    }
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !safe && !is_same_origin(request.headers(), host) {
        return Some(WebError::forbidden("cross-site request").hint("reload the console page and retry"));
    }
    None
}

/// Whether a changing request comes from a page of the console. Requests with a bearer token are exempt: a
/// page of another site cannot make a browser send one.
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    if let Some(site) = text(&HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    if let Some(origin) = text(&header::ORIGIN) {
        let authority =
            origin.parse::<Uri>().ok().and_then(|uri| uri.authority().map(|a| a.as_str().to_owned()));
        return authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host));
    }
    headers.contains_key(header::AUTHORIZATION)
}

fn add_headers(headers: &mut HeaderMap, id: &str, secure: bool) {
    let fixed = [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ];
    for (name, value) in fixed {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // Icons have a stricter policy.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(CSP));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(HeaderName::from_static("x-request-id"), value);
    }
}

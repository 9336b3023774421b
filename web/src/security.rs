//! Security headers of every response, and checks of every request.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

use crate::{app::App, audit, client::is_secure, error::WebError, session};

/// Only files of the console, and nothing inline.
pub(crate) const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'";

/// A short id of a request, for the log and error pages.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

/// Allowed values of `Host`. Other names that resolve to the console indicate DNS rebinding.
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub(crate) fn new(more: Vec<String>) -> Self {
        let service =
            ["olm-console", "olm-console.olm", "olm-console.olm.svc", "olm-console.olm.svc.cluster.local"];
        let own = ["127.0.0.1", "localhost", "[::1]"].into_iter().chain(service).map(str::to_owned);
        Self(own.chain(more.into_iter().map(|host| host.to_ascii_lowercase())).collect())
    }

    /// Whether a `Host` is allowed, on any port.
    fn allows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name,
            _ => host,
        };
        self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// Assigns an id to the request, checks its origin, and sets the security headers of the response.
pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = RequestId(session::hex(&rand::random::<[u8; 6]>()));
    let is_probe = matches!(request.uri().path(), "/healthz" | "/readyz");
    let user = audit::User::default();
    request.extensions_mut().insert(id.clone());
    request.extensions_mut().insert(user.clone());
    let context = crate::error::Context::of(&app, &request);
    let secure = is_secure(&app, request.headers());
    // The kubelet probes by pod address; the probe responses contain no data.
    let refusal = if is_probe { None } else { refuse(&app, &request) };
    let method = request.method().clone();
    let uri = request.uri().clone();
    let mut response = match refusal {
        Some(error) => error.render(&context),
        None => next.run(request).await,
    };
    // Handlers return bare errors; caller and request are known here.
    if let Some(error) = response.extensions_mut().remove::<WebError>() {
        tracing::info!(request = %id.0, %method, path = uri.path(), status = error.status.as_u16(), error = %error.why, "refused");
        response = error.render(&context);
    }
    audit::log(&user, &method, &uri, response.status(), &id.0);
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

fn add_headers(headers: &mut HeaderMap, id: &RequestId, secure: bool) {
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
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        headers.insert(HeaderName::from_static("x-request-id"), value);
    }
}

pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// Compares in a time that does not depend on where the texts differ.
pub(crate) fn same(a: &str, b: &str) -> bool {
    // Equal digests mean equal texts, and the position of a difference between digests reveals nothing about
    // the texts.
    session::hash(a) == session::hash(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hosts_are_allowed() {
        let hosts = AllowedHosts::new(vec!["Console.Example.org".into()]);
        for good in [
            "127.0.0.1:8080",
            "localhost",
            "LOCALHOST:1",
            "[::1]:8080",
            "[::1]",
            "olm-console.olm.svc:8080",
            "console.example.org",
        ] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in ["", "evil.example", "127.0.0.1.evil.example:8080", "localhost:80@evil", "10.244.0.7:8080"]
        {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; olm_session=x y"));
        headers.append(header::COOKIE, HeaderValue::from_static("olm_theme=dark"));
        assert_eq!(cookie(&headers, "olm_session"), Some("x y"));
        assert_eq!(cookie(&headers, "olm_theme"), Some("dark"));
        assert_eq!(cookie(&headers, "session"), None);
    }
}

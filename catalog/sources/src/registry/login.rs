//! Creates an `Authorization` header from a challenge and credentials.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Client, RequestBuilder, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde::Deserialize;

use super::{challenge::Challenge, realm::same_site};
use crate::{
    credentials::{Credentials, Login, Secret},
    error::SourceError,
    net::{self, Http, Redirects},
    retry::Failure,
};

/// Tokens have a few KiB.
const LARGEST_TOKEN: u64 = 1 << 20;

#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
}

/// The header that answers one of the challenges with credentials (or anonymously); `None` where these cannot
/// be used, or the token service rejects them. A token's scope is the challenge's, or the given one where the
/// challenge has none or it is required.
pub(super) async fn authorize(
    http: &Http<'_>,
    base: &Url,
    (own_scope, is_required): (String, bool),
    challenges: &[Challenge],
    login: Option<&Login>,
) -> Result<Option<HeaderValue>, Failure> {
    let secret = login.map(|login| &login.secret);
    for challenge in challenges {
        let text = match (challenge, secret) {
            (_, Some(Secret::Helper(_))) => return Ok(None),
            (Challenge::Bearer { .. }, Some(Secret::Bearer(token))) => Some(format!("Bearer {token}")),
            (Challenge::Bearer { realm, service, scope }, secret) => {
                let scope = scope.clone().filter(|_| !is_required).unwrap_or_else(|| own_scope.clone());
                let realm = token_url(http, base, realm, secret.is_some())?;
                token(http, realm, service.as_deref(), &scope, secret)
                    .await?
                    .map(|token| format!("Bearer {token}"))
            }
            (Challenge::Basic, Some(Secret::Basic { user, password })) => Some(basic(user, password)),
            (Challenge::Basic, _) => None,
        };
        if let Some(text) = text {
            let mut value = HeaderValue::try_from(text).map_err(|_| {
                SourceError::malformed(base, "the credentials contain characters not allowed in HTTP headers")
            })?;
            value.set_sensitive(true);
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// The header and the description of the credentials, for a server that is not a registry and sends no
/// challenge: with credentials that need no token service.
pub(crate) fn direct(credentials: &Credentials, host: &str, path: &str) -> Option<(String, HeaderValue)> {
    credentials.matching(host, path.trim_matches('/')).into_iter().find_map(|login| {
        let text = match &login.secret {
            Secret::Basic { user, password } => basic(user, password),
            Secret::Bearer(token) => format!("Bearer {token}"),
            Secret::Identity(_) | Secret::Helper(_) => return None,
        };
        let mut value = HeaderValue::try_from(text).ok()?;
        value.set_sensitive(true);
        Some((login.to_string(), value))
    })
}

/// The token service of a registry. Unlike containerd and docker, which send credentials to any host that the
/// registry names, this sends them only to hosts of the registry's own site and to those that an
/// administrator listed.
fn token_url(http: &Http<'_>, base: &Url, realm: &str, secret: bool) -> Result<Url, SourceError> {
    let url =
        base.join(realm).map_err(|_| SourceError::malformed(base, "invalid URL of its token service"))?;
    let (registry, host) = (base.host_str().unwrap_or_default(), net::host_of(&url));
    let name = url.host_str().unwrap_or_default();
    let plain_is_fine = base.scheme() == "http" && name == registry || http.is_plain(&host);
    if url.scheme() != "https" && !(url.scheme() == "http" && plain_is_fine) {
        let reason = format!("its token service {host} has no TLS, so credentials would be sent unencrypted");
        return Err(SourceError::malformed(base, reason));
    }
    let listed = |listed: &String| listed.eq_ignore_ascii_case(name) || listed.eq_ignore_ascii_case(&host);
    if secret && !same_site(registry, name) && !http.options.token_hosts.iter().any(listed) {
        return Err(SourceError::malformed(
            base,
            format!(
                "it requests credentials for {host}, a host of another site; hint: if this is its token \
                 service, an administrator can add it to tokenHosts of ConfigMap olm-registries"
            ),
        ));
    }
    Ok(url)
}

/// Fetches a token; `None` where the service rejects the credentials.
async fn token(
    http: &Http<'_>,
    url: Url,
    service: Option<&str>,
    scope: &str,
    secret: Option<&Secret>,
) -> Result<Option<String>, Failure> {
    let host = net::host_of(&url);
    let what = format!("the token service at {host}");
    let redirects = if secret.is_some() { Redirects::Refused } else { Redirects::Followed };
    let client = http.client(&url, &host, &what, redirects)?;
    let request = token_request(client, url, service, scope, secret);
    let response = request.send().await.map_err(|e| net::failure(&what, e))?;
    if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST)
    {
        return Ok(None);
    }
    let response = net::success(response, &what, String::new).await?;
    let body = net::small_body(response, &what, LARGEST_TOKEN, &http.options.timeouts).await?;
    // The parser's message could quote the token.
    let answer: Answer = serde_json::from_slice(&body)
        .map_err(|_| SourceError::malformed(&what, "response is not a token document"))?;
    match answer.token.or(answer.access_token).filter(|token| !token.is_empty()) {
        Some(token) => Ok(Some(token)),
        None => Err(SourceError::malformed(&what, "response contains no token").into()),
    }
}

fn token_request(
    client: &Client,
    mut url: Url,
    service: Option<&str>,
    scope: &str,
    secret: Option<&Secret>,
) -> RequestBuilder {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    if let Some(service) = service {
        parameters.append_pair("service", service);
    }
    if let Some(Secret::Identity(refresh)) = secret {
        parameters
            .append_pair("scope", scope)
            .append_pair("grant_type", "refresh_token")
            .append_pair("client_id", "olm")
            .append_pair("refresh_token", refresh);
        return client
            .post(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(parameters.finish());
    }
    // Several scopes are separated by spaces and sent one by one.
    for one in scope.split_whitespace() {
        parameters.append_pair("scope", one);
    }
    url.query_pairs_mut().extend_pairs(form_urlencoded::parse(parameters.finish().as_bytes()));
    let request = client.get(url);
    match secret {
        Some(Secret::Basic { user, password }) => request.basic_auth(user, Some(password)),
        _ => request,
    }
}

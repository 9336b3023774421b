//! Proxies requests to an extension API server.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, Request, header, request::Parts};

use super::remote::Remote;
use crate::{
    authn::Identity,
    proxy::OWN_HEADERS,
    state::Server,
    status::{ApiError, ApiResult, bytes_response},
};

/// Forwards a request in the caller's name, and streams the response.
pub(crate) async fn forward(
    server: &Server,
    remote: &Remote,
    parts: &Parts,
    body: Body,
    caller: &Identity,
) -> ApiResult<Response> {
    if !remote.available {
        return Ok(plain(503, "service unavailable"));
    }
    if parts.headers.contains_key(header::UPGRADE) {
        return Err(ApiError::not_implemented("an upgraded connection to an aggregated API server"));
    }
    let endpoint = match &remote.endpoint {
        Ok(endpoint) => endpoint,
        Err(why) => return Ok(plain(500, why)),
    };
    let path = parts.uri.path_and_query().map_or(parts.uri.path(), |p| p.as_str());
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| {
        ApiError::bad_request(format!("failed to forward the path: {error}"))
    })?;
    for (name, value) in &parts.headers {
        let identity = ["impersonate-", "x-remote-"].iter().any(|prefix| name.as_str().starts_with(prefix));
        if !identity && !OWN_HEADERS.contains(name) {
            request.headers_mut().append(name, value.clone());
        }
    }
    identify(request.headers_mut(), caller)?;
    let answer = match endpoint.send(&server.network(), request).await {
        Ok(answer) => answer,
        Err(why) => return Ok(plain(503, &format!("error trying to reach service: {why}"))),
    };
    let (mut head, body) = answer.into_parts();
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE] {
        head.headers.remove(name);
    }
    Ok(Response::from_parts(head, Body::new(body)))
}

/// Sets the caller's identity in the headers that the ConfigMap of the front proxy names.
pub(super) fn identify(headers: &mut HeaderMap, caller: &Identity) -> ApiResult<()> {
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
            ApiError::bad_request(
                "the name, a group or an extra of the user contains characters not allowed in headers",
            )
        })
    };
    headers.insert("x-remote-user", value(&caller.user)?);
    if !caller.uid.is_empty() {
        headers.insert("x-remote-uid", value(&caller.uid)?);
    }
    for group in &caller.groups {
        headers.append("x-remote-group", value(group)?);
    }
    for (key, values) in &caller.extra {
        let name = HeaderName::from_bytes(format!("x-remote-extra-{}", escape(key)).as_bytes())
            .map_err(|error| ApiError::bad_request(format!("extra {key:?} of the user: {error}")))?;
        for text in values {
            headers.append(name.clone(), value(text)?);
        }
    }
    Ok(())
}

/// A key as part of a header name: invalid characters are percent-encoded.
fn escape(key: &str) -> String {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&b);
    key.bytes().map(|b| if fits(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn plain(code: u16, text: &str) -> Response {
    bytes_response(code, "text/plain; charset=utf-8", format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_header_names() {
        assert_eq!(
            escape("authentication.kubernetes.io/pod-name"),
            "authentication.kubernetes.io%2Fpod-name"
        );
        assert_eq!(escape("100%"), "100%25");
        assert_eq!(escape("ä"), "%C3%A4");
    }
}

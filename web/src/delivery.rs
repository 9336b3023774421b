//! Delivery of responses: entity tags, conditional requests and compression.
//!
//! Compression next to secrets enables BREACH: a page of another site makes the browser request a page of the
//! console many times, with guesses in the query, and an observer of the network derives from the size of the
//! responses whether a guess equals the CSRF token. Pages contain both: the token in every form, and the search text.
//! The console therefore compresses a response that may contain a secret only where the browser states that the
//! request comes from a page of the console or from the user ([`is_own_request`]). The session cookie is
//! `SameSite=Strict`, so that requests of other sites do not carry it in the first place.
//!
//! Entity tags are strong: the digest of the content, with the encoding. A page with a tag is `private`, so that no
//! shared cache stores it, and `no-cache`: a browser validates a stored page before use, and the console checks the
//! session first. Signing out clears the cache of the browser. Other pages remain `no-store`.

use std::{convert::Infallible, io::Write as _};

use axum::{
    body::{Body, Bytes, HttpBody as _, to_bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use flate2::{Compression, write::GzEncoder};
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::session;

/// `Cache-Control` of pages with an entity tag.
pub(crate) const REVALIDATED: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Smaller bodies are not compressed.
const WORTHWHILE: usize = 1024;

/// Adds an entity tag, answers conditional requests, and compresses the body.
pub(crate) async fn deliver(request: Request, next: Next) -> Response {
    // The router removes the body of a response to HEAD after this layer.
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let asked = request.headers().clone();
    let response = next.run(request).await;
    // Event streams have no size.
    let is_whole = response.body().size_hint().exact().is_some_and(|size| size > 0);
    if !is_whole || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let is_public = cache_control(&parts.headers).contains("public");
    let is_text = is_compressible(&parts.headers);
    let gzip = is_text && accepts_gzip(&asked) && (is_public || is_own_request(&asked));
    if is_text {
        let vary = if is_public {
            "accept-encoding"
        } else {
            "accept, accept-encoding, authorization, cookie, sec-fetch-site"
        };
        parts.headers.insert(header::VARY, HeaderValue::from_static(vary));
    }
    let Ok(content) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let gzip = gzip && content.len() >= WORTHWHILE;
    if is_read && parts.status == StatusCode::OK && !cache_control(&parts.headers).contains("no-store") {
        let tag = tag(&content, gzip);
        let is_current = names(&asked, &tag);
        if let Ok(value) = HeaderValue::from_str(&tag) {
            parts.headers.insert(header::ETAG, value);
        }
        if is_current {
            parts.status = StatusCode::NOT_MODIFIED;
            for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE] {
                parts.headers.remove(name);
            }
            // The router would add `Content-Length: 0` to a body of known size, but RFC 9110, 8.6 permits only the
            // length of the page.
            let nothing = Body::from_stream(stream::empty::<Result<Bytes, Infallible>>());
            return Response::from_parts(parts, nothing);
        }
    }
    let packed = if gzip { compress(&content) } else { None };
    if packed.is_some() {
        parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    Response::from_parts(parts, Body::from(packed.unwrap_or(content)))
}

fn cache_control(headers: &HeaderMap) -> &str {
    headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Fonts and raster images are compressed already.
fn is_compressible(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/") && kind != "text/event-stream"
        || matches!(kind, "application/json" | "image/svg+xml")
}

fn accepts_gzip(asked: &HeaderMap) -> bool {
    let all = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut accepted = None;
    for part in all.flat_map(|value| value.split(',')) {
        let (coding, weight) = part.split_once(';').unwrap_or((part, ""));
        let refused =
            weight.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse::<f32>().is_ok_and(|q| q <= 0.0));
        match coding.trim() {
            coding if coding.eq_ignore_ascii_case("gzip") => return !refused,
            "*" => accepted = Some(!refused),
            _ => {}
        }
    }
    accepted.unwrap_or_default()
}

/// Whether a page of another site cannot have caused the request: the browser names the console or the user as its
/// origin, or the request has a bearer token, which no browser adds.
fn is_own_request(asked: &HeaderMap) -> bool {
    match asked.get(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => site == "same-origin" || site == "none",
        None => asked.contains_key(header::AUTHORIZATION),
    }
}

fn tag(content: &[u8], gzip: bool) -> String {
    let digest = session::hex(&Sha256::digest(content)[..16]);
    format!("\"{digest}{}\"", if gzip { "-gzip" } else { "" })
}

/// Whether `If-None-Match` has the tag. A weak tag of a proxy matches too.
fn names(asked: &HeaderMap, tag: &str) -> bool {
    let all = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

fn compress(content: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(content.len() / 4), Compression::default());
    encoder.write_all(content).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn the_weight_of_gzip_decides_before_that_of_any_encoding() {
        for (text, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0, *", false),
            ("*", true),
            ("*;q=0", false),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(&headers(&[("accept-encoding", text)])), expected, "{text}");
        }
    }

    #[test]
    fn requests_of_other_sites_are_not_own_requests() {
        for (pairs, expected) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("authorization", "Bearer x")], false),
            (&[("authorization", "Bearer x")], true),
            (&[], false),
        ] {
            assert_eq!(is_own_request(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_tag_is_that_of_one_encoding() {
        let (plain, packed) = (tag(b"a", false), tag(b"a", true));
        assert_ne!(plain, packed);
        assert_ne!(plain, tag(b"b", false));
        let asked = |text: &str| HeaderMap::from_iter([(header::IF_NONE_MATCH, text.parse().unwrap())]);
        assert!(names(&asked(&format!("\"x\", W/{plain}")), &plain) && names(&asked("*"), &plain));
        assert!(!names(&asked(&plain), &packed) && !names(&HeaderMap::new(), &plain));
    }
}

//! Delivery of responses: entity tags, conditional requests and compression.
//!
//! Compression next to secrets enables BREACH: a page of another site makes the browser request a page of the
//! console many times, with guesses in the query, and an observer of the network derives from the size of the
//! responses whether a guess equals the CSRF token. Pages contain both: the token in every form, and the search text.
//! The console therefore compresses a response that may contain a secret only where the browser states that the
//! request comes from a page of the console or from the user ([`is_own_request`]). The session cookie is
//! `SameSite=Strict`, so that requests of other sites do not carry it in the first place.
//!
//! Entity tags are strong: a digest with the encoding. It is that of the content, or, where the handler provides a
//! [`Tag`], that of everything that the content is made of: such a page is confirmed without being rendered. A page
//! with a tag is `private`, so that no shared cache stores it, and `no-cache`: a browser validates a stored page before
//! use, and the console checks the session first. Signing out clears the cache of the browser. Other pages remain
//! `no-store`.
//!
//! Static files are compressed once: their handler provides [`Packed`].

use std::{
    convert::Infallible,
    fmt::{self, Write as _},
    io::Write as _,
    sync::LazyLock,
};

use axum::{
    body::{Body, Bytes, HttpBody as _, to_bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use flate2::{Compression, write::GzEncoder};
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, response::Parts};
use sha2::{Digest as _, Sha256};

use crate::session;

/// `Cache-Control` of pages with an entity tag.
pub(crate) const REVALIDATED: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Smaller bodies are not compressed.
const WORTHWHILE: usize = 1024;

const PUBLIC_VARY: HeaderValue = HeaderValue::from_static("accept-encoding");
const PRIVATE_VARY: HeaderValue =
    HeaderValue::from_static("accept, accept-encoding, authorization, cookie, sec-fetch-site");

/// Identifies this process, and with it the build of the console.
static PROCESS: LazyLock<[u8; 16]> = LazyLock::new(rand::random);

/// The entity tag of a response without its encoding, as an extension of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag(String);

/// The compressed content of a response, as an extension of the response.
#[derive(Clone)]
pub(crate) struct Packed(Bytes);

impl Tag {
    /// The tag of a page that is a function of `inputs` and of the program: equal texts mean equal pages. The text is
    /// that of `Debug`, which contains all fields and escapes strings.
    pub(crate) fn of_inputs(inputs: &impl fmt::Debug) -> Self {
        struct Digest(Sha256);
        impl fmt::Write for Digest {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.update(text);
                Ok(())
            }
        }
        let mut digest = Digest(Sha256::new_with_prefix(*PROCESS));
        // Writing to a digest never fails.
        let _ = write!(digest, "{inputs:?}");
        Self(session::hex(&digest.0.finalize()[..16]))
    }

    pub(crate) fn of_content(content: &[u8]) -> Self {
        Self(session::hex(&Sha256::digest(content)[..16]))
    }

    fn encoded(&self, gzip: bool) -> String {
        format!("\"{}{}\"", self.0, if gzip { "-gzip" } else { "" })
    }

    /// Whether the client has the page with this tag, in the encoding that it would get now.
    pub(crate) fn is_known(&self, asked: &HeaderMap) -> bool {
        let tag = self.encoded(packs_pages(asked));
        // `*` also names a page that does not exist.
        listed(asked).any(|one| one == tag)
    }

    /// The response to a client that has the page.
    pub(crate) fn unchanged(self) -> Response {
        let mut response = (StatusCode::NOT_MODIFIED, [(header::CACHE_CONTROL, REVALIDATED)]).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl Packed {
    /// `None` for content that is not worth it.
    pub(crate) fn of(content: &[u8]) -> Option<Self> {
        let packed = (content.len() >= WORTHWHILE).then(|| compress(content)).flatten()?;
        (packed.len() < content.len()).then_some(Self(packed))
    }
}

/// Adds an entity tag, answers conditional requests, and compresses the body.
pub(crate) async fn deliver(request: Request, next: Next) -> Response {
    // The router removes the body of a response to HEAD after this layer.
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let asked = request.headers().clone();
    let mut response = next.run(request).await;
    let tag = response.extensions_mut().remove::<Tag>();
    let packed = response.extensions_mut().remove::<Packed>();
    if response.status() == StatusCode::NOT_MODIFIED {
        let (mut parts, _) = response.into_parts();
        parts.headers.insert(header::VARY, PRIVATE_VARY);
        return unchanged(parts, tag.map(|tag| tag.encoded(packs_pages(&asked))));
    }
    // Event streams have no size.
    let is_whole = response.body().size_hint().exact().is_some_and(|size| size > 0);
    if !is_whole || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let is_public = cache_control(&parts.headers).contains("public");
    let mediatype = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_text = is_compressible(mediatype.unwrap_or_default());
    let gzip = is_text && if is_public { accepts_gzip(&asked) } else { packs_pages(&asked) };
    if is_text {
        parts.headers.insert(header::VARY, if is_public { PUBLIC_VARY } else { PRIVATE_VARY });
    }
    let Ok(content) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let gzip = gzip && content.len() >= WORTHWHILE;
    if is_read && parts.status == StatusCode::OK && !cache_control(&parts.headers).contains("no-store") {
        let tag = tag.unwrap_or_else(|| Tag::of_content(&content)).encoded(gzip);
        if names(&asked, &tag) {
            for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE] {
                parts.headers.remove(name);
            }
            return unchanged(parts, Some(tag));
        }
        if let Ok(value) = HeaderValue::from_str(&tag) {
            parts.headers.insert(header::ETAG, value);
        }
    }
    let packed = match packed {
        Some(Packed(packed)) if gzip => Some(packed),
        _ if gzip => compress(&content),
        _ => None,
    };
    if packed.is_some() {
        parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    Response::from_parts(parts, Body::from(packed.unwrap_or(content)))
}

/// The response to a conditional request for a page that the client has.
fn unchanged(mut parts: Parts, tag: Option<String>) -> Response {
    parts.status = StatusCode::NOT_MODIFIED;
    if let Some(value) = tag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        parts.headers.insert(header::ETAG, value);
    }
    // The router would add `Content-Length: 0` to a body of known size, but RFC 9110, 8.6 permits only the
    // length of the page.
    let nothing = Body::from_stream(stream::empty::<Result<Bytes, Infallible>>());
    Response::from_parts(parts, nothing)
}

fn cache_control(headers: &HeaderMap) -> &str {
    headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Fonts and raster images are compressed already.
pub(crate) fn is_compressible(mediatype: &str) -> bool {
    let kind = mediatype.split(';').next().unwrap_or_default().trim();
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

/// Whether a page, which may contain a secret, is compressed.
fn packs_pages(asked: &HeaderMap) -> bool {
    accepts_gzip(asked) && is_own_request(asked)
}

/// Whether `If-None-Match` has the tag.
fn names(asked: &HeaderMap, tag: &str) -> bool {
    listed(asked).any(|one| one == "*" || one == tag)
}

/// The tags of `If-None-Match`. A weak tag of a proxy matches too.
fn listed(asked: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).map(str::trim).map(|one| one.strip_prefix("W/").unwrap_or(one))
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
        let [plain, packed] = [false, true].map(|gzip| Tag::of_content(b"a").encoded(gzip));
        assert_ne!(plain, packed);
        assert_ne!(plain, Tag::of_content(b"b").encoded(false));
        let asked = |text: &str| HeaderMap::from_iter([(header::IF_NONE_MATCH, text.parse().unwrap())]);
        assert!(names(&asked(&format!("\"x\", W/{plain}")), &plain) && names(&asked("*"), &plain));
        assert!(!names(&asked(&plain), &packed) && !names(&HeaderMap::new(), &plain));
    }

    #[test]
    fn different_inputs_have_different_tags() {
        assert_eq!(Tag::of_inputs(&("a", 1)), Tag::of_inputs(&("a", 1)));
        for other in [("a", "b\", \"c"), ("a\", \"b", "c"), ("a", "b"), ("", "ab")] {
            assert_ne!(Tag::of_inputs(&("a", "b", "c")), Tag::of_inputs(&other), "{other:?}");
        }
        // `*` does not confirm a page that was not looked for
        let tag = Tag::of_inputs(&1);
        let asked = |text: &str| HeaderMap::from_iter([(header::IF_NONE_MATCH, text.parse().unwrap())]);
        assert!(tag.is_known(&asked(&tag.encoded(false))));
        assert!(!tag.is_known(&asked("*")) && !tag.is_known(&asked(&tag.encoded(true))));
    }
}

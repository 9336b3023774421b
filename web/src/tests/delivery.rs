//! Compression, entity tags and conditional requests.

use std::io::Read as _;

use axum::body::Body;
use flate2::read::GzDecoder;
use http::{HeaderName, Method, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::{Browser, TOKEN, cookies, get};

async fn fetch(browser: &Browser, path: &str, headers: &[(HeaderName, &str)]) -> Response<Body> {
    let mut request =
        get(path).header(header::COOKIE, &browser.cookie).header(header::ACCEPT_ENCODING, "gzip, br");
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    browser.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

fn own() -> (HeaderName, &'static str) {
    (HeaderName::from_static("sec-fetch-site"), "same-origin")
}

fn text(response: &Response<Body>, name: HeaderName) -> &str {
    response.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

async fn body(response: Response<Body>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[tokio::test]
async fn pages_are_compressed_for_the_console_and_never_for_other_sites() {
    let (browser, _) = Browser::etcd().await;
    for path in ["/catalog", "/catalog/community/etcd", "/installed"] {
        let plain = body(fetch(&browser, path, &[]).await).await;
        let response = fetch(&browser, path, &[own()]).await;
        assert_eq!(text(&response, header::CONTENT_ENCODING), "gzip", "{path}");
        assert!(text(&response, header::VARY).contains("sec-fetch-site"), "{path}");
        let packed = body(response).await;
        assert!(packed.len() < 60_000 && packed.len() < plain.len() / 2, "{path}: {}", packed.len());
        let mut unpacked = Vec::new();
        GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain, "{path}");
        // a page of another site, and a browser that does not state the site
        let cross = (HeaderName::from_static("sec-fetch-site"), "cross-site");
        for headers in [&[cross][..], &[]] {
            let response = fetch(&browser, path, headers).await;
            assert_eq!(text(&response, header::CONTENT_ENCODING), "", "{path}: {headers:?}");
        }
    }
    // a client with a token has no CSRF token
    let json = get("/catalog")
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .header(header::ACCEPT, "application/json")
        .header(header::ACCEPT_ENCODING, "gzip");
    let response = browser.router.clone().oneshot(json.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(text(&response, header::CONTENT_ENCODING), "gzip");
    // static files have no secrets, and fonts are compressed already
    let style = fetch(&browser, &crate::assets::CSS.url, &[]).await;
    assert_eq!(
        (text(&style, header::CONTENT_ENCODING), text(&style, header::VARY)),
        ("gzip", "accept-encoding")
    );
    let font = fetch(&browser, &crate::assets::FONT.url, &[]).await;
    assert_eq!(text(&font, header::CONTENT_ENCODING), "");
}

#[tokio::test]
async fn an_unchanged_page_of_the_catalog_is_not_sent_again() {
    let (browser, fake) = Browser::etcd().await;
    let first = fetch(&browser, "/catalog", &[own()]).await;
    assert_eq!(text(&first, header::CACHE_CONTROL), "private, no-cache");
    let tag = text(&first, header::ETAG).to_owned();
    assert!(tag.starts_with('"') && tag.ends_with("-gzip\""), "{tag}");
    // when the same page is requested with its tag, then there is no body
    let known = (header::IF_NONE_MATCH, tag.as_str());
    let again = fetch(&browser, "/catalog", &[own(), known.clone()]).await;
    assert_eq!((again.status(), text(&again, header::ETAG)), (StatusCode::NOT_MODIFIED, tag.as_str()));
    assert!(text(&again, header::CONTENT_SECURITY_POLICY).contains("default-src 'none'"));
    assert_eq!((text(&again, header::CONTENT_TYPE), text(&again, header::CONTENT_LENGTH)), ("", ""));
    // and the headers that a cache needs
    for name in [header::CACHE_CONTROL, header::VARY] {
        assert_eq!(text(&again, name.clone()), text(&first, name.clone()), "{name}");
    }
    assert!(body(again).await.is_empty());
    // a page with another content, a JSON response and the page of another session have other tags
    let json =
        fetch(&browser, "/catalog", &[own(), (header::ACCEPT, "application/json"), known.clone()]).await;
    assert_eq!(json.status(), StatusCode::OK);
    let other = Browser::new(browser.router.clone()).await;
    assert_eq!(fetch(&other, "/catalog", &[own(), known.clone()]).await.status(), StatusCode::OK);
    fake.remove("/apis/operators.coreos.com/v1alpha1/namespaces/etcd/installplans/install-abc");
    assert_eq!(fetch(&browser, "/catalog", &[own(), known.clone()]).await.status(), StatusCode::OK);
    // pages of one user's objects have none
    for path in ["/installed", "/installed/etcd/etcd", "/instances"] {
        let response = fetch(&browser, path, &[own()]).await;
        assert_eq!(
            (text(&response, header::CACHE_CONTROL), text(&response, header::ETAG)),
            ("no-store", ""),
            "{path}"
        );
    }
    // and icons have one
    let page = browser.json("/catalog").await;
    let icon = format!("/icons/{}", page["packages"][0]["icon"].as_str().unwrap());
    assert!(text(&fetch(&browser, &icon, &[own()]).await, header::ETAG).len() > 2);
}

#[tokio::test]
async fn a_response_to_head_has_the_headers_of_the_page_and_no_body() {
    let (browser, _) = Browser::etcd().await;
    let page = fetch(&browser, "/catalog", &[own()]).await;
    let head = |tag: &str| {
        let mut request = get("/catalog")
            .method(Method::HEAD)
            .header(header::COOKIE, &browser.cookie)
            .header(header::ACCEPT_ENCODING, "gzip, br")
            .header("sec-fetch-site", "same-origin");
        if !tag.is_empty() {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        browser.router.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    let answer = head("").await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    for name in [header::ETAG, header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::VARY] {
        assert!(!text(&page, name.clone()).is_empty(), "{name}");
        assert_eq!(text(&answer, name.clone()), text(&page, name.clone()), "{name}");
    }
    assert!(body(answer).await.is_empty());
    assert_eq!(head(text(&page, header::ETAG)).await.unwrap().status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn after_signing_out_a_tag_does_not_confirm_a_stored_page() {
    let (browser, _) = Browser::etcd().await;
    let page = fetch(&browser, "/catalog", &[own()]).await;
    let tag = text(&page, header::ETAG).to_owned();
    let answer = browser.post("/logout", &[]).await;
    assert_eq!(answer.headers["clear-site-data"], "\"cache\"");
    assert!(cookies(&answer)[0].ends_with('='));
    let known = (header::IF_NONE_MATCH, tag.as_str());
    let response = fetch(&browser, "/catalog", &[own(), known]).await;
    assert_ne!(response.status(), StatusCode::NOT_MODIFIED);
    assert_ne!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn event_streams_are_sent_as_they_are() {
    let (browser, _) = Browser::etcd().await;
    let response = fetch(&browser, "/api/v1/events?installed", &[own()]).await;
    assert_eq!(text(&response, header::CONTENT_TYPE), "text/event-stream");
    assert_eq!((text(&response, header::CONTENT_ENCODING), text(&response, header::ETAG)), ("", ""));
    // the first event arrives while the stream is open
    let mut body = response.into_body();
    let first = tokio::time::timeout(std::time::Duration::from_secs(5), body.frame()).await.unwrap();
    assert!(first.unwrap().unwrap().into_data().unwrap().starts_with(b"retry:"));
}

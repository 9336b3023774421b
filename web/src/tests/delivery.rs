//! Compression, entity tags and conditional requests.

use std::{collections::HashMap, io::Read as _};

use axum::body::Body;
use flate2::read::GzDecoder;
use http::{HeaderName, Method, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
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

/// The tag of a page is that of its inputs, so a page that shows something that is not among them would be confirmed
/// after it changed.
#[tokio::test]
async fn pages_with_equal_tags_are_equal_whatever_changes() {
    const BASE: &str = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd";
    let (browser, fake) = Browser::etcd().await;
    let paths = [
        "/catalog",
        "/catalog?q=etcd",
        "/catalog?state=installed",
        "/catalog/community/etcd",
        "/catalog/community/etcd?version=0.10.1",
        "/catalog/community/etcd/versions",
    ];
    let plan = format!("{BASE}/installplans/install-abc");
    let subscription = format!("{BASE}/subscriptions/etcd");
    let csv = format!("{BASE}/clusterserviceversions/etcdoperator.v0.10.1");
    let changes: [&dyn Fn(); 8] = [
        &|| {},
        // a step that changes nothing
        &|| {},
        &|| fake.change(&plan, |plan| plan["metadata"]["annotations"]["olm.planReview"] = "HIGH".into()),
        &|| fake.change(&subscription, |one| one["spec"]["skipVersions"] = serde_json::json!(["0.11.0"])),
        &|| fake.change(&csv, |csv| csv["spec"]["version"] = "0.10.2".into()),
        &|| fake.change(&csv, |csv| csv["status"]["phase"] = "Failed".into()),
        &|| drop(fake.remove(&plan)),
        &|| drop(fake.remove(&subscription)),
    ];
    let mut known: HashMap<String, Vec<(String, Vec<u8>)>> = HashMap::new();
    let mut pages = 0;
    let mut confirmed = 0;
    for change in changes {
        change();
        for theme in ["light", "dark"] {
            for accept in ["text/html", "application/json"] {
                for path in paths {
                    let cookies = format!("{}; olm_theme={theme}", browser.cookie);
                    let ask = async |tag: Option<&str>| {
                        let mut request =
                            get(path).header(header::COOKIE, &cookies).header(header::ACCEPT, accept);
                        if let Some(tag) = tag {
                            request = request.header(header::IF_NONE_MATCH, tag);
                        }
                        browser.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
                    };
                    // the first request of a page updates the numbers of the navigation
                    drop(ask(None).await);
                    let response = ask(None).await;
                    assert_eq!(response.status(), StatusCode::OK, "{path}");
                    let tag = text(&response, header::ETAG).to_owned();
                    let content = body(response).await;
                    let again = ask(Some(&tag)).await;
                    assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path}");
                    assert!(body(again).await.is_empty());
                    // tags of the same page at earlier steps, and of the others at this one
                    for (other, page) in known.get(path).into_iter().flatten() {
                        let is_confirmed = ask(Some(other)).await.status() == StatusCode::NOT_MODIFIED;
                        assert!(!is_confirmed || *page == content, "{path}: {other}");
                        confirmed += usize::from(is_confirmed);
                    }
                    for (other, _) in
                        known.values().filter_map(|all| all.last()).filter(|(other, _)| *other != tag)
                    {
                        assert_eq!(ask(Some(other)).await.status(), StatusCode::OK, "{path}");
                    }
                    let all = known.entry(path.to_owned()).or_default();
                    if all.iter().all(|(other, _)| *other != tag) {
                        all.push((tag, content));
                        pages += 1;
                    }
                }
            }
        }
    }
    assert_eq!((confirmed, pages), (24, 7 * 24));
}

#[tokio::test]
async fn a_page_of_the_catalog_is_confirmed_by_what_it_is_made_of() {
    let (browser, _) = Browser::etcd().await;
    for path in ["/catalog", "/catalog/community/etcd", "/catalog/community/etcd/versions"] {
        let page = fetch(&browser, path, &[]).await;
        let tag = text(&page, header::ETAG).to_owned();
        let content = body(page).await;
        let digest = crate::session::hex(&Sha256::digest(&content)[..16]);
        assert_ne!(tag.trim_matches('"'), digest, "{path}: the page was rendered for its tag");
    }
    // a page that does not exist is not confirmed
    let any = (header::IF_NONE_MATCH, "*");
    let response = fetch(&browser, "/catalog/community/nothing", &[any]).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_static_file_is_confirmed_and_compressed_once() {
    let (browser, _) = Browser::etcd().await;
    for asset in [&*crate::assets::CSS, &*crate::assets::SCRIPT, &*crate::assets::LOGO, &*crate::assets::FONT]
    {
        let first = fetch(&browser, &asset.url, &[]).await;
        let tag = text(&first, header::ETAG).to_owned();
        let known = (header::IF_NONE_MATCH, tag.as_str());
        let again = fetch(&browser, &asset.url, &[known]).await;
        assert_eq!((again.status(), text(&again, header::ETAG)), (StatusCode::NOT_MODIFIED, &*tag));
        for name in [header::CACHE_CONTROL, header::VARY] {
            assert_eq!(text(&again, name.clone()), text(&first, name.clone()), "{}: {name}", asset.url);
        }
        let first = body(first).await;
        assert_eq!(first, body(fetch(&browser, &asset.url, &[]).await).await);
        assert_eq!(asset.is_packed(), tag.ends_with("-gzip\""), "{}", asset.url);
    }
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

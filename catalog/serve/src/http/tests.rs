//! The HTTP API, request by request.

use std::io::Read;
use std::path::Path;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use olm_catalog::Store;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::fixture;

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Schema and name of each line.
    fn names(&self) -> Vec<String> {
        let line = |line: &str| {
            let document: Value = serde_json::from_str(line).unwrap();
            format!("{} {}", document["schema"].as_str().unwrap(), document["name"].as_str().unwrap_or("-"))
        };
        self.text().lines().map(line).collect()
    }
}

fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

async fn send(router: &Router, method: &str, uri: &str, headers: &[(&str, &str)]) -> Answer {
    let response = router.clone().oneshot(request(method, uri, headers)).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// The fixture as `one` of the cluster and as `one` of the namespace `olm`.
fn fixture_router() -> Router {
    let catalog = fixture::catalog();
    router(move |namespace, name| {
        let known = matches!(namespace, None | Some("olm" | "api")) && matches!(name, "one" | "api");
        known.then(|| Arc::clone(&catalog))
    })
}

async fn get(uri: &str, headers: &[(&str, &str)]) -> Answer {
    send(&fixture_router(), "GET", uri, headers).await
}

fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

const ALL: &str = "/catalogs/one/api/v1/all";

#[tokio::test]
async fn all_documents_are_sent_for_catalogs_of_the_cluster_and_of_a_namespace() {
    let cluster = get(ALL, &[]).await;
    assert_eq!((cluster.status, cluster.header("content-type")), (StatusCode::OK, "application/jsonl"));
    assert_eq!(cluster.header("x-content-type-options"), "nosniff");
    assert!(cluster.text().ends_with("}\n"), "the last line ends, too");
    assert_eq!(cluster.names().len(), fixture::documents().len());
    for other in
        ["/catalogs/olm/one/api/v1/all", "/catalogs/one/api/v1/all?schema=x&y", "/catalogs/one/api/v1/metas"]
    {
        assert_eq!(get(other, &[]).await.body, cluster.body, "{other}");
    }
    // Path segments of the API are valid names, too.
    for odd in ["/catalogs/api/api/v1/all", "/catalogs/api/api/api/v1/all", "/catalogs/api/one/api/v1/metas"]
    {
        assert_eq!(get(odd, &[]).await.body, cluster.body, "{odd}");
    }
}

#[tokio::test]
async fn documents_are_filtered_as_catalogd_does() {
    let found = async |query: &str| get(&format!("/catalogs/one/api/v1/metas?{query}"), &[]).await.names();
    assert_eq!(found("schema=olm.package").await, ["olm.package p", "olm.package q"]);
    assert_eq!(found("schema=olm.package&name=p").await, ["olm.package p"]);
    assert_eq!(found("schema=olm.channel&package=p").await, ["olm.channel s", "olm.channel t"]);
    assert_eq!(found("schema=olm.bundle&package=p&name=p.v2").await, ["olm.bundle p.v2"]);
    assert_eq!(found("name=p.v2").await, ["olm.bundle p.v2"]);
    assert_eq!(
        found("package=q").await,
        ["olm.channel a", "olm.channel b", "olm.bundle q.v1", "olm.bundle q.v2"]
    );
    assert_eq!(found("schema=custom.a").await.len(), 3);
    assert_eq!(found("schema=custom.a&package=p").await, ["custom.a x", "custom.a y"]);
    assert_eq!(found("schema=&package=&name=g").await, ["custom.a g"]);
    // A package is found by its name: it has no key `package`.
    assert_eq!(found("schema=olm.package&package=p").await, [""; 0]);
    // The first of several values counts; an empty result is not an error.
    assert_eq!(found("schema=olm.package&&schema=olm.bundle&name=q").await, ["olm.package q"]);
    assert_eq!(found("schema=none").await, [""; 0]);
    assert_eq!(found("name=%00%ff..%2f").await, [""; 0]);
}

#[tokio::test]
async fn missing_objects_are_reported() {
    for (uri, status, part) in [
        ("/catalogs/other/api/v1/all", StatusCode::NOT_FOUND, "catalog other not found"),
        ("/catalogs/default/one/api/v1/all", StatusCode::NOT_FOUND, "catalog default/one not found"),
        ("/catalogs/other/api/v1/metas", StatusCode::NOT_FOUND, ""),
        (
            "/catalogs/one/api/v1/metas?colour=red",
            StatusCode::BAD_REQUEST,
            "unknown parameter \"colour\", expected one of: ",
        ),
        ("/catalogs/one/api/v1/search?q=a&r=b", StatusCode::BAD_REQUEST, "unknown parameter \"r\""),
        ("/catalogs/one/api/v1/icons/other", StatusCode::NOT_FOUND, "package \"other\" not found"),
        ("/catalogs/one/api/v1/icons/q", StatusCode::NOT_FOUND, "package q has no icon"),
        ("/", StatusCode::NOT_FOUND, ""),
        ("/catalogs/one/api/v1", StatusCode::NOT_FOUND, ""),
        ("/catalogs/one/api/v1/all/", StatusCode::NOT_FOUND, ""),
        ("/catalogs/one/api/v1/icons/", StatusCode::NOT_FOUND, ""),
    ] {
        let answer = get(uri, &[]).await;
        assert_eq!(answer.status, status, "{uri}");
        assert!(answer.text().contains(part), "{uri}: {}", answer.text());
    }
}

#[tokio::test]
async fn hostile_names_are_refused() {
    let long = format!("/catalogs/{}/api/v1/all", "a".repeat(10_000));
    for uri in [
        "/catalogs/ONE/api/v1/all",
        "/catalogs/../api/v1/all",
        "/catalogs/%2e%2e%2fone/api/v1/all",
        "/catalogs/olm/%2e%2e/api/v1/all",
        "/catalogs/o%00/one/api/v1/packages",
        "/catalogs/a%2Fb/api/v1/search?q=x",
        "/catalogs/%ff/api/v1/all",
        "/catalogs/one%0a/api/v1/metas",
        "/catalogs/-/api/v1/icons/p",
        long.as_str(),
    ] {
        let answer = get(uri, &[]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{uri}");
        assert!(answer.body.len() < 1_000, "{uri}: the answer repeats too much");
    }
    let icon = get("/catalogs/one/api/v1/icons/%2e%2e%2f%2e%2e%2fetc%2fpasswd", &[]).await;
    assert_eq!(icon.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn other_methods_are_refused() {
    let router = fixture_router();
    for uri in [ALL, "/catalogs/one/api/v1/metas", "/catalogs/one/api/v1/packages"] {
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let answer = send(&router, method, uri, &[]).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {uri}");
        }
        let (head, get) = (send(&router, "HEAD", uri, &[]).await, send(&router, "GET", uri, &[]).await);
        assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0), "{uri}");
        for name in ["content-type", "etag", "last-modified"] {
            assert_eq!(head.header(name), get.header(name), "{uri}");
            assert_ne!(head.header(name), "", "{uri}");
        }
    }
}

#[tokio::test]
async fn an_unchanged_catalog_is_not_sent_again() {
    for uri in [ALL, "/catalogs/one/api/v1/metas?schema=olm.package", "/catalogs/one/api/v1/packages"] {
        // given an answer with its validators
        let router = fixture_router();
        let first = send(&router, "GET", uri, &[]).await;
        let (etag, date) = (first.header("etag"), first.header("last-modified"));
        assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");

        // when it is requested again by tag or by date
        for condition in
            [("if-none-match", format!("\"other\", {etag}")), ("if-modified-since", date.to_owned())]
        {
            let again = send(&router, "GET", uri, &[(condition.0, &condition.1)]).await;

            // then only the validators are sent
            assert_eq!(
                (again.status, again.body.len()),
                (StatusCode::NOT_MODIFIED, 0),
                "{uri} {condition:?}"
            );
            assert_eq!((again.header("etag"), again.header("content-type")), (etag, ""));
        }
        let other = send(&router, "GET", uri, &[("if-none-match", "\"other\"")]).await;
        assert_eq!((other.status, &other.body), (StatusCode::OK, &first.body));
        let unmet = send(&router, "GET", uri, &[("if-match", "\"other\"")]).await;
        assert_eq!(unmet.status, StatusCode::PRECONDITION_FAILED);
    }
}

#[tokio::test]
async fn another_content_has_another_tag_and_date() {
    // given a catalog read by a client
    let catalogs = Arc::new(Mutex::new(fixture::catalog()));
    let served = Arc::clone(&catalogs);
    let router = router(move |_, _| Some(Arc::clone(&*served.lock().unwrap())));
    let before = send(&router, "GET", ALL, &[]).await;

    // when its content changes, within the same second
    *catalogs.lock().unwrap() =
        Arc::new(Catalog::from_bytes("", fixture::text(&fixture::large(2, 10)).as_bytes()));

    // then neither tag nor date match the old content
    let conditions =
        [("if-none-match", before.header("etag")), ("if-modified-since", before.header("last-modified"))];
    for condition in conditions {
        let after = send(&router, "GET", ALL, &[condition]).await;
        assert_eq!(after.status, StatusCode::OK, "{condition:?}");
        assert_eq!(after.names().len(), 4);
    }
    assert_eq!(send(&router, "GET", "/catalogs/one/api/v1/packages", &[]).await.json()[0]["name"], "l");
}

#[tokio::test]
async fn clients_that_accept_gzip_get_it_with_a_separate_etag() {
    for uri in [ALL, "/catalogs/one/api/v1/metas?package=p", "/catalogs/one/api/v1/packages"] {
        let (plain, zipped) = (get(uri, &[]).await, get(uri, &[("accept-encoding", "br, gzip")]).await);
        assert_eq!((plain.header("content-encoding"), zipped.header("content-encoding")), ("", "gzip"));
        assert_eq!((plain.header("vary"), zipped.header("vary")), ("Accept-Encoding", "Accept-Encoding"));
        assert_eq!(unzip(&zipped.body), plain.body, "{uri}");
        assert_ne!(plain.header("etag"), zipped.header("etag"));
        assert_eq!(plain.header("content-type"), zipped.header("content-type"));
        let again = get(uri, &[("accept-encoding", "gzip"), ("if-none-match", zipped.header("etag"))]).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED);
        assert_eq!(again.header("content-encoding"), "");
    }
}

#[tokio::test]
async fn a_large_catalog_comes_in_parts_and_whole() {
    let text = fixture::text(&fixture::large(60, 20_000));
    let catalog = Arc::new(Catalog::from_bytes("large", text.as_bytes()));
    let router = router(move |_, _| Some(Arc::clone(&catalog)));
    let plain = send(&router, "GET", ALL, &[]).await;
    assert_eq!(plain.names().len(), 62);
    assert!(plain.body.len() > 1_000_000);
    let zipped = send(&router, "GET", ALL, &[("accept-encoding", "gzip")]).await;
    assert!(zipped.body.len() > 5 * 64 * 1024, "more parts than are made ahead");
    assert_eq!(unzip(&zipped.body), plain.body);

    // Disconnected clients free their slots.
    for _ in 0..=2 * STREAMS {
        let response = router.clone().oneshot(request("GET", ALL, &[])).await.unwrap();
        let mut body = response.into_body();
        assert!(body.frame().await.unwrap().is_ok());
    }
    assert_eq!(send(&router, "GET", ALL, &[]).await.body.len(), plain.body.len());
}

/// Every file below a directory.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn content_that_is_lost_is_an_error_and_never_a_short_answer() {
    // given a catalog in a store with two packages, the second of which is lost
    let (source, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut documents = fixture::documents();
    documents.extend(fixture::large(10, 20_000));
    std::fs::write(source.path().join("catalog.json"), fixture::text(&documents)).unwrap();
    let store = Store::open(root.path()).unwrap();
    let catalog = store.refresh_dir("c", "test", source.path()).unwrap().catalog;
    let of_q = |path: &Path| {
        std::fs::read_to_string(path)
            .is_ok_and(|text| text.contains("q.v1") && !text.starts_with("{\"version"))
    };
    let lost: Vec<_> = files(&root.path().join("packages")).into_iter().filter(|path| of_q(path)).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    std::fs::write(&lost[0], "damaged").unwrap();
    let router = router(move |_, _| Some(Arc::clone(&catalog)));

    // when it is requested
    let response = router.clone().oneshot(request("GET", ALL, &[])).await.unwrap();

    // then the answer breaks off after the sent part
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let mut end = None;
    while let Some(frame) = body.frame().await {
        end = Some(frame);
    }
    assert!(end.is_some_and(|frame| frame.is_err()));
    // and nothing is sent where nothing was read
    let nothing = send(&router, "GET", "/catalogs/one/api/v1/metas?package=q", &[]).await;
    assert_eq!(nothing.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(nothing.text().contains("package q"), "{}", nothing.text());
    // while the others are served, and the index as well
    assert_eq!(
        send(&router, "GET", "/catalogs/one/api/v1/metas?package=p&schema=olm.channel", &[])
            .await
            .names()
            .len(),
        2
    );
    assert_eq!(
        send(&router, "GET", "/catalogs/one/api/v1/packages", &[]).await.json().as_array().unwrap().len(),
        3
    );
}

#[tokio::test]
async fn the_index_has_the_packages_in_short() {
    let answer = get("/catalogs/one/api/v1/packages", &[]).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    let index = answer.json();
    assert_eq!((&index[0]["name"], &index[1]["name"]), (&json!("p"), &json!("q")));
    assert_eq!(index[0]["channels"], json!(["s", "t"]));
    assert_eq!(index[0]["head"]["version"], "2.0.0-rc.1+b");
    assert_eq!(index[0]["head"]["kinds"], json!(["K"]));
    assert_eq!(index[0].get("provides"), None, "it is left to search");
    assert_eq!((&index[0]["deprecated"], &index[0]["versions"]), (&json!("P old"), &json!(4)));
}

#[tokio::test]
async fn packages_are_found() {
    let found = async |query: &str| get(&format!("/catalogs/one/api/v1/search{query}"), &[]).await;
    let hits = found("?q=k").await;
    assert_eq!((hits.status, hits.header("content-type")), (StatusCode::OK, "application/json"));
    let of_q = hits.json().as_array().unwrap().iter().find(|hit| hit["package"] == "q").cloned();
    assert_eq!(of_q.unwrap()["why"], "provides K");
    assert_eq!(found("?q=nothing-like-it").await.json(), json!([]));
    for all in ["", "?q=", "?q=%20"] {
        assert_eq!(found(all).await.json().as_array().unwrap().len(), 2, "{all}");
    }
    assert_eq!(found(&format!("?q={}", "a".repeat(201))).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn icons_cannot_do_anything() {
    let icon = get("/catalogs/olm/one/api/v1/icons/p", &[]).await;
    assert_eq!((icon.status, icon.body.as_slice()), (StatusCode::OK, fixture::PNG));
    assert_eq!(
        (icon.header("content-type"), icon.header("x-content-type-options")),
        ("image/png", "nosniff")
    );
    assert!(icon.header("content-security-policy").contains("default-src 'none'"));
    assert!(icon.header("content-security-policy").ends_with("sandbox"));
    let again = get("/catalogs/olm/one/api/v1/icons/p", &[("if-none-match", icon.header("etag"))]).await;
    assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0));
}

/// Pictures are sent under the type of their bytes.
#[tokio::test]
async fn icons_of_every_type_are_sent() {
    const ICO: &[u8] = b"\0\0\x01\0\x01\0\x10\x10\0\0\x01\0\x20\0\x04\0\0\0\x16\0\0\0rest";
    let icons: [(&str, &[u8]); 5] = [
        ("image/png", fixture::PNG),
        ("image/jpeg", b"\xff\xd8\xff\xe0rest"),
        ("image/gif", b"GIF89arest"),
        ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("image/vnd.microsoft.icon", ICO),
    ];
    for (kind, data) in icons {
        let mut documents = fixture::documents();
        let package = documents.iter_mut().find(|document| document["schema"] == "olm.package").unwrap();
        package["icon"] = json!({"base64data": STANDARD.encode(data), "mediatype": kind});
        let catalog = Arc::new(Catalog::from_bytes("icons", fixture::text(&documents).as_bytes()));
        let router = router(move |_, _| Some(Arc::clone(&catalog)));
        let icon = send(&router, "GET", "/catalogs/one/api/v1/icons/p", &[]).await;
        assert_eq!((icon.status, icon.header("content-type")), (StatusCode::OK, kind), "{}", icon.text());
        assert_eq!(icon.body, data, "{kind}");
    }
}

use std::io::Read;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use tower::ServiceExt;

use super::*;

fn served() -> (Router, Arc<Catalog>) {
    let catalog = Arc::new(crate::shipped());
    let found = Arc::clone(&catalog);
    let find = move |namespace: &str, name: &str| {
        ((namespace, name) == ("olm", "shipped")).then(|| Arc::clone(&found))
    };
    (router(find), catalog)
}

async fn get(path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = served().0.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap().to_vec())
}

const ALL: &str = "/catalogs/olm/shipped/api/v1/all";

#[tokio::test]
async fn the_whole_catalog_plain_and_compressed() {
    let (status, headers, plain) = get(ALL, &[]).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::OK, "application/jsonl"));
    assert_eq!(plain, served().1.to_json_lines());
    assert_eq!(Catalog::from_bytes("x", &plain).digest, served().1.digest);

    let (_, zipped_headers, zipped) = get(ALL, &[("accept-encoding", "br, gzip;q=0.5")]).await;
    assert_eq!(zipped_headers["content-encoding"], "gzip");
    let mut unzipped = Vec::new();
    flate2::read::GzDecoder::new(zipped.as_slice()).read_to_end(&mut unzipped).unwrap();
    assert_eq!(unzipped, plain);
    assert_ne!(headers["etag"], zipped_headers["etag"]);
    assert!(!get(ALL, &[("accept-encoding", "gzip;q=0")]).await.1.contains_key("content-encoding"));
}

#[tokio::test]
async fn an_unchanged_catalog_is_not_sent_again() {
    let etag = get(ALL, &[]).await.1["etag"].to_str().unwrap().to_owned();
    let (status, _, body) = get(ALL, &[("if-none-match", &format!("\"other\", {etag}"))]).await;
    assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(get(ALL, &[("if-none-match", "\"other\"")]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn metas_are_filtered_and_unknown_things_refused() {
    let metas = "/catalogs/olm/shipped/api/v1/metas";
    let (_, _, body) = get(&format!("{metas}?schema=olm.package&package=etcd"), &[]).await;
    let text = String::from_utf8(body).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(text.contains("\"name\":\"etcd\""), "{text}");
    assert_eq!(get(&format!("{metas}?name=nothing"), &[]).await.2, b"");
    assert_eq!(get(&format!("{metas}?colour=red"), &[]).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(get("/catalogs/olm/other/api/v1/all", &[]).await.0, StatusCode::NOT_FOUND);
}

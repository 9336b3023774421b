//! Catalogs over HTTP, as catalogd serves them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::model::Catalog;

type Find = Arc<dyn Fn(&str, &str) -> Option<Arc<Catalog>> + Send + Sync>;

/// Routes `/catalogs/{ns}/{name}/api/v1/all` and `/catalogs/{ns}/{name}/api/v1/metas`.
///
/// `find` is asked for the catalog of a namespace and name on every request.
pub fn router<F>(find: F) -> Router
where
    F: Fn(&str, &str) -> Option<Arc<Catalog>> + Send + Sync + 'static,
{
    let find: Find = Arc::new(find);
    Router::new()
        .route("/catalogs/{namespace}/{name}/api/v1/all", get(all))
        .route("/catalogs/{namespace}/{name}/api/v1/metas", get(metas))
        .with_state(find)
}

/// The whole catalog as JSON lines.
async fn all(
    State(find): State<Find>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let Some(catalog) = find(&namespace, &name) else { return not_found(&namespace, &name) };
    let gzip = accepts_gzip(&headers);
    let etag = etag(&catalog, if gzip { "-gzip" } else { "" });
    if matches(&headers, &etag) {
        return not_modified(&etag);
    }
    // A large catalog takes a moment; other requests must not wait for it.
    let body =
        tokio::task::spawn_blocking(
            move || if gzip { compressed(&catalog) } else { catalog.to_json_lines().into() },
        );
    match body.await {
        Ok(body) => json_lines(body, &etag, gzip),
        Err(error) => {
            tracing::error!(%error, "failed to prepare a catalog");
            (StatusCode::INTERNAL_SERVER_ERROR, "failed to prepare the catalog\n").into_response()
        }
    }
}

/// The documents with a schema, package or name.
async fn metas(
    State(find): State<Find>,
    Path((namespace, name)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    const KNOWN: [&str; 3] = ["schema", "package", "name"];
    if let Some(unknown) = query.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        let text = format!("unknown parameter {unknown:?}; there are schema, package and name\n");
        return (StatusCode::BAD_REQUEST, text).into_response();
    }
    let Some(catalog) = find(&namespace, &name) else { return not_found(&namespace, &name) };
    // Another query is another resource, so that the catalog's digest is enough here, too.
    let etag = etag(&catalog, "");
    if matches(&headers, &etag) {
        return not_modified(&etag);
    }
    let wanted =
        |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted.is_empty() || wanted == value);
    let mut body = Vec::new();
    for document in &catalog.documents {
        if wanted("schema", &document.schema)
            && wanted("package", &document.package)
            && wanted("name", &document.name)
        {
            body.extend_from_slice(document.json.as_bytes());
            body.push(b'\n');
        }
    }
    json_lines(body.into(), &etag, false)
}

fn json_lines(body: Bytes, etag: &str, gzip: bool) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::ETAG, etag),
        (header::VARY, "Accept-Encoding"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let mut response = (headers, body).into_response();
    if gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
    }
    response
}

fn not_modified(etag: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, etag), (header::VARY, "Accept-Encoding")]).into_response()
}

fn not_found(namespace: &str, name: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("catalog {namespace}/{name} is not served here\n")).into_response()
}

/// Strong: each encoding has its own.
fn etag(catalog: &Catalog, suffix: &str) -> String {
    format!("\"{}{suffix}\"", catalog.digest)
}

fn matches(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| {
        let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
        let refused =
            weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0);
        matches!(coding.trim(), "gzip" | "x-gzip" | "*") && !refused
    })
}

/// Compressed once and kept: catalogs are read again and again.
fn compressed(catalog: &Catalog) -> Bytes {
    let compress = || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        for document in &catalog.documents {
            encoder
                .write_all(document.json.as_bytes())
                .and_then(|()| encoder.write_all(b"\n"))
                .expect("a Vec takes every byte");
        }
        Bytes::from(encoder.finish().expect("a Vec takes every byte"))
    };
    catalog.gzip.get_or_init(compress).clone()
}

#[cfg(test)]
mod tests;

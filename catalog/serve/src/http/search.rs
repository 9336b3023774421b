//! Search.

use axum::Json;
use axum::extract::RawQuery;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::target::Target;
use super::{parameters, text};

/// Users do not type more, and every word costs time.
const LONGEST: usize = 200;

/// The packages that match a text, best first; all of them by name for an empty one.
pub(super) async fn search(target: Target, RawQuery(query): RawQuery) -> Response {
    let [words] = match parameters::read(query.as_deref(), ["q"]) {
        Ok(values) => values,
        Err(message) => return text(StatusCode::BAD_REQUEST, &message),
    };
    let words = words.unwrap_or_default();
    if words.len() > LONGEST {
        let message = format!("400 Bad Request: q has {} bytes, more than {LONGEST}", words.len());
        return text(StatusCode::BAD_REQUEST, &message);
    }
    // The first search of a catalog builds an index, which takes a moment.
    let hits = tokio::task::spawn_blocking(move || target.catalog.search(&words));
    match hits.await {
        Ok(hits) => {
            let mut response = Json(hits).into_response();
            let headers = response.headers_mut();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response
        }
        Err(error) => {
            tracing::error!(%error, "failed to search a catalog");
            text(StatusCode::INTERNAL_SERVER_ERROR, "failed to search the catalog")
        }
    }
}

//! Icons of packages: untrusted images, served so that they cannot run scripts.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::conditional::{Encoding, Validators};
use super::target::Target;
use super::text;
use crate::names::quoted;

/// The types that the loader detects by their bytes; nothing else is sent as an image.
const PICTURES: [&str; 5] =
    ["image/png", "image/jpeg", "image/gif", "image/svg+xml", "image/vnd.microsoft.icon"];

/// An SVG runs no script inside `<img>`; this covers direct navigation to the URL.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox");

pub(super) async fn icon(target: Target, headers: HeaderMap) -> Response {
    let name = target.package.unwrap_or_default();
    let not_found = |message: String| text(StatusCode::NOT_FOUND, &format!("404 Not Found: {message}"));
    let Some(summary) = target.catalog.summary(&name) else {
        return not_found(format!("package {} not found", quoted(&name)));
    };
    let Some(digest) = &summary.icon else { return not_found(format!("package {name} has no icon")) };
    // The digest is in the index: a cached icon is validated without reading a package.
    let validators = Validators::new(digest, Encoding::Identity, None);
    if let Some(response) = validators.unmet(&headers) {
        return response;
    }
    let catalog = std::sync::Arc::clone(&target.catalog);
    let (origin, package) = (catalog.origin.clone(), name.clone());
    let read = tokio::task::spawn_blocking(move || catalog.package(&package)).await;
    let package = match read {
        Ok(Ok(package)) => package,
        Ok(Err(error)) => {
            tracing::error!(catalog = origin, %error, "failed to serve an icon");
            return text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string());
        }
        Err(error) => {
            tracing::error!(catalog = origin, package = name, %error, "failed to serve an icon");
            return text(StatusCode::INTERNAL_SERVER_ERROR, "failed to read the package");
        }
    };
    let icon = package.as_ref().and_then(|package| package.icon.as_ref());
    let Some((icon, kind)) =
        icon.and_then(|icon| Some((icon, PICTURES.into_iter().find(|k| *k == icon.mediatype)?)))
    else {
        return not_found(format!("package {name} has no displayable icon"));
    };
    let mut response = Response::new(Body::from(icon.data.clone()));
    let headers = response.headers_mut();
    validators.add_to(headers);
    headers.remove(header::VARY);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("inline; filename=\"icon\""));
    response
}

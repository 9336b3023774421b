//! Icons of packages: untrusted images, served such that their content cannot run.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::header;

use crate::{app::App, caller::Caller, error::WebError};

/// SVG runs no script inside `<img>`; the policy covers a direct request of the URL.
pub(crate) const IMAGE_CSP: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";

/// `GET /icons/{sha256}`
pub(crate) async fn icon(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(hash): Path<String>,
) -> Result<Response, WebError> {
    let snapshot = app.catalogs.read(&caller.identity).await;
    let icon = snapshot.icon(&hash).await?.ok_or_else(|| WebError::not_found("icon not found"))?;
    let headers = [
        (header::CONTENT_TYPE, icon.mediatype.clone()),
        (header::CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
        (header::CONTENT_SECURITY_POLICY, IMAGE_CSP.to_owned()),
        (header::CONTENT_DISPOSITION, "inline; filename=\"icon\"".to_owned()),
    ];
    Ok((headers, icon.data).into_response())
}

//! Icons of packages: pictures from strangers, served so that nothing in them can run.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::header;
use olm_catalog::Icon;

use crate::{app::App, caller::Caller, error::WebError, session};

/// Larger ones are not shown.
const MAX: usize = 512 * 1024;

/// SVG runs no script inside `<img>`; this is for those who open the address itself.
const ICON_CSP: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";

/// The name under which an icon is served, if it is one that we show.
pub(crate) fn name(icon: &Icon) -> Option<String> {
    let known = matches!(icon.mediatype.as_str(), "image/png" | "image/jpeg" | "image/svg+xml");
    (known && !icon.data.is_empty() && icon.data.len() <= MAX).then(|| {
        use sha2::Digest as _;
        session::hex(&sha2::Sha256::digest(&icon.data))
    })
}

/// `GET /icons/{sha256}`
pub(crate) async fn icon(
    State(app): State<Arc<App>>,
    _caller: Caller,
    Path(hash): Path<String>,
) -> Result<Response, WebError> {
    let snapshot = app.catalogs.read().await;
    let icon = snapshot.icon(&hash).ok_or_else(|| WebError::not_found("no package has this icon"))?;
    let headers = [
        (header::CONTENT_TYPE, icon.mediatype.as_str()),
        (header::CACHE_CONTROL, "private, max-age=31536000, immutable"),
        (header::CONTENT_SECURITY_POLICY, ICON_CSP),
        (header::CONTENT_DISPOSITION, "inline; filename=\"icon\""),
    ];
    Ok((headers, icon.data.clone()).into_response())
}

//! Static files of the console, served under names that contain a hash of their content.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use http::header;

use crate::{error::WebError, session};

pub(crate) struct Asset {
    pub(crate) url: String,
    content: &'static str,
    mediatype: &'static str,
}

impl Asset {
    fn new(stem: &str, extension: &str, mediatype: &'static str, content: &'static str) -> Self {
        let hash = session::hex(&session::hash(content)[..6]);
        Self { url: format!("/static/{stem}-{hash}.{extension}"), content, mediatype }
    }
}

pub(crate) static CSS: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "css", "text/css; charset=utf-8", include_str!("../static/console.css"))
});
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "js", "text/javascript; charset=utf-8", include_str!("../static/console.js"))
});
pub(crate) static LOGO: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("favicon", "svg", "image/svg+xml", include_str!("../static/favicon.svg")));

/// `GET /static/{file}`
pub(crate) async fn file(Path(file): Path<String>) -> Result<Response, WebError> {
    let asset = [&*CSS, &*SCRIPT, &*LOGO]
        .into_iter()
        .find(|asset| asset.url.strip_prefix("/static/") == Some(file.as_str()))
        .ok_or_else(|| WebError::not_found("file not found; reload the page to get its current name"))?;
    let headers = [
        (header::CONTENT_TYPE, asset.mediatype),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, asset.content).into_response())
}

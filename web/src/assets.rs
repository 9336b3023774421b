//! Static files of the console, served under names that contain a hash of their content.

use std::sync::{LazyLock, OnceLock};

use axum::{
    body::Bytes,
    extract::Path,
    response::{IntoResponse, Response},
};
use http::header;
use sha2::{Digest as _, Sha256};

use crate::{
    delivery::{Packed, Tag, is_compressible},
    error::WebError,
    session,
};

pub(crate) struct Asset {
    pub(crate) url: String,
    content: Bytes,
    /// Made at the first request.
    packed: OnceLock<Option<Packed>>,
    tag: Tag,
    mediatype: &'static str,
}

impl Asset {
    fn new(stem: &str, extension: &str, mediatype: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let hash = session::hex(&Sha256::digest(&content)[..6]);
        let (packed, tag) = (OnceLock::new(), Tag::of_content(&content));
        Self { url: format!("/static/{stem}-{hash}.{extension}"), content, packed, tag, mediatype }
    }

    fn packed(&self) -> Option<&Packed> {
        let pack = || is_compressible(self.mediatype).then(|| Packed::of(&self.content)).flatten();
        self.packed.get_or_init(pack).as_ref()
    }

    #[cfg(test)]
    pub(crate) fn is_packed(&self) -> bool {
        self.packed.get().is_some_and(Option::is_some)
    }
}

/// The variable font Inter, its Latin subset; the licence is `inter-LICENSE.txt`.
pub(crate) static FONT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("inter-latin", "woff2", "font/woff2", &include_bytes!("../static/inter-latin.woff2")[..])
});
/// The font's licence, which accompanies every copy of it.
pub(crate) static FONT_LICENSE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../static/inter-LICENSE.txt");
    Asset::new("inter-LICENSE", "txt", "text/plain; charset=utf-8", text)
});
/// One style sheet, which names the font and its licence by their hashes.
pub(crate) static CSS: LazyLock<Asset> = LazyLock::new(|| {
    let text = concat!(
        include_str!("../static/tokens.css"),
        include_str!("../static/frame.css"),
        include_str!("../static/components.css"),
        include_str!("../static/pages.css"),
    );
    let text = text.replace("inter-latin.woff2", &FONT.url).replace("inter-LICENSE.txt", &FONT_LICENSE.url);
    let text = text + olm_catalog::graph::STYLE;
    Asset::new("console", "css", "text/css; charset=utf-8", text)
});
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "js", "text/javascript; charset=utf-8", include_str!("../static/console.js"))
});
pub(crate) static LOGO: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("favicon", "svg", "image/svg+xml", include_str!("../static/favicon.svg")));

/// `GET /static/{file}`
pub(crate) async fn file(Path(file): Path<String>) -> Result<Response, WebError> {
    let asset = [&*CSS, &*SCRIPT, &*LOGO, &*FONT, &*FONT_LICENSE]
        .into_iter()
        .find(|asset| asset.url.strip_prefix("/static/") == Some(file.as_str()))
        .ok_or_else(|| WebError::not_found("file not found; reload the page to get its current name"))?;
    let headers = [
        (header::CONTENT_TYPE, asset.mediatype),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    let mut response = (headers, asset.content.clone()).into_response();
    response.extensions_mut().insert(asset.tag.clone());
    if let Some(packed) = asset.packed() {
        response.extensions_mut().insert(packed.clone());
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_names_the_font_by_its_hash_and_no_other_site() {
        let css = String::from_utf8(CSS.content.to_vec()).expect("text");
        assert!(css.contains(&format!("url(\"{}\")", FONT.url)) && !css.contains("//"), "{}", FONT.url);
        assert!(FONT.content.starts_with(b"wOF2"));
        assert!(FONT_LICENSE.content.starts_with(b"Copyright"));
    }
}

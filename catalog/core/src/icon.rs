//! Icons of packages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Maximum size of an icon in bytes. Real ones have a few kilobytes; pages load many of them.
const LARGEST: usize = 512 * 1024;

/// An image with a verified format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Icon {
    /// Detected from the bytes, not from the catalog: `image/png`, `image/jpeg`, `image/gif`, `image/svg+xml`
    /// or `image/vnd.microsoft.icon`.
    pub mediatype: String,
    pub data: Vec<u8>,
}

impl Icon {
    /// An image, if the bytes are one.
    #[must_use]
    pub fn of(data: Vec<u8>) -> Option<Self> {
        let kind = olm_bundle::sniff(&data)?;
        Some(Self { mediatype: kind.mediatype().to_owned(), data })
    }
}

/// Why an icon cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IconProblem {
    pub code: &'static str,
    pub text: String,
}

/// Decodes an icon of a package or ClusterServiceVersion (`base64data`, `mediatype`).
/// `Ok` with a warning is an icon that is usable although strict validators complain.
pub(crate) fn decode(icon: &Value) -> Result<(Icon, Option<IconProblem>), IconProblem> {
    let text = |key: &str| icon.get(key).and_then(Value::as_str).unwrap_or_default();
    let (encoded, claimed) = (text("base64data"), text("mediatype"));
    let problem = |code, text: String| IconProblem { code, text };
    if encoded.is_empty() {
        return Err(problem("icon-empty", "the icon has no data".into()));
    }
    if encoded.len() / 4 * 3 > LARGEST {
        let text = format!("the icon has {} bytes, more than {LARGEST}", encoded.len() / 4 * 3);
        return Err(problem("icon-large", text));
    }
    let compact: String = encoded.split_ascii_whitespace().collect();
    let data = STANDARD
        .decode(compact)
        .map_err(|error| problem("icon-not-base64", format!("the icon is not base64: {error}")))?;
    let Some(kind) = olm_bundle::sniff(&data) else {
        let text = "the icon is not a PNG, JPEG, GIF, SVG or ICO image".to_owned();
        return Err(problem("icon-not-image", text));
    };
    let mediatype = kind.mediatype();
    let warning = (!kind.is(claimed))
        .then(|| problem("icon-mediatype", format!("the icon declares {claimed:?}, but is {mediatype}")));
    Ok((Icon { mediatype: mediatype.to_owned(), data }, warning))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn icon(data: &[u8], mediatype: &str) -> Value {
        json!({"base64data": STANDARD.encode(data), "mediatype": mediatype})
    }

    #[test]
    fn the_bytes_decide() {
        let svg = b"<?xml version='1.0'?>\n<!-- x -->\n<svg xmlns='x'/>";
        let (decoded, warning) = decode(&icon(svg, "image/svg+xml")).unwrap();
        assert_eq!((decoded.mediatype.as_str(), warning), ("image/svg+xml", None));
        let ico = b"\0\0\x01\0\x01\0\x10\x10\0\0\x01\0\x20\0\x04\0\0\0\x16\0\0\0rest";
        for claimed in ["image/x-icon", "image/vnd.microsoft.icon"] {
            let (decoded, warning) = decode(&icon(ico, claimed)).unwrap();
            assert_eq!((decoded.mediatype.as_str(), warning), ("image/vnd.microsoft.icon", None));
        }
        let (decoded, warning) = decode(&icon(ico, "image/png")).unwrap();
        assert_eq!((decoded.data.as_slice(), warning.unwrap().code), (ico.as_slice(), "icon-mediatype"));
        let (decoded, warning) = decode(&icon(b"\x89PNG\r\n\x1a\nrest", "image/svg+xml")).unwrap();
        assert_eq!((decoded.mediatype.as_str(), warning.unwrap().code), ("image/png", "icon-mediatype"));
        for (value, code) in [
            (icon(b"<html><script>alert(1)</script></html>", "image/svg+xml"), "icon-not-image"),
            (icon(b"\0\0\x01\0\0\0", "image/x-icon"), "icon-not-image"),
            (icon(&ico[..25], "image/x-icon"), "icon-not-image"),
            (icon(&vec![0xff; LARGEST + 10], "image/jpeg"), "icon-large"),
            (json!({"base64data": "%%%", "mediatype": "image/png"}), "icon-not-base64"),
            (json!({}), "icon-empty"),
            (json!(3), "icon-empty"),
        ] {
            assert_eq!(decode(&value).unwrap_err().code, code);
        }
    }
}

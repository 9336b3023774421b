//! The icon.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Findings;
use super::finding::quote;
use crate::model::Bundle;
use crate::provenance::Origin;

/// The formats that browsers show and catalogs may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    Png,
    Jpeg,
    Gif,
    Svg,
    /// ICO, the format of favicons.
    Ico,
}

impl ImageKind {
    #[must_use]
    pub fn mediatype(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Svg => "image/svg+xml",
            Self::Ico => "image/vnd.microsoft.icon",
        }
    }

    /// Whether a media type is one of the format's: ICO has the registered one and an older one in wide use.
    #[must_use]
    pub fn is(self, mediatype: &str) -> bool {
        mediatype == self.mediatype() || (self == Self::Ico && mediatype == "image/x-icon")
    }
}

/// Detects the format of an image by its bytes.
#[must_use]
pub fn sniff(data: &[u8]) -> Option<ImageKind> {
    if data.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some(ImageKind::Png);
    }
    if data.starts_with(&[0xff, 0xd8, 0xff]) {
        return Some(ImageKind::Jpeg);
    }
    if data.starts_with(b"GIF87a") || data.starts_with(b"GIF89a") {
        return Some(ImageKind::Gif);
    }
    if is_ico(data) {
        return Some(ImageKind::Ico);
    }
    is_svg(data).then_some(ImageKind::Svg)
}

/// A directory of images: its count, and for each an entry of 16 bytes with its place in the file.
fn is_ico(data: &[u8]) -> bool {
    let Some(rest) = data.strip_prefix(&[0, 0, 1, 0]) else { return false };
    let Some((count, rest)) = rest.split_first_chunk() else { return false };
    let count = usize::from(u16::from_le_bytes(*count));
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (entries, []) = rest.get(..count * 16).unwrap_or_default().as_chunks::<16>() else { return false };
    let within = |entry: &[u8; 16]| number(&entry[8..12]) + number(&entry[12..]) <= data.len() as u64;
    entries.len() == count && count > 0 && entries.iter().all(within)
}

/// An SVG is text whose first element is `svg`, after declarations, comments and doctypes.
fn is_svg(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let end = match rest {
            _ if rest.starts_with("<!--") => "-->",
            _ if rest.starts_with("<?") => "?>",
            // A doctype may contain declarations in brackets.
            _ if rest.starts_with("<!") && rest.find('[') < rest.find('>') && rest.find('[').is_some() => {
                "]>"
            }
            _ if rest.starts_with("<!") => ">",
            _ => break,
        };
        match rest.find(end) {
            Some(position) => rest = rest[position + end.len()..].trim_start(),
            None => return false,
        }
    }
    let name = rest.strip_prefix('<').unwrap_or_default();
    let name = name.split(|c: char| c.is_whitespace() || c == '>' || c == '/').next().unwrap_or_default();
    name == "svg" || name.ends_with(":svg")
}

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut csv = findings.of(Origin::Csv);
    let Some(icon) = bundle.list("/spec/icon").first() else {
        return csv.warn("icon-missing", "spec.icon", "catalogs show a placeholder instead", "add one");
    };
    let text = |key: &str| icon.get(key).and_then(Value::as_str).unwrap_or_default();
    let encoded: String = text("base64data").split_whitespace().collect();
    let field = "spec.icon[0].base64data";
    if encoded.is_empty() {
        return csv.warn(
            "icon-missing",
            field,
            "it is empty; catalogs show a placeholder instead",
            "add one",
        );
    }
    let Ok(data) = STANDARD.decode(&encoded) else {
        let text = "it is not base64 and cannot be shown";
        return csv.warn("icon-not-base64", field, text, "write the output of `base64 ICON`");
    };
    let Some(kind) = sniff(&data) else {
        let text = "it is not a PNG, JPEG, GIF, SVG or ICO image and cannot be shown";
        return csv.warn("icon-not-image", field, text, "encode an image of one of these formats");
    };
    if !kind.is(text("mediatype")) {
        let text = format!("it is {}, but the image is {}", quote(text("mediatype")), kind.mediatype());
        csv.warn("icon-mediatype", "spec.icon[0].mediatype", text, format!("write {}", kind.mediatype()));
    }
}

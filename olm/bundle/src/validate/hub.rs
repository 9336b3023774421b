//! Rules of OperatorHub.io for a bundle (upstream's `operatorhubv2`).

use olm_version::Version;
use serde_json::Value;

use super::finding::{PartFindings, quote};
use super::{Findings, Options, removed_apis};
use crate::model::Bundle;
use crate::provenance::Origin;

const MEDIA_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];

pub(super) fn check(bundle: &Bundle, options: &Options, findings: &mut Findings) {
    let mut csv = findings.of(Origin::Csv);
    provider(bundle, &mut csv);
    pairs(bundle, "maintainers", ("name", "email"), "hub-maintainer", is_email, &mut csv);
    pairs(bundle, "links", ("name", "url"), "hub-link", is_url, &mut csv);
    if bundle.version() == Some(Version::new(0, 0, 0)) {
        csv.error(
            "hub-version",
            "spec.version",
            "0.0.0 is a placeholder, expected a version",
            "write the version",
        );
    }
    icon(bundle, &mut csv);
    removed_apis::check(bundle, options, findings);
}

fn provider(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let name = bundle.csv_raw.pointer("/spec/provider/name").and_then(Value::as_str).unwrap_or_default();
    if name.trim().is_empty() {
        findings.error(
            "hub-provider",
            "spec.provider.name",
            "it is empty",
            "name the publisher of the operator",
        );
    }
}

/// Lists of pairs of texts, the second with a format.
fn pairs(
    bundle: &Bundle,
    list: &str,
    (first, second): (&str, &str),
    code: &'static str,
    good: fn(&str) -> bool,
    findings: &mut PartFindings<'_>,
) {
    for (index, entry) in bundle.list(&format!("/spec/{list}")).iter().enumerate() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        for key in [first, second].into_iter().filter(|key| text(key).is_empty()) {
            let field = format!("spec.{list}[{index}].{key}");
            findings.error(
                code,
                field,
                "it is empty",
                format!("give {first} and {second}, or remove the entry"),
            );
        }
        if !text(second).is_empty() && !good(text(second)) {
            let field = format!("spec.{list}[{index}].{second}");
            findings.error(
                code,
                field,
                format!("{} is not a valid {second}", quote(text(second))),
                "correct it",
            );
        }
    }
}

/// An address, bare or as `Name <address>`.
fn is_email(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.trim_end().strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let word = |c: char| {
        !c.is_whitespace()
            && !c.is_control()
            && !matches!(c, '<' | '>' | '(' | ')' | ',' | ';' | ':' | '[' | ']')
    };
    let dotted = |text: &str| text.split('.').all(|part| !part.is_empty() && part.chars().all(word));
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || (dotted(local) && !local.contains('@'))) && dotted(domain)
}

/// Whether Go accepts it as a request URL: with a scheme, or a path from the root.
fn is_url(text: &str) -> bool {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return text.starts_with('/') };
    if text.starts_with('/') {
        return true;
    }
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let scheme_is_good = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letter);
    // Any text may follow the scheme of a URL without host, such as mailto:.
    scheme_is_good && !rest.is_empty()
}

fn icon(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let icons = bundle.list("/spec/icon");
    if icons.len() > 1 {
        let text = format!("there are {} icons, and only the first is shown", icons.len());
        findings.error("hub-icon", "spec.icon", text, "keep one");
    }
    // The default suite reports a missing icon.
    let Some(icon) = icons.first() else { return };
    let text = |key: &str| icon.get(key).and_then(Value::as_str).unwrap_or_default();
    for key in ["base64data", "mediatype"].into_iter().filter(|key| text(key).is_empty()) {
        findings.error(
            "hub-icon",
            format!("spec.icon[0].{key}"),
            "it is empty",
            "give both data and media type",
        );
    }
    let media_type = text("mediatype");
    if !media_type.is_empty() && !MEDIA_TYPES.contains(&media_type) {
        let text = format!("{} is not a media type for icons", quote(media_type));
        let fix = format!("write one of {}", MEDIA_TYPES.join(", "));
        findings.error("hub-icon", "spec.icon[0].mediatype", text, fix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_other_texts() {
        for good in ["a@b.c", "A B <a.b@c.de>", "a+b@c"] {
            assert!(is_email(good), "{good}");
        }
        for bad in ["", "a", "a@", "@b", "a b@c", "a@b@c", "<a@b", "a..b@c", "a@b..c"] {
            assert!(!is_email(bad), "{bad}");
        }
        for good in ["https://a.b/c?d#e", "http://a", "/a", "mailto:a@b.c"] {
            assert!(is_url(good), "{good}");
        }
        for bad in ["", "a.b", "www.a.b/c", "https:", "htt ps://a", "https://a b"] {
            assert!(!is_url(bad), "{bad}");
        }
    }
}

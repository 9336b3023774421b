//! Order and lenient parsing of versions.

use std::cmp::Ordering;

use semver::Version;

/// Order of two versions by precedence: build metadata is ignored.
///
/// `Version`'s own `Ord` orders build metadata too, which no part of OLM does.
///
/// ```
/// use std::cmp::Ordering;
/// let a = "1.0.0+1".parse().unwrap();
/// let b = "1.0.0+2".parse().unwrap();
/// assert_eq!(olm_version::precedence(&a, &b), Ordering::Equal);
/// ```
#[must_use]
pub fn precedence(left: &Version, right: &Version) -> Ordering {
    left.cmp_precedence(right)
}

/// Reads a version in informal notation: surrounding blanks, a leading `v`, leading zeros and missing minor
/// or patch numbers are accepted (`v1.2` is `1.2.0`). blang calls this a tolerant parse.
///
/// # Errors
/// The text is not a version even so.
pub fn parse_lenient(text: &str) -> Result<Version, semver::Error> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    // Only the numeric core is repaired; a suffix must be valid.
    let core_end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, suffix) = text.split_at(core_end);
    let mut numbers: Vec<&str> = core.split('.').map(without_leading_zeros).collect();
    if numbers.len() < 3 && suffix.is_empty() {
        numbers.resize(3, "0");
    }
    Version::parse(&format!("{}{suffix}", numbers.join(".")))
}

fn without_leading_zeros(mut number: &str) -> &str {
    while let Some(rest) = number.strip_prefix('0')
        && rest.starts_with(|c: char| c.is_ascii_digit())
    {
        number = rest;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_parse_accepts_informal_notation() {
        for (text, expected) in [
            ("v1.2.3", "1.2.3"),
            (" 1.2.3 ", "1.2.3"),
            ("1.2", "1.2.0"),
            ("1", "1.0.0"),
            ("0", "0.0.0"),
            ("01.002.3", "1.2.3"),
            ("1.00.3", "1.0.3"),
            ("v1.2.3-rc.1+7", "1.2.3-rc.1+7"),
        ] {
            assert_eq!(parse_lenient(text).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn lenient_parse_rejects_other_texts() {
        for text in ["", "v", "latest", "1.2.3.4", "1.2-rc", "vv1.2.3", "1..3", "1.x"] {
            assert!(parse_lenient(text).is_err(), "{text}");
        }
    }

    #[test]
    fn build_metadata_has_no_precedence() {
        let parse = |text: &str| Version::parse(text).unwrap();
        assert_eq!(precedence(&parse("1.0.0+a"), &parse("1.0.0+b")), Ordering::Equal);
        assert_eq!(precedence(&parse("1.0.0-rc"), &parse("1.0.0")), Ordering::Less);
        assert_eq!(precedence(&parse("1.10.0"), &parse("1.9.0")), Ordering::Greater);
    }
}

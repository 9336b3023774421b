//! The `format` keyword: the formats that Kubernetes validates. Others are documentation.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine;

/// Whether `text` has the format; `true` for formats that are not validated.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => date_time(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => duration(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<std::net::IpAddr>().is_ok(),
        "cidr" => cidr(text),
        "mac" => mac(text),
        "uri" => uri(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && hostname(host)),
        "hostname" => hostname(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => uuid(text),
        _ => true,
    }
}

/// Whether API servers validate the format.
pub(crate) fn is_checked(format: &str) -> bool {
    matches!(
        format,
        "date-time"
            | "datetime"
            | "date"
            | "duration"
            | "byte"
            | "ipv4"
            | "ipv6"
            | "ip"
            | "cidr"
            | "mac"
            | "uri"
            | "email"
            | "hostname"
            | "uuid"
            | "uuid3"
            | "uuid4"
            | "uuid5"
            | "int32"
            | "int64"
            | "uint32"
            | "uint64"
    )
}

/// RFC 3339, with a zone.
fn date_time(text: &str) -> bool {
    let separator = text.as_bytes().get(10);
    matches!(separator, Some(b'T' | b't' | b' ')) && text.parse::<jiff::Timestamp>().is_ok()
}

/// Go's durations: `1h30m`, `-1.5s`, `300ms`, `0`.
fn duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let number = &rest[..digits];
        if number.parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[digits..];
        let Some(unit) = ["ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w"]
            .iter()
            .find(|unit| rest.starts_with(**unit))
        else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    true
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => bits <= 32,
        Ok(std::net::IpAddr::V6(_)) => bits <= 128,
        Err(_) => false,
    }
}

fn mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8)
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// An absolute URI or an absolute path, as in Go's `url.ParseRequestURI`.
fn uri(text: &str) -> bool {
    if text.starts_with('/') {
        return true;
    }
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
            && !text.contains(char::is_whitespace)
    })
}

fn hostname(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.trim_end_matches('.').split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn uuid(text: &str) -> bool {
    let compact: String = text.chars().filter(|c| *c != '-').collect();
    compact.len() == 32 && compact.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::{is_checked, matches};

    #[test]
    fn formats() {
        let good = [
            ("date-time", "2024-01-02T03:04:05Z"),
            ("date-time", "2024-01-02T03:04:05.123+02:00"),
            ("date", "2024-02-29"),
            ("duration", "1h30m"),
            ("duration", "-1.5s"),
            ("duration", "0"),
            ("byte", "aGVsbG8="),
            ("ipv4", "10.0.0.1"),
            ("ipv6", "::1"),
            ("cidr", "10.0.0.0/8"),
            ("uri", "https://example.com/x"),
            ("email", "a@example.com"),
            ("hostname", "a-b.example.com"),
            ("uuid", "c56a4180-65aa-42ec-a945-5fd21dec0538"),
            ("mac", "01:23:45:67:89:ab"),
            ("no-such-format", "anything"),
        ];
        for (format, text) in good {
            assert!(matches(format, text), "{format}: {text}");
        }
        let bad = [
            ("date-time", "2024-01-02"),
            ("date-time", "yesterday"),
            ("date", "2023-02-29"),
            ("duration", "1 hour"),
            ("duration", ""),
            ("byte", "%%%"),
            ("ipv4", "10.0.0.256"),
            ("cidr", "10.0.0.0/33"),
            ("uri", "not a uri"),
            ("email", "nobody"),
            ("hostname", "-a"),
            ("uuid", "xyz"),
        ];
        for (format, text) in bad {
            assert!(!matches(format, text), "{format}: {text}");
        }
    }

    #[test]
    fn formats_reported_as_checked_are_validated() {
        for format in
            ["date-time", "date", "duration", "byte", "ipv4", "cidr", "mac", "uri", "email", "uuid", "fancy"]
        {
            assert_eq!(is_checked(format), !matches(format, "\0!"), "{format}");
        }
    }
}

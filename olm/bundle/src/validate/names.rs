//! The names that Kubernetes allows.

/// Whether a text is a DNS-1123 subdomain: dot-separated labels of lower-case letters, digits and `-`.
pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    // Unlike a label, a part of a subdomain may have more than 63 characters.
    name.len() <= 253 && name.split('.').all(is_dns_part)
}

fn is_dns_part(part: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
}

/// Whether a text is a DNS-1035 label: as DNS-1123, with a letter at its start.
pub(super) fn is_dns1035_label(name: &str) -> bool {
    name.len() <= 63 && is_dns_part(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Whether a text can be the value of a label.
pub(super) fn is_label_value(text: &str) -> bool {
    text.is_empty() || (text.len() <= 63 && is_qualified_part(text))
}

/// Whether a text can be the key of a label or annotation: an optional domain, a slash, a name.
pub(super) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_dns_subdomain) && name.len() <= 63 && is_qualified_part(name)
}

fn is_qualified_part(text: &str) -> bool {
    let end = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(end)
        && text.ends_with(end)
        && text.chars().all(|c| end(c) || matches!(c, '-' | '_' | '.'))
}

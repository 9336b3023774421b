//! Names allowed in Kubernetes.

pub(crate) use olm_kube_schema::names::is_dns_subdomain;

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

//! Kubernetes names. Only a valid one can be the name of a catalog.

use olm_kube_schema::names::{is_dns_label, is_dns_subdomain};

/// Maximum length of an object name.
const LONGEST_NAME: usize = 253;
/// Maximum length of a namespace name.
const LONGEST_LABEL: usize = 63;

/// Validates the name of a catalog: it must be a DNS-1123 subdomain.
pub(crate) fn catalog(name: &str) -> Result<(), String> {
    if is_dns_subdomain(name) {
        return Ok(());
    }
    Err(format!(
        "invalid catalog name {}, expected at most {LONGEST_NAME} lower-case letters, digits, '-' and '.', \
         with every part between dots starting and ending with a letter or digit",
        quoted(name)
    ))
}

/// Validates the name of a namespace: it must be a DNS-1123 label.
pub(crate) fn namespace(name: &str) -> Result<(), String> {
    if is_dns_label(name) {
        return Ok(());
    }
    Err(format!(
        "invalid namespace {}, expected at most {LONGEST_LABEL} lower-case letters, digits and '-', \
         starting and ending with a letter or digit",
        quoted(name)
    ))
}

/// As a truncated string literal: names are untrusted and appear in answers and logs.
pub(crate) fn quoted(name: &str) -> String {
    const SHOWN: usize = 80;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_takes_is_taken() {
        for name in ["a", "operatorhubio", "a.b-c.d0", "0", &"a".repeat(253)] {
            assert_eq!(catalog(name), Ok(()));
        }
        let long = "a".repeat(254);
        for name in ["", ".", "..", "a..b", "-a", "a-", "A", "a/b", "a b", "ä", "a\n", "a\0", long.as_str()]
        {
            assert!(catalog(name).is_err(), "{name:?}");
        }
        assert_eq!(namespace("olm"), Ok(()));
        for name in ["", "a.b", "Olm", "../olm", &"a".repeat(64)] {
            assert!(namespace(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_long_name_is_cut_in_messages() {
        let message = catalog(&"Ä".repeat(10_000)).unwrap_err();
        assert!(message.len() < 500 && message.contains('…'), "{message}");
    }
}

//! The user of a request that the API server forwards.
//!
//! The API server names the user in headers and proves its identity with its certificate: the ConfigMap
//! `kube-system/extension-apiserver-authentication` names authority, names and headers. A connection without
//! that certificate is anonymous.

use std::collections::BTreeMap;

use http::HeaderMap;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use x509_parser::parse_x509_certificate;

use crate::reviews::User;

/// The group of every authenticated user, with or without the front proxy naming it: the API server's own
/// requests (for discovery and OpenAPI) carry a user alone, and have no rights without it.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
/// Maximum number of authorities that are read from a ConfigMap; an API server has one, and two during a
/// renewal.
const MOST_AUTHORITIES: usize = 32;

/// How the API server authenticates, and which headers name the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FrontProxy {
    authorities: Vec<CertificateDer<'static>>,
    /// Common names; empty means any.
    names: Vec<String>,
    user: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra: Vec<String>,
}

impl FrontProxy {
    /// Parses the data of the ConfigMap.
    ///
    /// # Errors
    /// What is missing or wrong in it.
    pub(crate) fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let words = |key: &str| -> Result<Vec<String>, String> {
            let Some(text) = data.get(key) else { return Ok(Vec::new()) };
            serde_json::from_str(text).map_err(|error| format!("{key} is not a list of strings: {error}"))
        };
        let pem = data
            .get("requestheader-client-ca-file")
            .ok_or("requestheader-client-ca-file is missing: the API server has no front proxy configured")?;
        let authorities: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .take(MOST_AUTHORITIES)
            .collect::<Result<_, _>>()
            .map_err(|error| {
                format!("requestheader-client-ca-file is not a list of certificates: {error}")
            })?;
        let front = Self {
            authorities,
            names: words("requestheader-allowed-names")?,
            user: words("requestheader-username-headers")?,
            uid: words("requestheader-uid-headers")?,
            group: words("requestheader-group-headers")?,
            extra: words("requestheader-extra-headers-prefix")?,
        };
        match (front.authorities.is_empty(), front.user.is_empty()) {
            (true, _) => Err("requestheader-client-ca-file contains no certificate".into()),
            (_, true) => Err("requestheader-username-headers is missing".into()),
            (false, false) => Ok(front),
        }
    }

    /// The authorities that may have signed the API server's certificate.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            // An invalid trust anchor authenticates nothing.
            let _ = roots.add(authority.clone());
        }
        roots
    }

    /// The user of a request. The certificate was verified against [`Self::roots`].
    pub(crate) fn user(&self, certificate: Option<&CertificateDer<'_>>, headers: &HeaderMap) -> Option<User> {
        let (_, certificate) = parse_x509_certificate(certificate?).ok()?;
        let mut common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        if !self.names.is_empty() && !common.any(|name| self.names.iter().any(|allowed| allowed == name)) {
            return None;
        }
        let all = |names: &[String]| -> Vec<String> {
            let values = names.iter().flat_map(|name| headers.get_all(name));
            values.filter_map(|v| v.to_str().ok()).map(str::to_owned).collect()
        };
        // As in Kubernetes' servers: the first non-empty header.
        let first = |names: &[String]| all(names).into_iter().find(|value| !value.is_empty());
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in self.extra.iter().map(|prefix| prefix.to_ascii_lowercase()) {
            for (name, value) in headers {
                let (Some(key), Ok(value)) = (name.as_str().strip_prefix(&prefix), value.to_str()) else {
                    continue;
                };
                extra.entry(unescaped(key)).or_default().push(value.to_owned());
            }
        }
        let (name, uid) = (first(&self.user)?, first(&self.uid));
        Some(User { groups: groups(&name, all(&self.group)), name, uid, extra })
    }
}

/// The groups of a user whom the front proxy names with these groups.
fn groups(user: &str, mut named: Vec<String>) -> Vec<String> {
    let has_status_group = named.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if user != ANONYMOUS && !has_status_group {
        named.push(AUTHENTICATED.to_owned());
    }
    named
}

/// Keys of extras are in header names, which do not allow every character.
fn unescaped(key: &str) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(key.len()), key.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()).filter(|_| *byte == b'%');
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(escaped) => {
                out.push(escaped);
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_extras_come_out_of_headers_as_they_were() {
        assert_eq!(unescaped("example.com%2fscope"), "example.com/scope");
        assert_eq!(unescaped("100%"), "100%");
        assert_eq!(unescaped("%zz%2"), "%zz%2");
        assert_eq!(unescaped("%c3%a4"), "ä");
    }

    #[test]
    fn every_identified_caller_is_authenticated() {
        let named =
            |user: &str, given: &[&str]| groups(user, given.iter().map(|g| (*g).to_owned()).collect());
        assert_eq!(named("system:kube-aggregator", &[]), [AUTHENTICATED]);
        assert_eq!(named("ann", &["team"]), ["team", AUTHENTICATED]);
        assert_eq!(named("ann", &[AUTHENTICATED, "team"]), [AUTHENTICATED, "team"]);
        assert_eq!(named(ANONYMOUS, &[]), [""; 0]);
        assert_eq!(named("nobody", &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
    }
}

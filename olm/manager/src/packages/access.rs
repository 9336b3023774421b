//! Who asks, and whether they may.
//!
//! Requests come through the API server, which says in headers whom it speaks for and proves with its certificate that it is
//! the one to say so: the ConfigMap `kube-system/extension-apiserver-authentication` names authority, names and headers. Whoever
//! comes without that certificate is nobody.

use std::collections::BTreeMap;

use http::HeaderMap;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use x509_parser::parse_x509_certificate;

use super::{GROUP, RESOURCE, VERSION};

/// Whoever is in it may do everything; Kubernetes' servers ask nobody about it.
const MASTERS: &str = "system:masters";
/// Whom Kubernetes' servers count among those who are somebody, whether the front proxy says so or not: the API server's own
/// requests (for discovery and OpenAPI) name a user alone, and see nothing without it.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
/// Authorities that are read of a ConfigMap at the most; an API server has one, and two while it is renewed.
const MOST_AUTHORITIES: usize = 32;

/// How the API server is recognised, and where it says whom it speaks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Front {
    authorities: Vec<CertificateDer<'static>>,
    /// Common names; none means any.
    names: Vec<String>,
    user: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra: Vec<String>,
}

/// Whom the API server speaks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asker {
    user: String,
    uid: Option<String>,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Front {
    /// Reads the data of the ConfigMap.
    ///
    /// # Errors
    /// What is missing or wrong in it.
    pub(super) fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let words = |key: &str| -> Result<Vec<String>, String> {
            let Some(text) = data.get(key) else { return Ok(Vec::new()) };
            serde_json::from_str(text).map_err(|error| format!("{key} is no list of texts: {error}"))
        };
        let pem = data
            .get("requestheader-client-ca-file")
            .ok_or("it has no requestheader-client-ca-file: the API server has no front proxy configured")?;
        let authorities: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .take(MOST_AUTHORITIES)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("requestheader-client-ca-file is no list of certificates: {error}"))?;
        let front = Self {
            authorities,
            names: words("requestheader-allowed-names")?,
            user: words("requestheader-username-headers")?,
            uid: words("requestheader-uid-headers")?,
            group: words("requestheader-group-headers")?,
            extra: words("requestheader-extra-headers-prefix")?,
        };
        match (front.authorities.is_empty(), front.user.is_empty()) {
            (true, _) => Err("requestheader-client-ca-file has no certificate".into()),
            (_, true) => Err("it names no requestheader-username-headers".into()),
            (false, false) => Ok(front),
        }
    }

    /// Who may have signed the API server's certificate.
    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            // What is no anchor recognises nobody.
            let _ = roots.add(authority.clone());
        }
        roots
    }

    /// Whom a request is made for. The certificate is one that [`Self::roots`] verified.
    pub(super) fn asker(
        &self,
        certificate: Option<&CertificateDer<'_>>,
        headers: &HeaderMap,
    ) -> Option<Asker> {
        let (_, certificate) = parse_x509_certificate(certificate?).ok()?;
        let mut common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        if !self.names.is_empty() && !common.any(|name| self.names.iter().any(|allowed| allowed == name)) {
            return None;
        }
        let all = |names: &[String]| -> Vec<String> {
            let values = names.iter().flat_map(|name| headers.get_all(name));
            values.filter_map(|v| v.to_str().ok()).map(str::to_owned).collect()
        };
        // As Kubernetes' servers read them: the first header that says something.
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
        let (user, uid) = (first(&self.user)?, first(&self.uid));
        Some(Asker { groups: groups(&user, all(&self.group)), user, uid, extra })
    }
}

/// The groups of somebody whom the front proxy names with these.
fn groups(user: &str, mut named: Vec<String>) -> Vec<String> {
    let said = named.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if user != ANONYMOUS && !said {
        named.push(AUTHENTICATED.to_owned());
    }
    named
}

/// Keys of extras are in headers, which cannot have every character.
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

/// What somebody wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// See what the API consists of.
    Look { path: String },
    /// Read manifests; no namespace is all of them.
    Read {
        verb: &'static str,
        namespace: Option<String>,
        name: Option<String>,
        subresource: Option<&'static str>,
    },
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// They may not.
    Forbidden(String),
    /// Nobody could say.
    Unknown(String),
}

/// Asks the API server whether they may.
///
/// # Errors
/// [`Refusal`]
pub(super) async fn may(client: &Client, asker: &Asker, act: &Act) -> Result<(), Refusal> {
    if asker.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let review = Api::<SubjectAccessReview>::all(client.clone())
        .create(&PostParams::default(), &review(asker, act))
        .await
        .map_err(|error| Refusal::Unknown(format!("failed to ask whether {} may: {error}", asker.user)))?;
    let status = review.status.unwrap_or_default();
    if status.allowed {
        return Ok(());
    }
    let reason = status.reason.filter(|reason| !reason.is_empty()).map(|r| format!(": {r}"));
    Err(Refusal::Forbidden(format!("{}{}", forbidden(asker, act), reason.unwrap_or_default())))
}

/// The question whether they may.
fn review(asker: &Asker, act: &Act) -> SubjectAccessReview {
    let mut spec = SubjectAccessReviewSpec {
        user: Some(asker.user.clone()),
        uid: asker.uid.clone(),
        groups: Some(asker.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(asker.extra.clone()).filter(|extra| !extra.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match act {
        Act::Look { path } => {
            spec.non_resource_attributes =
                Some(NonResourceAttributes { path: Some(path.clone()), verb: Some("get".into()) });
        }
        Act::Read { verb, namespace, name, subresource } => {
            spec.resource_attributes = Some(ResourceAttributes {
                group: Some(GROUP.into()),
                version: Some(VERSION.into()),
                resource: Some(RESOURCE.into()),
                verb: Some((*verb).into()),
                namespace: namespace.clone(),
                name: name.clone(),
                subresource: subresource.map(str::to_owned),
                ..ResourceAttributes::default()
            });
        }
    }
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

fn forbidden(asker: &Asker, act: &Act) -> String {
    let user = &asker.user;
    match act {
        Act::Look { path } => format!("forbidden: User {user:?} cannot get path {path:?}"),
        Act::Read { verb, namespace, name, subresource } => {
            let resource = subresource.map_or(RESOURCE.to_owned(), |sub| format!("{RESOURCE}/{sub}"));
            let name = name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
            let scope = match namespace {
                Some(namespace) => format!("in the namespace {namespace:?}"),
                None => "at the cluster scope".to_owned(),
            };
            format!(
                "{RESOURCE}.{GROUP}{name} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {GROUP:?} {scope}"
            )
        }
    }
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
    fn whoever_is_somebody_is_authenticated() {
        let named =
            |user: &str, given: &[&str]| groups(user, given.iter().map(|g| (*g).to_owned()).collect());
        assert_eq!(named("system:kube-aggregator", &[]), [AUTHENTICATED]);
        assert_eq!(named("ann", &["team"]), ["team", AUTHENTICATED]);
        assert_eq!(named("ann", &[AUTHENTICATED, "team"]), [AUTHENTICATED, "team"]);
        assert_eq!(named(ANONYMOUS, &[]), [""; 0]);
        assert_eq!(named("nobody", &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
    }

    #[test]
    fn the_question_has_all_of_the_asker_and_the_act() {
        let asker = Asker {
            user: "ann".into(),
            uid: Some("u".into()),
            groups: vec!["team".into()],
            extra: BTreeMap::from([("scope".into(), vec!["a".into()])]),
        };
        let act = Act::Read {
            verb: "get",
            namespace: Some("ns".into()),
            name: Some("etcd".into()),
            subresource: Some("icon"),
        };
        let asked = serde_json::to_value(review(&asker, &act).spec).unwrap();
        assert_eq!(
            asked,
            serde_json::json!({
                "user": "ann", "uid": "u", "groups": ["team"], "extra": { "scope": ["a"] },
                "resourceAttributes": { "group": GROUP, "version": "v1", "resource": RESOURCE, "verb": "get",
                    "namespace": "ns", "name": "etcd", "subresource": "icon" },
            })
        );
        assert!(forbidden(&asker, &act).ends_with(
            r#"cannot get resource "packagemanifests/icon" in API group "packages.operators.coreos.com" in the namespace "ns""#
        ));
    }
}

//! TLS between members and towards clients: with certificates of the user ([`check`](mod@check)) or of the
//! operator ([`auto`]).
//!
//! Both result in three Secrets with the keys of coreos/etcd-operator, so everything else is shared: members
//! mount them ([`pod`]), the operator connects with one of them ([`Access`]). etcd rereads certificates and
//! keys for every connection, so a changed Secret needs no restart; trusted authorities are only read at its
//! start.

mod access;
pub(crate) mod auto;
mod check;
mod material;
pub(crate) mod pod;
mod report;
mod secret_cache;
#[cfg(test)]
mod tests;

use std::fmt;

pub use access::Access;
pub(crate) use check::check;
pub(crate) use material::{Files, Pair};
pub(crate) use report::{insecure, report};
pub(crate) use secret_cache::describe_faults;
pub use secret_cache::{Insecure, SecretCache, Secured};

use crate::crd::TlsPolicy;

/// One of the three Secrets of a cluster with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CertificateRole {
    /// Between members.
    Peer,
    /// Presented by members to clients.
    Server,
    /// Presented by the operator to members.
    Operator,
}

impl CertificateRole {
    pub(crate) const ALL: [Self; 3] = [Self::Peer, Self::Server, Self::Operator];

    /// The keys of its Secret: certificate, private key, trusted authorities.
    pub(crate) const fn keys(self) -> [&'static str; 3] {
        match self {
            Self::Peer => ["peer.crt", "peer.key", "peer-ca.crt"],
            Self::Server => ["server.crt", "server.key", "server-ca.crt"],
            Self::Operator => ["etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt"],
        }
    }

    /// Name of its Secret when issued by the operator.
    pub(crate) fn issued_secret_name(self, cluster: &str) -> String {
        let suffix = match self {
            Self::Peer => "peer-tls",
            Self::Server => "server-tls",
            Self::Operator => "client-tls",
        };
        format!("{cluster}-{suffix}")
    }
}

/// Desired TLS of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsGoal {
    /// Secret of the certificates between members; none for plain connections.
    pub(crate) peer: Option<String>,
    /// Secrets of the members towards clients, and of the operator; none for plain connections.
    pub(crate) client_facing: Option<ClientGoal>,
    /// The operator issues the content of the Secrets.
    pub(crate) auto: Option<auto::Settings>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientGoal {
    pub(crate) server: String,
    pub(crate) operator: String,
}

impl TlsGoal {
    /// `http` or `https`, between members.
    #[must_use]
    pub const fn peer_scheme(&self) -> &'static str {
        if self.peer.is_some() { "https" } else { "http" }
    }

    /// `http` or `https`, towards clients.
    #[must_use]
    pub const fn client_scheme(&self) -> &'static str {
        if self.client_facing.is_some() { "https" } else { "http" }
    }

    #[must_use]
    pub const fn any(&self) -> bool {
        self.peer.is_some() || self.client_facing.is_some()
    }

    pub(crate) fn secret(&self, role: CertificateRole) -> Option<&str> {
        match role {
            CertificateRole::Peer => self.peer.as_deref(),
            CertificateRole::Server => self.client_facing.as_ref().map(|c| c.server.as_str()),
            CertificateRole::Operator => self.client_facing.as_ref().map(|c| c.operator.as_str()),
        }
    }
}

/// Parses the policy and reports all its errors.
pub(crate) fn goal(cluster: &str, policy: Option<&TlsPolicy>, errors: &mut Vec<String>) -> TlsGoal {
    let Some(policy) = policy else { return TlsGoal::default() };
    let set = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    match (&policy.static_, &policy.auto) {
        (None, None) => TlsGoal::default(),
        (Some(_), Some(_)) => {
            errors.push("spec.TLS: `static` and `auto` are mutually exclusive".into());
            TlsGoal::default()
        }
        (None, Some(auto)) => TlsGoal {
            peer: Some(CertificateRole::Peer.issued_secret_name(cluster)),
            client_facing: Some(ClientGoal {
                server: CertificateRole::Server.issued_secret_name(cluster),
                operator: CertificateRole::Operator.issued_secret_name(cluster),
            }),
            auto: Some(auto::settings(auto, errors)),
        },
        (Some(given), None) => {
            let member = given.member.clone().unwrap_or_default();
            let client_facing = match (set(&member.server_secret), set(&given.operator_secret)) {
                (Some(server), Some(operator)) => Some(ClientGoal { server, operator }),
                (None, None) => None,
                (Some(_), None) => {
                    errors.push(
                        "spec.TLS.static.operatorSecret: missing; with `member.serverSecret` alone the \
                         operator has no access to the members"
                            .into(),
                    );
                    None
                }
                (None, Some(_)) => {
                    errors.push(
                        "spec.TLS.static.member.serverSecret: missing; `operatorSecret` alone does not \
                         enable client TLS"
                            .into(),
                    );
                    None
                }
            };
            TlsGoal { peer: set(&member.peer_secret), client_facing, auto: None }
        }
    }
}

/// Names in the certificates of a cluster, for verification and issuance.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    cluster: String,
    namespace: String,
    domain: String,
}

impl Names {
    pub(crate) fn of(cluster: &crate::validate::Validated) -> Self {
        Self {
            cluster: cluster.name.clone(),
            namespace: cluster.namespace.clone(),
            domain: cluster.domain.clone(),
        }
    }

    /// The DNS domain of the Kubernetes cluster with its leading dot; `.cluster.local` where the spec has none.
    fn full_domain(&self) -> &str {
        if self.domain.is_empty() { ".cluster.local" } else { &self.domain }
    }

    /// Wildcard names of the members, without and with the domain.
    pub(crate) fn members(&self) -> Vec<String> {
        let short = format!("*.{}.{}.svc", self.cluster, self.namespace);
        vec![short.clone(), format!("{short}{}", self.full_domain())]
    }

    /// The name of a member called `member`, as other members connect to it.
    fn peer(&self) -> String {
        format!("member.{}.{}.svc{}", self.cluster, self.namespace, self.domain)
    }

    /// Names of the client Service, without and with the domain.
    pub(crate) fn service(&self) -> Vec<String> {
        let short = format!("{}-client.{}.svc", self.cluster, self.namespace);
        vec![short.clone(), format!("{short}{}", self.full_domain())]
    }

    /// Server names, one of which the certificate of the members must have, best first. The operator connects
    /// to pod addresses, so it verifies a name of its choice; all members present the same certificate.
    fn server(&self) -> Vec<String> {
        let service = format!("{}-client.{}.svc", self.cluster, self.namespace);
        let member = format!("member.{}.{}.svc", self.cluster, self.namespace);
        let domain = self.full_domain();
        vec![
            service.clone(),
            member.clone(),
            format!("{service}{domain}"),
            format!("{member}{domain}"),
            // Upstream requires it too: the probes of its pods used it.
            "localhost".into(),
        ]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    pub secret: String,
    pub key: Option<&'static str>,
    /// Machine-readable reason.
    pub reason: &'static str,
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}", self.secret)?;
        if let Some(key) = self.key {
            write!(f, ", key {key}")?;
        }
        write!(f, ": {}", self.text)
    }
}

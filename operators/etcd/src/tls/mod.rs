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
pub(crate) use secret_cache::list;
pub use secret_cache::{Insecure, SecretCache, Secured};

use crate::crd::TlsPolicy;

/// One of the three Secrets of a cluster with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Between members.
    Peer,
    /// Presented by members to clients.
    Server,
    /// Presented by the operator to members.
    Client,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Peer, Self::Server, Self::Client];

    /// Keys of the certificate, its key and the authorities.
    pub(crate) const fn keys(self) -> [&'static str; 3] {
        match self {
            Self::Peer => ["peer.crt", "peer.key", "peer-ca.crt"],
            Self::Server => ["server.crt", "server.key", "server-ca.crt"],
            Self::Client => ["etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt"],
        }
    }

    /// Name of its Secret when issued by the operator.
    pub(crate) fn secret(self, cluster: &str) -> String {
        let suffix = match self {
            Self::Peer => "peer-tls",
            Self::Server => "server-tls",
            Self::Client => "client-tls",
        };
        format!("{cluster}-{suffix}")
    }
}

/// Desired TLS of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Secret of the certificates between members; none for plain connections.
    pub(crate) peer: Option<String>,
    /// Secrets of the members towards clients, and of the operator; none for plain connections.
    pub(crate) client: Option<ClientGoal>,
    /// The operator issues the content of the Secrets.
    pub(crate) auto: Option<auto::Settings>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientGoal {
    pub(crate) server: String,
    pub(crate) operator: String,
}

impl Goal {
    /// `http` or `https`, between members.
    #[must_use]
    pub const fn peer_scheme(&self) -> &'static str {
        if self.peer.is_some() { "https" } else { "http" }
    }

    /// `http` or `https`, towards clients.
    #[must_use]
    pub const fn client_scheme(&self) -> &'static str {
        if self.client.is_some() { "https" } else { "http" }
    }

    #[must_use]
    pub const fn any(&self) -> bool {
        self.peer.is_some() || self.client.is_some()
    }

    pub(crate) fn secret(&self, part: Part) -> Option<&str> {
        match part {
            Part::Peer => self.peer.as_deref(),
            Part::Server => self.client.as_ref().map(|c| c.server.as_str()),
            Part::Client => self.client.as_ref().map(|c| c.operator.as_str()),
        }
    }
}

/// Parses the policy and reports all its errors.
pub(crate) fn goal(cluster: &str, policy: Option<&TlsPolicy>, errors: &mut Vec<String>) -> Goal {
    let Some(policy) = policy else { return Goal::default() };
    let set = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    match (&policy.static_, &policy.auto) {
        (None, None) => Goal::default(),
        (Some(_), Some(_)) => {
            errors.push("spec.TLS: `static` and `auto` are mutually exclusive".into());
            Goal::default()
        }
        (None, Some(auto)) => Goal {
            peer: Some(Part::Peer.secret(cluster)),
            client: Some(ClientGoal {
                server: Part::Server.secret(cluster),
                operator: Part::Client.secret(cluster),
            }),
            auto: Some(auto::settings(auto, errors)),
        },
        (Some(given), None) => {
            let member = given.member.clone().unwrap_or_default();
            let client = match (set(&member.server_secret), set(&given.operator_secret)) {
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
            Goal { peer: set(&member.peer_secret), client, auto: None }
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

    /// Wildcard names of the members.
    pub(crate) fn members(&self) -> Vec<String> {
        let short = format!("*.{}.{}.svc", self.cluster, self.namespace);
        let domain = if self.domain.is_empty() { ".cluster.local" } else { &self.domain };
        vec![short.clone(), format!("{short}{domain}")]
    }

    /// A representative name of a member, as other members use it.
    fn peer(&self) -> String {
        format!("member.{}.{}.svc{}", self.cluster, self.namespace, self.domain)
    }

    pub(crate) fn service(&self) -> Vec<String> {
        let short = format!("{}-client.{}.svc", self.cluster, self.namespace);
        let domain = if self.domain.is_empty() { ".cluster.local" } else { &self.domain };
        vec![short.clone(), format!("{short}{domain}")]
    }

    /// Server names accepted for a member of this cluster, best first. The operator connects to pod
    /// addresses; all members present the same certificate.
    fn server(&self) -> Vec<String> {
        let member = format!("member.{}.{}.svc", self.cluster, self.namespace);
        let mut names = self.service();
        names.insert(1, member.clone());
        names.push(format!(
            "{member}{}",
            if self.domain.is_empty() { ".cluster.local" } else { &self.domain }
        ));
        // Upstream requires it too: the probes of its pods used it.
        names.push("localhost".into());
        names
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

//! TLS between members and towards clients: with certificates of the user's ([`check`](mod@check)) or the operator's own ([`auto`]).
//!
//! Both end up as three Secrets with the keys of coreos/etcd-operator, so everything behind them is the same: members mount
//! them ([`pod`]), the operator connects with one of them ([`Access`]). etcd reads certificates and keys anew for
//! every connection, so a changed Secret needs no restart; what it trusts it reads only when it starts.

mod access;
pub(crate) mod auto;
mod check;
mod keeper;
mod material;
pub(crate) mod pod;
mod report;
#[cfg(test)]
mod tests;

use std::fmt;

pub use access::Access;
pub(crate) use check::check;
pub(crate) use keeper::list;
pub use keeper::{Insecure, Keeper, Secured};
pub(crate) use material::{Files, Pair};
pub(crate) use report::{insecure, report};

use crate::crd::TlsPolicy;

/// One of the three Secrets of a cluster with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Between members.
    Peer,
    /// What members show to clients.
    Server,
    /// What the operator shows to members.
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

    /// Its Secret when the operator makes it.
    pub(crate) fn secret(self, cluster: &str) -> String {
        let suffix = match self {
            Self::Peer => "peer-tls",
            Self::Server => "server-tls",
            Self::Client => "client-tls",
        };
        format!("{cluster}-{suffix}")
    }
}

/// What a cluster wants of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Secret of the certificates between members; without it they talk plain.
    pub(crate) peer: Option<String>,
    /// Secrets of the members towards clients, and of the operator; without them clients talk plain.
    pub(crate) client: Option<ClientGoal>,
    /// The operator makes what is in the Secrets.
    pub(crate) auto: Option<auto::Settings>,
}

/// TLS towards clients.
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

    /// The same towards clients.
    #[must_use]
    pub const fn client_scheme(&self) -> &'static str {
        if self.client.is_some() { "https" } else { "http" }
    }

    /// Whether there is any TLS.
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

/// What is wanted, and what of it cannot be: all of it at once.
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

/// The names that the certificates of a cluster are checked for, and made for.
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

    /// The members, whatever they are called.
    pub(crate) fn members(&self) -> Vec<String> {
        let short = format!("*.{}.{}.svc", self.cluster, self.namespace);
        let domain = if self.domain.is_empty() { ".cluster.local" } else { &self.domain };
        vec![short.clone(), format!("{short}{domain}")]
    }

    /// A member as other members call it.
    fn peer(&self) -> String {
        format!("member.{}.{}.svc{}", self.cluster, self.namespace, self.domain)
    }

    /// The Service for clients.
    pub(crate) fn service(&self) -> Vec<String> {
        let short = format!("{}-client.{}.svc", self.cluster, self.namespace);
        let domain = if self.domain.is_empty() { ".cluster.local" } else { &self.domain };
        vec![short.clone(), format!("{short}{domain}")]
    }

    /// The names under which the operator may take a member for a member of this cluster, best first. It connects to addresses
    /// of pods; all members show the same certificate.
    fn server(&self) -> Vec<String> {
        let member = format!("member.{}.{}.svc", self.cluster, self.namespace);
        let mut names = self.service();
        names.insert(1, member.clone());
        names.push(format!(
            "{member}{}",
            if self.domain.is_empty() { ".cluster.local" } else { &self.domain }
        ));
        // Upstream asks for it too: the probes of its pods used it.
        names.push("localhost".into());
        names
    }
}

/// What is wrong with a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// Its name.
    pub secret: String,
    pub key: Option<&'static str>,
    /// In one word.
    pub reason: &'static str,
    /// For people.
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

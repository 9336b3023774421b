//! Certificates issued and renewed by the operator without interruption.
//!
//! Two authorities for each cluster: one signs for members among themselves, the other for members towards clients
//! and for clients. So a peer does not accept a client certificate. Their keys are in a Secret that no pod mounts
//! ([`authorities_secret`]); the three Secrets of [`super::CertificateRole`] are derived from it.
//!
//! Certificates are replaced in place: etcd rereads them for every connection. An authority is rotated in steps,
//! because etcd reads the trusted authorities only when it starts:
//!
//! 1. [`Step::Prepare`](next::Step::Prepare): the next authority is created, and published with the present one;
//! 2. members that started before are restarted, one by one ([`restart_before`]);
//! 3. [`Step::Switch`](next::Step::Switch): when all trust it, it signs; certificates are reissued;
//! 4. [`Step::Drop`](next::Step::Drop): the old one is dropped when it and everything that it signed has expired.
//!
//! [`next`](mod@next) derives the step from the Secrets alone, so an operator killed between two steps resumes.

mod issued;
mod mint;
mod next;
#[cfg(test)]
mod tests;

pub(crate) use issued::IssuedSecrets;
pub use mint::MintError;
#[cfg(test)]
pub(crate) use mint::{authority, certificate};
#[cfg(test)]
pub(crate) use next::Step;
pub(crate) use next::{Started, next, restart_before, write};

use super::CertificateRole;
use crate::crd::AutoTls;

const DAYS: i64 = 365;
/// Maximum days of a certificate: the limit of browsers until 2020. Longer validity defeats the renewal.
const MOST_DAYS: i64 = 825;
/// Validity of an authority as a multiple of a certificate's, and its maximum.
const AUTHORITY_TIMES: i64 = 10;
const AUTHORITY_MOST_DAYS: i64 = 3650;
/// Clock skew between machines: a certificate is valid this long before its creation.
const BACKDATE_SECONDS: i64 = 300;
/// By then every kubelet has updated a changed Secret in its pods: it syncs each minute, with a cache of up
/// to another minute.
const PROPAGATION_SECONDS: i64 = 300;
/// Maximum of published authorities: more result only from Secrets that were destroyed repeatedly.
const MOST_AUTHORITIES: usize = 8;
/// Maximum number of additional names in a certificate.
const MOST_NAMES: usize = 64;

const DAY: i64 = 86_400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) days: i64,
    pub(crate) names: Vec<String>,
}

impl Settings {
    const fn authority_days(&self) -> i64 {
        let days = self.days * AUTHORITY_TIMES;
        if days > AUTHORITY_MOST_DAYS { AUTHORITY_MOST_DAYS } else { days }
    }
}

pub(super) fn settings(policy: &AutoTls, errors: &mut Vec<String>) -> Settings {
    let days = policy.certificate_days.unwrap_or(DAYS);
    if !(1..=MOST_DAYS).contains(&days) {
        errors
            .push(format!("spec.TLS.auto.certificateDays: invalid value {days}, expected 1 to {MOST_DAYS}"));
    }
    let names = policy.server_names.clone().unwrap_or_default();
    if names.len() > MOST_NAMES {
        errors
            .push(format!("spec.TLS.auto.serverNames: {} names, expected at most {MOST_NAMES}", names.len()));
    }
    for name in names.iter().take(MOST_NAMES) {
        let bare = name.strip_prefix("*.").unwrap_or(name);
        if rustls::pki_types::ServerName::try_from(bare.to_owned()).is_err() {
            errors.push(format!(
                "spec.TLS.auto.serverNames: invalid name {name:?}, expected a DNS name or an IP address"
            ));
        }
    }
    Settings { days: days.clamp(1, MOST_DAYS), names }
}

/// Authorities by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Members among themselves.
    Peer,
    /// Members towards clients, and clients.
    Client,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Peer, Self::Client];

    pub(crate) const fn of(role: CertificateRole) -> Self {
        match role {
            CertificateRole::Peer => Self::Peer,
            CertificateRole::Server | CertificateRole::Operator => Self::Client,
        }
    }

    pub(crate) const fn roles(self) -> &'static [CertificateRole] {
        match self {
            Self::Peer => &[CertificateRole::Peer],
            Self::Client => &[CertificateRole::Server, CertificateRole::Operator],
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Client => "client",
        }
    }
}

/// The Secret with the authorities and their keys.
pub(crate) fn authorities_secret(cluster: &str) -> String {
    format!("{cluster}-tls-authorities")
}

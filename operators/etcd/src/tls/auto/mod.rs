//! Certificates of the operator's own, made and renewed without anybody noticing.
//!
//! Two authorities for each cluster: one signs for members among themselves, the other for members towards clients and for
//! clients. So no client passes for a member. Their keys lie in a Secret that nobody mounts ([`authorities_secret`]);
//! the three Secrets of [`super::Part`] are made from it.
//!
//! Certificates are replaced in place: etcd reads them anew for every connection. An authority is handed over, because
//! what etcd trusts it reads only when it starts:
//!
//! 1. [`Step::Prepare`](next::Step::Prepare): the next authority is made, and published beside the present one;
//! 2. members that started before are restarted, one by one ([`restart_before`]);
//! 3. [`Step::Switch`](next::Step::Switch): when all trust it, it signs; certificates are issued anew;
//! 4. [`Step::Drop`](next::Step::Drop): the old one goes when it has expired, and with it everything that it signed.
//!
//! [`next`](mod@next) derives the step that is due from the Secrets alone, so an operator that is killed between two steps resumes.

mod held;
mod mint;
mod next;
#[cfg(test)]
mod tests;

pub(crate) use held::Held;
pub use mint::MintError;
#[cfg(test)]
pub(crate) use mint::{authority, certificate};
#[cfg(test)]
pub(crate) use next::Step;
pub(crate) use next::{Started, next, restart_before, write};

use super::Part;
use crate::crd::AutoTls;

/// Days of a certificate when nothing else is said.
const DAYS: i64 = 365;
/// As many as browsers took last, and a user who wants more wants no renewal.
const MOST_DAYS: i64 = 825;
/// An authority is valid for so many times a certificate's days, and for this many at the most.
const AUTHORITY_TIMES: i64 = 10;
const AUTHORITY_MOST_DAYS: i64 = 3650;
/// Clocks of machines differ by less; a certificate is valid that long before it was made.
const BACKDATE_SECONDS: i64 = 300;
/// By then every kubelet has brought a changed Secret into its pods: it looks each minute, and may use what it knew for another.
const SETTLE_SECONDS: i64 = 300;
/// Authorities that are published together at the most: more come of Secrets that somebody destroyed again and again.
const MOST_AUTHORITIES: usize = 8;
/// More names in one certificate are no list that a person keeps.
const MOST_NAMES: usize = 64;

const DAY: i64 = 86_400;

/// What the user says about them.
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

/// Which authority: what it signs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Members among themselves.
    Peer,
    /// Members towards clients, and clients.
    Client,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Peer, Self::Client];

    pub(crate) const fn of(part: Part) -> Self {
        match part {
            Part::Peer => Self::Peer,
            Part::Server | Part::Client => Self::Client,
        }
    }

    pub(crate) const fn parts(self) -> &'static [Part] {
        match self {
            Self::Peer => &[Part::Peer],
            Self::Client => &[Part::Server, Part::Client],
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

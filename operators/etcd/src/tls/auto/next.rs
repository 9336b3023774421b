//! The rotation step that is due.

use jiff::Timestamp;

use super::issued::{Authority, Chain, IssuedSecrets, leaf_data};
use super::mint::{MintError, authority, certificate};
use super::{Kind, PROPAGATION_SECONDS, Settings};
use crate::tls::check::contains_all;
use crate::tls::material::Data;
use crate::tls::{CertificateRole, Names};

/// Start time of the members, when they read the trusted authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// Not observed yet.
    Unknown,
    NoMembers,
    /// Start of the oldest process, in seconds since 1970.
    Since(i64),
}

/// One step: one write to one Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Create a new authority: the first or the next one.
    Prepare(Kind),
    /// The next authority signs from now on.
    Switch(Kind),
    /// Drop expired authorities.
    Drop(Kind),
    /// Issue a certificate; with the reason.
    Issue(CertificateRole, &'static str),
    /// Publish the trusted authorities, with the certificate in use.
    Publish(CertificateRole),
    /// Nothing is due before this time (seconds since 1970).
    Wait(i64),
}

/// The step that is due.
/// All state is in the Secrets, so any operator can take the next step. At any time all members trust the
/// certificate of every other: an authority signs only after every member started with it among the trusted
/// ones, and it is dropped only when everything it signed has expired with it.
pub(crate) fn next(
    issued: &IssuedSecrets,
    names: &Names,
    settings: &Settings,
    started: Started,
    now: Timestamp,
) -> Step {
    let mut wake = i64::MAX;
    for kind in Kind::ALL {
        let chain = issued.chain(kind);
        if chain.current.is_none() && chain.next.is_none() {
            return Step::Prepare(kind);
        }
        if chain.retired.iter().any(|authority| authority.expired(now)) {
            return Step::Drop(kind);
        }
        let bundle = chain.bundle(now);
        for role in kind.roles() {
            let Some(leaf) = issued.leaves.get(role) else {
                return Step::Issue(*role, "certificate missing");
            };
            let published = &leaf.files.authorities;
            if !(contains_all(published, &bundle) && contains_all(&bundle, published)) {
                return Step::Publish(*role);
            }
        }
        if let Some(next) = &chain.next {
            match trusted_by_all(next, started, now) {
                Trust::All => return Step::Switch(kind),
                Trust::At(second) => wake = wake.min(second),
                Trust::NotYet => {}
            }
        }
        // If the key of the current one is lost, its certificates stay in use until they expire.
        if let Some(current) = &chain.current {
            for role in kind.roles() {
                let Some(leaf) = issued.leaves.get(role) else { continue };
                if !leaf.files.pair.signed_by(&current.der) {
                    return Step::Issue(*role, "signing authority changed");
                }
                if !issued.has_names(*role, names, settings) {
                    return Step::Issue(*role, "names changed");
                }
                let pair = &leaf.files.pair;
                let renew = pair.not_after - renew_before(settings);
                // A certificate that ends with its authority cannot be extended by it.
                if now.as_second() >= renew && pair.not_after < current.not_after {
                    return Step::Issue(*role, "certificate expires soon");
                }
                if pair.not_after < current.not_after {
                    wake = wake.min(renew);
                }
            }
            let prepare = current.not_after - 2 * settings.days * super::DAY;
            if chain.next.is_none() {
                if now.as_second() >= prepare {
                    return Step::Prepare(kind);
                }
                wake = wake.min(prepare);
            }
        }
        wake = chain.retired.iter().map(|authority| authority.not_after).fold(wake, i64::min);
    }
    Step::Wait(wake)
}

/// A certificate is renewed when a third of its validity is left.
const fn renew_before(settings: &Settings) -> i64 {
    settings.days * super::DAY / 3
}

enum Trust {
    All,
    /// Allowed at that time.
    At(i64),
    /// Members must be restarted, or observed, first.
    NotYet,
}

fn trusted_by_all(next: &Authority, started: Started, now: Timestamp) -> Trust {
    let propagated = next.made().saturating_add(PROPAGATION_SECONDS);
    if now.as_second() < propagated {
        return Trust::At(propagated);
    }
    match started {
        Started::NoMembers => Trust::All,
        Started::Since(second) if second >= propagated => Trust::All,
        Started::Since(_) | Started::Unknown => Trust::NotYet,
    }
}

/// Members started before this do not trust a pending authority and must be restarted.
pub(crate) fn restart_before(issued: &IssuedSecrets, now: Timestamp) -> Option<i64> {
    let waiting = |chain: &Chain| {
        let propagated = chain.next.as_ref()?.made().saturating_add(PROPAGATION_SECONDS);
        (now.as_second() >= propagated).then_some(propagated)
    };
    issued.chains.values().filter_map(waiting).max()
}

/// Content and target of a step's write: the Secret of a role, otherwise that of the authorities. None when
/// it waits.
pub(crate) fn write(
    step: &Step,
    issued: &IssuedSecrets,
    names: &Names,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<(Option<CertificateRole>, Data)>, MintError> {
    let with = |kind: Kind, chain: Chain| {
        let mut issued = issued.clone();
        issued.chains.insert(kind, chain);
        Some((None, issued.authorities()))
    };
    Ok(match step {
        Step::Wait(_) => None,
        Step::Prepare(kind) => {
            let new = authority(&names.cluster, *kind, settings, now)?;
            with(*kind, issued.chain(*kind).with_new(new))
        }
        Step::Switch(kind) => with(*kind, issued.chain(*kind).switched(now)),
        Step::Drop(kind) => with(*kind, issued.chain(*kind).dropped(now)),
        Step::Issue(role, _) => {
            let chain = issued.chain(Kind::of(*role));
            let issuer = chain.current.as_ref().or(chain.next.as_ref());
            let issuer = issuer.ok_or_else(|| MintError::without_authority(&names.cluster))?;
            let pair = certificate(*role, names, settings, issuer, now)?;
            Some((Some(*role), leaf_data(*role, &pair, &chain.bundle(now))))
        }
        Step::Publish(role) => {
            let bundle = issued.chain(Kind::of(*role)).bundle(now);
            issued.leaves.get(role).map(|leaf| (Some(*role), leaf_data(*role, &leaf.files.pair, &bundle)))
        }
    })
}

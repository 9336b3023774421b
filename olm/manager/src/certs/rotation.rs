//! The due step, and its effect on the content of a Secret. Pure.

use jiff::Timestamp;

use super::held::{Authority, Held, Pair};
use super::{MOST_AUTHORITIES, PROPAGATION_SECONDS};

/// The state of an endpoint's certificates.
#[derive(Clone, Debug)]
pub(crate) struct Certificates<'a> {
    pub(crate) held: &'a Held,
    /// The authorities that each caller's configuration trusts, for those that exist.
    pub(crate) published: &'a [Vec<Authority>],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no usable certificate: make one and use it at once. The text describes the problem.
    Replace(String),
    /// Make a new authority and certificate next to those in use.
    Prepare,
    /// Publish the authorities to the callers' configurations.
    Publish,
    Switch,
    /// Remove expired authorities and foreign keys from the Secret.
    Drop,
    /// No step is due until that time (seconds since 1970).
    Wait(i64),
}

/// The due step.
///
/// The only state between steps is the Secret and the published authorities, so it does not matter which
/// process took the last step, or whether it completed. At any time a certificate that a pod serves, or has
/// served since the last switch, is trusted by all callers that received its authority: a certificate is used
/// only after every caller trusts its authority, and an authority is removed only when the certificates that
/// it signed have expired with it.
pub(crate) fn next(certificates: &Certificates<'_>, now: Timestamp) -> Step {
    let Certificates { held, published } = certificates;
    let Some(serving) = &held.serving else {
        return Step::Replace(held.fault.clone().unwrap_or_else(|| "no certificate exists".to_owned()));
    };
    if held.foreign_keys || held.authorities.iter().any(|authority| authority.expired(now)) {
        return Step::Drop;
    }
    if published.iter().any(|trusted| !same(trusted, &held.authorities)) {
        return Step::Publish;
    }
    let seconds = now.as_second();
    if let Some(coming) = &held.coming {
        let propagated = coming.made().saturating_add(PROPAGATION_SECONDS);
        return if seconds >= propagated { Step::Switch } else { Step::Wait(propagated) };
    }
    if seconds >= serving.renew_at() {
        return Step::Prepare;
    }
    let ends = held.authorities.iter().map(Authority::end);
    Step::Wait(ends.chain([serving.renew_at()]).min().unwrap_or_else(|| serving.renew_at()))
}

/// Whether both contain the same authorities.
fn same(one: &[Authority], other: &[Authority]) -> bool {
    one.len() == other.len() && one.iter().all(|authority| other.contains(authority))
}

impl Held {
    /// After [`Step::Replace`]. Pods may still serve the previous certificate, so trusted authorities stay
    /// trusted.
    pub(crate) fn replaced(
        &self,
        (authority, pair): (Authority, Pair),
        published: &[Vec<Authority>],
        now: Timestamp,
    ) -> Self {
        let before = self.authorities.iter().chain(published.iter().flatten());
        let authorities = trusted(before.cloned(), Some(authority), now);
        Self { serving: Some(pair), authorities, ..Self::default() }
    }

    /// After [`Step::Prepare`].
    pub(crate) fn prepared(&self, (authority, pair): (Authority, Pair), now: Timestamp) -> Self {
        let authorities = trusted(self.authorities.iter().cloned(), Some(authority), now);
        Self { serving: self.serving.clone(), coming: Some(pair), authorities, ..Self::default() }
    }

    /// After [`Step::Switch`].
    pub(crate) fn switched(&self) -> Self {
        let serving = self.coming.clone().or_else(|| self.serving.clone());
        Self { serving, authorities: self.authorities.clone(), ..Self::default() }
    }

    /// After [`Step::Drop`].
    pub(crate) fn dropped(&self, now: Timestamp) -> Self {
        let authorities = trusted(self.authorities.iter().cloned(), None, now);
        Self { serving: self.serving.clone(), coming: self.coming.clone(), authorities, ..Self::default() }
    }
}

/// Without duplicates and expired ones; of too many, the newest.
fn trusted(
    before: impl Iterator<Item = Authority>,
    new: Option<Authority>,
    now: Timestamp,
) -> Vec<Authority> {
    let mut list: Vec<Authority> = Vec::new();
    for authority in before.filter(|authority| !authority.expired(now)).chain(new) {
        if !list.contains(&authority) {
            list.push(authority);
        }
    }
    let surplus = list.len().saturating_sub(MOST_AUTHORITIES);
    list.drain(..surplus);
    list
}

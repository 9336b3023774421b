//! Which step is due, and what it makes of the content of a Secret: pure.

use jiff::Timestamp;

use super::held::{Authority, Held, Pair};
use super::{MOST_AUTHORITIES, SETTLE_SECONDS};

/// Where an endpoint's certificates stand.
#[derive(Clone, Debug)]
pub(crate) struct Certificates<'a> {
    /// What the Secret holds.
    pub(crate) held: &'a Held,
    /// Whom each of those that call trusts, as far as they are there.
    pub(crate) published: &'a [Vec<Authority>],
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no certificate to serve with: make one and use it at once. The text says what is wrong.
    Replace(String),
    /// Make a new authority and certificate, beside those in use.
    Prepare,
    /// Tell those that call whom to trust.
    Publish,
    /// Use the new certificate.
    Switch,
    /// Forget authorities that have expired, and what does not belong into the Secret.
    Drop,
    /// Nothing; look again at that time (seconds since 1970).
    Wait(i64),
}

/// The step that is due.
///
/// Nothing is remembered between steps but in the Secret and in what is published, so it does not matter who took the last
/// one, or whether it came to its end. At any time a certificate that is shown, or was shown since the last switch, is
/// trusted by all that were told of its authority:
/// a certificate comes into use only after everybody trusts its authority, and an authority goes only when what
/// it signed has expired with it.
pub(crate) fn next(certificates: &Certificates<'_>, now: Timestamp) -> Step {
    let Certificates { held, published } = certificates;
    let Some(serving) = &held.serving else {
        return Step::Replace(held.fault.clone().unwrap_or_else(|| "no certificate exists".to_owned()));
    };
    if held.litter || held.authorities.iter().any(|authority| authority.expired(now)) {
        return Step::Drop;
    }
    if published.iter().any(|trusted| !same(trusted, &held.authorities)) {
        return Step::Publish;
    }
    let seconds = now.as_second();
    if let Some(coming) = &held.coming {
        let settled = coming.made().saturating_add(SETTLE_SECONDS);
        return if seconds >= settled { Step::Switch } else { Step::Wait(settled) };
    }
    if seconds >= serving.renew_at() {
        return Step::Prepare;
    }
    let ends = held.authorities.iter().map(Authority::end);
    Step::Wait(ends.chain([serving.renew_at()]).min().unwrap_or_else(|| serving.renew_at()))
}

/// Whether both trust the same.
fn same(one: &[Authority], other: &[Authority]) -> bool {
    one.len() == other.len() && one.iter().all(|authority| other.contains(authority))
}

impl Held {
    /// After [`Step::Replace`]. Pods may still show what was there before, so those that are trusted stay trusted.
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

/// Each once, without those that have expired; of too many, the newest.
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

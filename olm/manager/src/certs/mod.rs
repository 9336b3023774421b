//! Certificates of what the API server calls in operators: made, read, and renewed without anybody noticing.
//!
//! Each certificate is signed by an authority of its own, whose key is thrown away at once: nobody can sign anything with
//! it later, and a new certificate always comes with a new authority. So renewing is a hand-over between two authorities:
//!
//! 1. [`Step::Prepare`]: a new authority and certificate are made and kept in the Secret beside those in use;
//! 2. [`Step::Publish`]: whoever calls learns to trust both authorities;
//! 3. [`Step::Switch`]: the new certificate takes the old one's place in the Secret, and the pods pick it up;
//! 4. [`Step::Drop`]: the old authority goes once it has expired. Until then a pod that still shows the old
//!    certificate is trusted, however late it reads the new one.
//!
//! [`next`] says from what is there which step is due, so a process that is killed between two of them, or within one,
//! carries on where it stands. Nothing here talks to a cluster.

mod held;
mod mint;
mod rotation;

pub(crate) use held::{Authority, Held, Pair};
pub(crate) use mint::mint;
pub(crate) use rotation::{Certificates, Step, next};

/// How long certificates and their authorities are valid: two years, as upstream.
pub(crate) const VALIDITY_DAYS: i64 = 730;
/// How long before its end a certificate is renewed: so long that a manager may be away for weeks, and that a pod that
/// reads its certificate only when it starts is likely to have started again.
pub(crate) const RENEW_BEFORE_DAYS: i64 = 60;
/// Clocks of machines differ by less; a certificate is valid that long before it was made.
pub(crate) const BACKDATE_SECONDS: i64 = 300;
/// How long after a new authority was made its certificate comes into use: servers hear of a change of what they trust
/// within seconds.
pub(crate) const SETTLE_SECONDS: i64 = 300;
/// Authorities that are published together at the most. Two are enough for a hand-over; more come of Secrets that
/// somebody destroyed again and again.
pub(crate) const MOST_AUTHORITIES: usize = 8;

#[cfg(test)]
mod tests;

//! Certificates of the endpoints that the API server calls in operators: creation, validation and renewal
//! without downtime.
//!
//! Each certificate is signed by its own authority, whose key is dropped at once: nothing can be signed
//! with it later, and a new certificate always has a new authority. So a renewal is a transition between two
//! authorities:
//!
//! 1. [`Step::Prepare`]: a new authority and certificate are stored in the Secret next to those in use;
//! 2. [`Step::Publish`]: the callers' configurations trust both authorities;
//! 3. [`Step::Switch`]: the new certificate replaces the old one in the Secret, and the pods read it;
//! 4. [`Step::Drop`]: the old authority is removed once it has expired. Until then a pod that still serves
//!    the old certificate is trusted, however late it reads the new one.
//!
//! [`next`] derives the due step from the current state, so a process that is killed between two steps, or
//! within one, resumes. This module has no client.

mod held;
mod issue;
mod rotation;

pub(crate) use held::{Authority, Held, Pair};
pub(crate) use issue::issue;
pub(crate) use rotation::{Certificates, Step, next};

/// Validity of certificates and their authorities: two years, as upstream.
pub(crate) const VALIDITY_DAYS: i64 = 730;
/// How long before its expiry a certificate is renewed: long enough for a manager that is down for weeks, and
/// for a pod that reads its certificate only at its start to be restarted.
pub(crate) const RENEW_BEFORE_DAYS: i64 = 60;
/// Maximum clock skew between machines; certificates are backdated by it.
pub(crate) const BACKDATE_SECONDS: i64 = 300;
/// Delay between the creation of a new authority and the use of its certificate: servers reload their
/// trust within seconds.
pub(crate) const PROPAGATION_SECONDS: i64 = 300;
/// Maximum number of authorities that are published together. Two are enough for a renewal; more result from
/// a Secret that is destroyed repeatedly.
pub(crate) const MOST_AUTHORITIES: usize = 8;

#[cfg(test)]
mod tests;

//! What an operator may do, and how much harm that can do.
//!
//! [`Rights::of`] reads rendered objects: roles with what binds them, roles that add to others or that nothing binds, webhooks, and
//! the pods of Deployments. [`Rights::rules`]
//! puts them in words, each with a [`Level`] and the reason for it; [`Rights::beyond`] says what one version may do and
//! another may not. [`score`](mod@score) makes one number of it, [`percentile`] compares that with others, and [`risk`] is the
//! score of a bundle that is installed in the way it is installed when nobody says otherwise.

mod grade;
mod loose;
mod pods;
mod rights;
mod score;
mod webhooks;
mod words;

pub use grade::{Level, PermissionRule};
pub use rights::Rights;
pub use score::{percentile, risk, score};

#[cfg(test)]
mod tests;

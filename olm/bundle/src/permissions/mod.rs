//! Rights of an operator and their risk.
//! [`Rights::of`] reads rendered objects: roles with their bindings, aggregated and unbound roles, webhooks,
//! and the pods of Deployments. [`Rights::rules`] describes them, each with a [`Level`] and its reason;
//! [`Rights::beyond`] lists the rights of one version that another lacks. [`score`](mod@score) summarizes
//! them in one number, [`percentile`] compares it with others, and [`risk`] is the score of a bundle in its
//! default installation.

mod describe;
mod grade;
mod loose;
mod pods;
mod right;
mod rights;
mod score;
mod webhooks;

pub use grade::{Level, PermissionRule, level};
pub use rights::Rights;
pub use score::{default_rules, percentile, risk, score};

#[cfg(test)]
mod tests;

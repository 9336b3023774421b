//! Controllers that turn subscriptions into running operators, and the one engine behind every change.
//!
//! * [`run`]: all controllers and the HTTP port, until shutdown
//! * [`manifests`]: everything that puts `olm` on a cluster
//! * [`engine`]: what a Subscription would change, as a plan
//! * [`ops`]: what console buttons and commands do: install, approve, upgrade, uninstall, list, status
//! * [`catalogs`]: catalogs, their bundles, and reading both from outside the manager

mod backoff;
pub mod catalogs;
mod context;
mod controllers;
pub mod engine;
mod http;
mod lease;
pub mod manifests;
mod metrics;
pub mod ops;
mod ownership;
mod resources;
mod run;
#[cfg(test)]
mod testing;

pub use resources::ResourceError;
pub use run::{Error, Options, run};

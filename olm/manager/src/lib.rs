//! Controllers that turn subscriptions into running operators, and the one engine behind every change.
//!
//! * [`run`](mod@run): all controllers and the HTTP port, until shutdown
//! * [`manifests`]: everything that puts `olm` on a cluster
//! * [`engine`]: what a Subscription would change, as a plan
//! * [`ops`]: what console buttons and commands do: install, approve, upgrade, uninstall, list, status
//! * [`catalogs`]: catalogs, their bundles, and reading both from outside the manager

mod adoption;
mod attenuated;
mod audit;
pub mod authority;
mod backoff;
pub mod catalogs;
mod certs;
mod clock;
mod context;
mod controllers;
pub mod engine;
#[cfg(test)]
mod events;
mod fence;
mod guard;
mod health;
mod http;
mod lease;
mod limits;
mod lists;
pub mod manifests;
mod metadata;
mod metrics;
pub mod ops;
mod ownership;
mod packages;
mod resources;
mod reviews;
mod run;
mod runner;
mod secure;
mod stores;
#[cfg(test)]
mod testing;
mod undeclared;

pub use resources::ResourceError;
pub use run::{Error, Options, run};

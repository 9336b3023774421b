//! The manager: the controllers of `operators.coreos.com`, and the ports for catalogs, metrics, webhooks and
//! the PackageManifests API. Engine and operations are crates of their own (`olm-engine`, `olm-ops`).

mod adoption;
mod audit;
mod authority;
mod backoff;
mod cache;
mod certs;
mod context;
mod controllers;
mod definitions;
#[cfg(test)]
mod events;
mod fenced_client;
mod health;
mod http;
mod metrics;
mod packages;
mod reviews;
mod run;
mod runner;
mod secure;
#[cfg(test)]
mod testing;

pub use run::{Error, Options, run};

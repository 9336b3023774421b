//! The manager: the controllers of `operators.coreos.com`, and the port that serves catalogs, metrics and webhooks.

mod adoption;
mod audit;
mod authority;
mod backoff;
mod certs;
mod clock;
mod context;
mod controllers;
#[cfg(test)]
mod events;
mod fence;
mod guard;
mod health;
mod http;
mod lease;
mod metrics;
mod packages;
mod reviews;
mod run;
mod runner;
mod secure;
mod stores;
#[cfg(test)]
mod testing;

pub use run::{Error, Options, run};

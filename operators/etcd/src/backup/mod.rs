//! `EtcdBackup`: snapshots of etcd clusters, once or periodically.
//!
//! Reconciliation of an object: [`schedule`] decides when, [`source`] from which member, [`run`](mod@run)
//! writes the snapshot to the store, [`status`] reports it. Schedule and source are pure; only [`controller`]
//! uses Kubernetes.

mod board;
mod controller;
mod numbers;
pub(crate) mod run;
mod schedule;
pub(crate) mod source;
mod status;
#[cfg(test)]
pub(crate) mod tests;

pub use board::Board;
pub(crate) use board::of_backup;
pub(crate) use controller::open;
pub use controller::run;
pub use numbers::Numbers;

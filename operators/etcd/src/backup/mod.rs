//! `EtcdBackup`: snapshots of etcd clusters, taken once or again and again.
//!
//! One look at an object: [`schedule`] says when, [`source`] from which member, [`run`](mod@run) brings the snapshot into the
//! store, [`status`] tells of it. Schedule and source are pure; [`controller`] alone talks to Kubernetes.

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

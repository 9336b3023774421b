//! `EtcdBackup`: snapshots of etcd clusters, once or periodically.
//!
//! Reconciliation of an object: [`schedule`] decides when, [`source`] from which member, [`run`](mod@run)
//! writes the snapshot to the store, [`status`] reports it. Schedule and source are pure; only [`controller`]
//! uses Kubernetes.

mod controller;
mod metrics;
pub(crate) mod run;
mod schedule;
pub(crate) mod source;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod views;

pub(crate) use controller::open;
pub use controller::run;
pub use metrics::BackupMetrics;
pub use views::BackupViews;
pub(crate) use views::of_backup;

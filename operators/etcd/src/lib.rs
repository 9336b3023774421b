//! The etcd operator: reconciles `EtcdCluster` objects with etcd members.
//!
//! A reconciliation passes these files: [`validate`] → `observe` → [`plan`] → `apply` → [`status`]. All
//! decisions are pure: [`validate`], [`plan`] and [`status`] use neither Kubernetes nor etcd.

pub mod addressing;
mod apply;
pub mod backup;
mod build;
pub mod calls;
mod conditions;
pub mod controller;
pub mod crd;
mod disk;
pub mod disruption;
pub mod etcd;
mod events;
pub mod http;
pub mod lease;
pub mod maintenance;
pub mod metrics;
mod names;
mod observe;
pub mod observed;
pub mod plan;
pub mod restore;
pub mod status;
pub mod storage;
mod survivor;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod validate;
mod watch;

//! The etcd operator: keeps `EtcdCluster` objects served by etcd members.
//!
//! One look at a cluster goes through these files: [`validate`] → `dereference` → [`plan`] → `apply` → [`status`].
//! All decisions are pure; `dereference`, `apply` and `controller` alone talk to Kubernetes, [`etcd`] alone to etcd.

pub mod addressing;
mod apply;
pub mod backup;
mod build;
pub mod calls;
mod conditions;
pub mod controller;
pub mod crd;
mod dereference;
mod disk;
pub mod disruption;
pub mod etcd;
mod events;
pub mod http;
pub mod lease;
pub mod maintenance;
pub mod metrics;
mod names;
pub mod observed;
pub mod plan;
#[cfg(test)]
mod real_etcd;
#[cfg(test)]
mod real_secured;
pub mod restore;
pub mod status;
pub mod storage;
mod survivor;
pub mod tls;
pub mod validate;
mod watch;

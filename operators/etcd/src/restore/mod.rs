//! `EtcdRestore`: a snapshot, or the data on the claim of a member that survived, takes the place of what an EtcdCluster holds; the
//! object, its name and its Services stay.
//!
//! [`plan`] decides, one step at a time; [`observe`] reads, [`apply`] writes, [`controller`] runs them in turn. The
//! snapshot is read from its store by the operator alone: [`serve`](mod@serve) hands it to the first member's pod, where [`fetch`]
//! runs in our own image, because stores may be reachable, or mounted, for the operator only.

mod apply;
mod claim;
mod controller;
pub mod fetch;
#[cfg(test)]
mod model;
mod observe;
mod place;
mod plan;
#[cfg(test)]
mod real;
mod seed;
mod serve;
#[cfg(test)]
mod tests;
mod verify;

pub use controller::run;
pub use place::Place;
pub use serve::serve;
#[cfg(test)]
pub(crate) use verify::verify as verify_for_tests;

/// Annotation on EtcdClusters: ids that their etcd cluster had before restores, with commas.
pub(crate) const ANNOTATION_FORMER: &str = "etcd.database.coreos.com/former-cluster-ids";
/// Label on pods in which etcd runs on a copy of a claim's data, alone: uid of the EtcdRestore. They are no members, and no Service
/// leads to them.
pub(crate) const LABEL_RESTORED_BY: &str = "etcd.database.coreos.com/restored-by";
/// Finalizer on EtcdRestores while they hold a cluster: one that goes gives the cluster back first.
pub(crate) const FINALIZER: &str = "etcd.database.coreos.com/restore";

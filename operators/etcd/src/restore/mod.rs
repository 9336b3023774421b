//! `EtcdRestore`: replaces the data of an EtcdCluster by a snapshot, or by the data on the claim of a
//! surviving member; the object, its name and its Services stay. [`plan`] decides, one step at a time;
//! [`observe`] reads, [`apply`] writes, [`controller`] runs them in turn.
//!
//! Only the operator reads the snapshot from its store: [`serve`](mod@serve) passes it to the first member's
//! pod, where [`fetch`] runs in the operator's image, because stores may be reachable, or mounted, for the
//! operator only.

mod apply;
mod claim;
mod controller;
pub mod fetch;
mod observe;
mod place;
mod plan;
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

/// Annotation on EtcdClusters: comma-separated etcd cluster ids from before restores.
pub(crate) const ANNOTATION_FORMER: &str = "etcd.database.coreos.com/former-cluster-ids";
/// Label on pods in which etcd runs alone on a copy of a claim's data: uid of the EtcdRestore. They are not
/// members, and no Service selects them.
pub(crate) const LABEL_RESTORED_BY: &str = "etcd.database.coreos.com/restored-by";
/// Finalizer on EtcdRestores while they hold a cluster: deletion releases the cluster first.
pub(crate) const FINALIZER: &str = "etcd.database.coreos.com/restore";

//! A whole lifecycle in one process: the API server's router, the controllers of a cluster, a kubelet that only pretends,
//! and the manager between whose calls and the API a layer counts and fails what it is told to.
//!
//! * [`World`]: all of it; scenarios use nothing but its client
//! * [`Faults`]: what is counted, and what goes wrong
//! * [`Endpoint`]: what an operator would serve
//! * [`Operator`], [`Catalog`]: bundles and catalogs of them, made up
//! * [`Snapshot`]: every object of the cluster, without what differs from run to run

mod catalog;
mod endpoint;
mod faults;
mod kubelet;
mod manager;
mod operator;
mod snapshot;
mod world;

pub use catalog::{Catalog, Entry, entry};
pub use endpoint::Endpoint;
pub use faults::{Call, Fault, Faults};
pub use kubelet::{Fate, Kubelet};
pub use manager::Manager;
pub use operator::{Operator, crd};
pub use snapshot::Snapshot;
pub use world::{MANAGER, OLM, PATIENCE, World, condition, text};

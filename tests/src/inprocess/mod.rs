//! A complete lifecycle in one process: the API server's router, the controllers of a cluster, a simulated
//! kubelet, and the manager; a layer between the manager and the API counts calls and injects faults.
//!
//! * [`World`]: all parts; scenarios use only its client
//! * [`Faults`]: counted calls and injected faults
//! * [`Endpoint`]: the HTTPS servers of an operator
//! * [`Operator`], [`Catalog`]: generated bundles and catalogs
//! * [`Registry`]: a registry with their images
//! * [`Served`], [`Process`]: the API at a port, and managers as separate processes
//! * [`Replicas`]: two manager processes, one of them the leader
//! * [`Snapshot`]: every object of the cluster, without the fields that differ from run to run

mod catalog;
mod endpoint;
mod faults;
mod kubelet;
mod manager;
mod operator;
mod registry;
pub mod replicas;
mod served;
mod server;
mod snapshot;
mod users;
mod waiting;
mod world;

pub use catalog::{Catalog, Entry, entry};
pub use endpoint::Endpoint;
pub use faults::{Call, Fault, Faults, objects};
pub use kubelet::{Fate, Kubelet};
pub use manager::Manager;
pub use operator::{Operator, crd};
pub use registry::Registry;
pub use replicas::Replicas;
pub use served::{Process, Ran, Served};
pub use server::{assets, local_address};
pub use snapshot::{Snapshot, of_cluster};
pub use waiting::{PATIENCE, condition, text};
pub use world::{MANAGER, OLM, World};

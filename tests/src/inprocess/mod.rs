//! A whole lifecycle in one process: the API server's router, the controllers of a cluster, a kubelet that only pretends,
//! and the manager between whose calls and the API a layer counts and fails what it is told to.
//!
//! * [`World`]: all of it; scenarios use nothing but its client
//! * [`Faults`]: what is counted, and what goes wrong
//! * [`Endpoint`]: what an operator would serve
//! * [`Operator`], [`Catalog`]: bundles and catalogs of them, made up
//! * [`Registry`]: images of them
//! * [`Served`], [`Process`]: the API at a port, and managers that are processes of their own
//! * [`Replicas`]: two of these, one of which leads
//! * [`Snapshot`]: every object of the cluster, without what differs from run to run

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
pub use served::{Process, Served};
pub use server::{assets, local_address};
pub use snapshot::{Snapshot, of_cluster};
pub use waiting::{PATIENCE, condition, text};
pub use world::{MANAGER, OLM, World};

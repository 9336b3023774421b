//! A test environment for the etcd operator, in one process: the API server and the controllers of the dev
//! cluster, the operator, and a kubelet that runs each member pod as a real etcd process at a separate
//! loopback address.
//!
//! * [`Stage`]: the environment; [`Handle`]: one EtcdCluster in it
//! * [`Net`]: addresses; traffic between members passes through [`wire`], which can cut and delay it
//! * [`Kubelet`]: pods as processes: killed, stopped, wiped, delayed
//! * [`Endpoints`]: what a node sends the clients of a Service to
//! * [`Operator`]: one operator process; it can be killed and frozen
//! * [`Audit`]: every membership change that an operator requests from etcd, judged by the state at that moment
//! * [`facts`]: the members' own state

pub mod audit;
mod clock;
mod endpoints;
mod entry;
pub mod facts;
mod grpc;
mod handle;
mod images;
mod init;
mod kubelet;
mod net;
mod operator;
mod pod;
mod pod_status;
/// The S3 server of the operator's own tests.
#[path = "../../../operators/etcd/src/storage/tests/s3.rs"]
pub mod s3;
mod stage;
mod store;
mod tricks;
mod volumes;
pub mod wire;

pub use audit::{Audit, Rpc};
pub use clock::ClockOffset;
pub use endpoints::Endpoints;
pub use entry::Entry;
pub use handle::{Handle, condition, settled};
pub use images::newer;
pub(crate) use images::{Etcds, target, version_of};
pub use kubelet::{Kubelet, Start};
pub use net::Net;
pub use operator::{Controllers, Operator};
pub use stage::{PATIENCE, Stage};

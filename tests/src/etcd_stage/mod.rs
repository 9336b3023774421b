//! A stage for the etcd operator, in one process: the API server and the controllers of the dev cluster, the operator, and a
//! kubelet that runs each pod of a member as a real etcd process at a loopback address of its own.
//!
//! * [`Stage`]: all of it; [`Handle`]: one EtcdCluster on it
//! * [`Net`]: who has which address; everything between members goes over [`wire`], where it can be cut and slowed down
//! * [`Kubelet`]: pods as processes: killed, stopped, wiped, held back
//! * [`Operator`]: one life of an operator; it can be killed and frozen
//! * [`Audit`]: every change of membership that an operator asks etcd for, judged by what holds at that moment
//! * [`facts`]: what members say for themselves

pub mod audit;
mod clock;
mod entry;
pub mod facts;
mod grpc;
mod images;
mod init;
mod kubelet;
mod net;
mod operator;
mod pod;
/// The S3 server of the operator's own tests.
#[path = "../../../operators/etcd/src/storage/tests/s3.rs"]
pub mod s3;
mod stage;
mod store;
mod told;
mod tricks;
mod volumes;
pub mod wire;

pub use audit::{Audit, Rpc};
pub use clock::Ahead;
pub use entry::Entry;
pub use images::newer;
pub(crate) use images::target;
pub use kubelet::{Kubelet, Start};
pub use net::Net;
pub use operator::{Duties, Operator};
pub use stage::{Handle, PATIENCE, Stage, condition, settled};

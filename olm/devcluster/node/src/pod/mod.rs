//! One pod: its worker, its decisions, and its status.

pub(crate) mod decide;
mod grpc_health;
pub(crate) mod launch;
pub(crate) mod probe;
pub(crate) mod status;
pub(crate) mod worker;

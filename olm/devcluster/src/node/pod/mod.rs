//! One pod: its worker, what it decides, and what it reports.

pub(crate) mod decide;
mod grpc_health;
pub(crate) mod launch;
pub(crate) mod probe;
pub(crate) mod status;
pub(crate) mod worker;

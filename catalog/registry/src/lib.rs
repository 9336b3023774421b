//! The gRPC API of operator catalogs, `api.Registry`: messages, client and server.
//!
//! OLM, `grpcurl` and catalog images (`opm serve`, port 50051) use this API. `proto/registry.proto` documents it;
//! this crate only has generated code, and its users implement the calls.
//!
//! - client: [`registry_client::RegistryClient`], [`experimental_registry_client::ExperimentalRegistryClient`];
//! - server: [`registry_server::Registry`] with [`registry_server::RegistryServer`], and their experimental counterparts;
//! - [`FILE_DESCRIPTOR_SET`] for server reflection, [`ACKNOWLEDGE_EXPERIMENTAL`] for the experimental service.

// Generated (`make protos`): its descriptions come from the proto file, which documents what needs it.
#[allow(clippy::all, clippy::pedantic, clippy::unwrap_used, rust_2018_idioms)]
#[rustfmt::skip]
mod generated;

pub use generated::*;
/// `google.protobuf.Struct`, the answer of the experimental service, and related types.
pub use prost_types::{ListValue, NullValue, Struct, Value, value::Kind};

/// The encoded `FileDescriptorSet` of the API and of its imports.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("registry.bin");

/// The metadata key that a call of the experimental service must carry with the value `true`; without it the
/// answer is empty.
pub const ACKNOWLEDGE_EXPERIMENTAL: &str = "x-acknowledge-experimental";

#[cfg(test)]
mod tests;

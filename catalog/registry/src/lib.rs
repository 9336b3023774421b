//! The gRPC API of operator catalogs, `api.Registry`: messages, client and server.
//!
//! It is what OLM, `grpcurl` and catalog images (`opm serve`, port 50051) speak. `proto/registry.proto`
//! describes it; this crate only generates, what the calls mean is in the crates that use it.
//!
//! - client: [`registry_client::RegistryClient`], [`experimental_registry_client::ExperimentalRegistryClient`];
//! - server: [`registry_server::Registry`] with [`registry_server::RegistryServer`], and the experimental twins;
//! - [`FILE_DESCRIPTOR_SET`] for server reflection, [`ACKNOWLEDGE_EXPERIMENTAL`] for the experimental service.

// Generated: the descriptions are those of the proto file, which documents what needs it.
#[allow(clippy::all, clippy::pedantic, clippy::unwrap_used, rust_2018_idioms)]
mod generated {
    tonic::include_proto!("api");
}

pub use generated::*;
/// `google.protobuf.Struct`, what the experimental service answers with, and its relatives.
pub use prost_types::{ListValue, NullValue, Struct, Value, value::Kind};

/// The encoded `FileDescriptorSet` of the API and of the types that it imports.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("registry");

/// The metadata key that a call of the experimental service must carry with the value `true`;
/// without it the answer is empty.
pub const ACKNOWLEDGE_EXPERIMENTAL: &str = "x-acknowledge-experimental";

#[cfg(test)]
mod tests;

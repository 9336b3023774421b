//! A single-machine Kubernetes for development and tests.
//!
//! * [`machinery`]: pure rules over `serde_json::Value`: schemas, patches, server-side apply, OpenAPI, CRDs
//! * [`api`]: the API server: storage, REST, watches, discovery, identity and authorization
//! * [`controllers`]: built-in controllers: Deployments, Services, namespaces, garbage collection and others
//! * [`node`]: runs a pod's containers as processes in separate namespaces, with network, proxy and DNS
//! * [`backend`]: interface of the API server to the node
//! * [`fault`]: fault injection into pods
//! * [`private`]: files that only their owner can read
//! * [`rights`]: recorded requests of ServiceAccounts

#![deny(missing_docs)]

pub mod api;
pub mod backend;
mod cluster;
pub mod controllers;
pub mod fault;
pub mod machinery;
pub mod node;
pub mod private;
pub mod rights;

/// The minor version in [`KUBERNETES_VERSION`].
pub(crate) const KUBERNETES_MINOR: u64 = 33;

/// The reported Kubernetes version: the API of that release, as far as it is implemented.
pub(crate) const KUBERNETES_VERSION: &str = concat!("v1.33.0+olm.", env!("CARGO_PKG_VERSION"));

/// The `provisioner` of this cluster's StorageClass.
pub(crate) const PROVISIONER: &str = "olm.dev/host-path";

pub use cluster::{DevCluster, DevClusterConfig, StartError};

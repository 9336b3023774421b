//! A one-machine Kubernetes for trying and testing.
//!
//! * [`machinery`]: pure rules over `serde_json::Value`: schemas, patches, server-side apply, OpenAPI, CRDs
//! * [`api`]: the API server: storage, REST, watches, discovery, identity and authorization
//! * [`controllers`]: what Deployments, Services, namespaces and garbage collection need
//! * [`node`]: runs a pod's containers as processes in namespaces of their own, with network, proxy and DNS
//! * [`backend`]: what the API server asks of the node
//! * [`fault`]: faults in pods on purpose
//! * [`private`]: files that only their owner may read
//! * [`rights`]: what ServiceAccounts asked for

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

/// The Kubernetes version that the dev cluster calls itself: the API as of that release, as far as it goes.
pub(crate) const KUBERNETES_VERSION: &str = concat!("v1.33.0+olm.", env!("CARGO_PKG_VERSION"));

/// Who makes the volumes of this cluster: the `provisioner` of its StorageClass.
pub(crate) const PROVISIONER: &str = "olm.dev/host-path";

pub use cluster::{DevCluster, DevClusterConfig, StartError};

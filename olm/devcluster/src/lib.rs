//! A single-machine Kubernetes for development and tests. This crate assembles it, and re-exports the parts
//! that other crates use:
//!
//! * [`api`]: the API server: storage, REST, watches, discovery, identity and authorization
//! * [`controllers`]: built-in controllers: Deployments, Services, namespaces, garbage collection and others
//! * [`node`]: runs a pod's containers as processes in separate namespaces, with network, proxy and DNS
//! * [`backend`]: interface of the API server to the node
//! * [`fault`]: fault injection into pods
//! * [`private`]: files that only their owner can read
//! * [`rights`]: recorded requests of ServiceAccounts

#![deny(missing_docs)]

mod cluster;

pub use cluster::{DevCluster, DevClusterConfig, StartError};
pub use olm_devcluster_apiserver as api;
pub use olm_devcluster_apiserver::rights;
pub use olm_devcluster_controllers as controllers;
pub use olm_devcluster_machinery::{backend, fault, private};
pub use olm_devcluster_node as node;

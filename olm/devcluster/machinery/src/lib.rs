//! Shared parts of the API server, the controllers and the node of the dev cluster.
//!
//! The rules of the Kubernetes API, as pure functions over `serde_json::Value`, independent of storage, HTTP
//! and time: the API server supplies the input and stores the result.
//!
//! * [`field_error`]: field errors and their `Status` objects, in Kubernetes' wording
//! * [`schema`]: structural schemas (those of `olm-kube-schema`)
//! * [`crd`]: CustomResourceDefinition objects: validation, names, versions, status
//! * [`layout`]: which lists are maps or sets, for built-in and custom types
//! * [`patch`]: JSON patch, merge patch, strategic merge patch
//! * [`ssa`]: server-side apply and `metadata.managedFields`
//! * [`openapi`]: OpenAPI documents, and unknown fields of built-in types
//! * [`quota`]: usage of ResourceQuotas; [`limits`]: defaults and checks of LimitRanges
//!
//! The contract between API server and node:
//!
//! * [`backend`]: what the API server requests of the node
//! * [`fault`]: fault injection into pods, and the client for it
//! * [`private`]: files that only their owner can read
//! * [`accept_any`]: TLS to servers that are not verified

#![deny(missing_docs)]

pub mod accept_any;
pub mod backend;
pub mod crd;
pub mod fault;
pub mod field_error;
pub mod layout;
pub mod limits;
pub mod openapi;
pub mod patch;
pub mod private;
pub mod quota;
pub mod ssa;

pub use olm_kube_schema::schema;

macro_rules! minor {
    () => {
        36
    };
}

/// The minor version in [`KUBERNETES_VERSION`].
pub const KUBERNETES_MINOR: u64 = minor!();

/// The reported Kubernetes version: the API of that release, as far as it is implemented.
pub const KUBERNETES_VERSION: &str = concat!("v1.", minor!(), ".0+olm.", env!("CARGO_PKG_VERSION"));

/// The `provisioner` of this cluster's StorageClass.
pub const PROVISIONER: &str = "olm.dev/host-path";

//! The rules of the Kubernetes API, as pure functions over `serde_json::Value`.
//!
//! This module is independent of storage, HTTP and time: the API server supplies the input and stores the
//! result.
//!
//! * [`field_error`]: field errors and their `Status` objects, in Kubernetes' wording
//! * [`schema`]: structural schemas (those of `olm-kube-schema`)
//! * [`crd`]: CustomResourceDefinition objects: validation, names, versions, status
//! * [`layout`]: which lists are maps or sets, for built-in and custom types
//! * [`patch`]: JSON patch, merge patch, strategic merge patch
//! * [`ssa`]: server-side apply and `metadata.managedFields`
//! * [`openapi`]: OpenAPI documents, and unknown fields of built-in types
//! * [`quota`]: usage of ResourceQuotas; [`limits`]: defaults and checks of LimitRanges

pub mod crd;
pub mod field_error;
pub mod layout;
pub mod limits;
pub mod openapi;
pub mod patch;
pub mod quota;
pub mod ssa;

pub use olm_kube_schema::schema;

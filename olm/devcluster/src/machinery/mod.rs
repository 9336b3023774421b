//! The rules of the Kubernetes API, as pure functions over `serde_json::Value`.
//!
//! Nothing here knows about storage, HTTP or time: the API server passes in what it has and stores what it gets.
//!
//! * [`field_error`]: errors on fields and the `Status` objects made of them, in Kubernetes' wording
//! * [`schema`]: structural schemas (those of `olm-crd`)
//! * [`crd`]: CustomResourceDefinition objects: validation, names, versions, status
//! * [`layout`]: which lists are maps or sets, for built-in and custom types
//! * [`patch`]: JSON patch, merge patch, strategic merge patch
//! * [`ssa`]: server-side apply and `metadata.managedFields`
//! * [`openapi`]: OpenAPI documents, and unknown fields of built-in types
//! * [`quota`]: what objects use of a ResourceQuota; [`limits`]: what a LimitRange makes of them

pub mod crd;
pub mod field_error;
pub mod layout;
pub mod limits;
pub mod openapi;
pub mod patch;
pub mod quota;
pub mod ssa;

pub use olm_crd::schema;

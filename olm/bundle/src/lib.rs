//! `registry+v1` bundles: one version of one operator as manifests and metadata.
//!
//! - [`Bundle::from_dir`] and [`Bundle::from_objects`] read one ([`load`] in the source);
//! - [`Bundle::validate`] says what is wrong with it, finding by finding;
//! - [`render`] turns it into the objects that install it, in phases.
//!
//! Nothing here talks to a cluster; only `from_dir` touches the disk.

mod csv;
mod error;
mod kinds;
mod load;
mod model;
mod properties;
mod render;
mod validate;
pub mod yaml;

pub use csv::{CrdRef, InstallMode, InstallModes};
pub use error::{BundleError, Place, RenderError};
pub use kinds::{Scope, scope_of};
pub use model::{Bundle, Property};
pub use properties::{Gvk, PackageRequirement, bundle_properties};
pub use render::{Phase, RenderOptions, Rendered, render};
pub use validate::{Finding, ImageKind, Severity, sniff};

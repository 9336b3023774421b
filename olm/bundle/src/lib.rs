//! `registry+v1` bundles: one version of one operator as manifests and metadata.
//!
//! - [`Bundle::from_dir`], [`Bundle::from_files`] and [`Bundle::from_objects`] read one;
//! - [`Bundle::validate`] reports all defects as findings; [`check_dir`] and [`check_files`] also report unreadable
//!   files;
//! - [`render_fbc`] renders the document for a file-based catalog;
//! - [`render`](mod@render) renders the objects that install it, in phases;
//! - [`permissions`] grades the rights of these objects.
//!
//! This crate uses no cluster; only `from_dir` and `check_dir` access the disk. No input takes more memory than
//! [`yaml::MEMORY_FACTOR`] times its size (and one MiB for each file), and none is read beyond fixed limits: 16 MiB a
//! file, 64 MiB a bundle, 2,000 files a directory, 96 levels and a million values a document, 1,000 findings.

mod csv;
mod error;
mod fbc;
pub mod fields;
mod finding;
mod images;
mod kinds;
mod load;
mod model;
pub mod permissions;
mod properties;
mod provenance;
mod render;
mod validate;
pub mod yaml;

pub use csv::{CrdRef, InstallMode, InstallModes};
pub use error::{BundleError, Place, RenderError};
pub use fbc::{Manifests, csv_metadata, related_images, render_fbc, render_fbc_with};
pub use images::pulled_images;
pub use kinds::{Phase, Scope, scope_of};
pub use model::{Bundle, Property};
pub use olm_constraint::Gvk;
pub use properties::{PackageRequirement, bundle_properties};
pub use render::{
    CaPlace, Endpoint, Fault, Manifest, Problem, RenderOptions, Rendered, crd_of_role, group_roles, gvk_hash,
    hold_conversion_back, render,
};
pub use validate::{
    Checked, Finding, ImageKind, Options, Severity, Suite, SuiteError, check_dir, check_files,
    check_package_manifest, image_reference, sniff,
};

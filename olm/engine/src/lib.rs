//! The plan engine: what a Subscription would change on a cluster, as a plan.
//!
//! * [`preview()`], [`resolve`], [`evaluate`]: request, snapshot, resolution, rendered objects, plan
//! * [`offline`]: the same without a cluster
//! * [`catalogs`]: catalogs, their bundles, and reading both through the manager
//! * [`ownership`]: which objects a version owns; [`resources`]: any kind of object by its manifest
//! * [`site`]: names of an installation of olm
//! * [`limits`]: bounds of what is written

pub mod accounts;
mod along;
mod basis;
mod build;
pub mod catalogs;
mod change_cache;
mod channel;
mod cluster_facts;
pub mod installed;
pub mod limits;
pub mod offline;
pub mod ownership;
pub mod policies;
mod prepared;
mod preview;
mod refusal;
mod request;
pub mod resources;
pub mod signatures;
pub mod site;
mod snapshot;
pub mod targets;
mod undeclared;

pub use along::recorded_along;
pub use basis::Basis;
pub use change_cache::ChangeCache;
pub use prepared::prepared;
pub use preview::{
    Change, Outcome, build_outcome, bundle_of, catalog_content_hash, check_catalog_visible, choose, evaluate,
    install_modes, preview, preview_in_group, preview_under, resolve, restore_annotations, resume_change,
    source_of,
};
pub use refusal::{CATALOG_OUT_OF_SIGHT, Refusal};
pub use snapshot::{Snapshot, Snapshots, Watched, package_of, read_live};

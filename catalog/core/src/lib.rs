//! Catalogs: file-based catalog model, loader, checks, store, search and build.
//!
//! - [`Catalog::load_dir`] and [`Catalog::from_bytes`] read one, leniently: each defect becomes a [`Problem`],
//!   everything else loads; [`Catalog::check`] only reports problems;
//! - [`Store`] keeps catalogs on disk, so that memory holds no more than their indexes;
//! - [`Catalog::summaries`], [`Catalog::search`] and the `nearest_*` functions find packages,
//!   [`Catalog::package`] reads one;
//! - [`build`] builds one from a directory of bundles;
//! - [`shipped`](mod@shipped) is built into this program, [`relocated`] with other images.

mod assemble;
mod assembly;
pub mod build;
mod canonical;
mod catalog;
mod check;
mod content;
pub mod diff;
mod documents;
pub mod graph;
mod group;
mod header;
mod hex;
mod icon;
mod index;
mod input;
mod load;
mod model;
mod nearest;
mod parallel;
mod problem;
mod relocate;
mod scan;
mod search;
mod shape;
mod shipped;
mod spelling;
mod spool;
mod store;
mod summary;
pub mod template;
mod versions;
mod window;

pub use catalog::Catalog;
pub use content::ContentError;
pub use documents::{Documents, Filter};
pub use hex::hex;
pub use icon::Icon;
pub use model::{
    BundleEntry, Channel, ChannelEntry, CsvMetadata, Package, Person, Property, Provider, RelatedImage,
};
pub use nearest::Unknown;
pub use problem::{Place, Problem, Severity};
pub use relocate::Relocation;
pub use search::Hit;
pub use shipped::{SHIPPED_IMAGE, relocated, shipped, shipped_images};
pub use store::{Refreshed, Store, StoreError};
pub use summary::{Head, Summary};
pub use versions::PackageVersion;

//! Catalogs: file-based catalog model, loader, checks, search, build and serving.
//!
//! - [`Catalog::load_dir`] and [`Catalog::from_bytes`] read one, leniently: what is wrong becomes a
//!   [`Problem`], everything else loads;
//! - [`Catalog::search`] and the `nearest_*` functions find things in it;
//! - [`build`] makes one of a folder of bundles, [`serve`] serves it over HTTP;
//! - [`shipped`] is the one in this program.

mod assemble;
pub mod build;
mod check;
mod digest;
mod document;
mod icon;
mod ignore;
mod index;
mod load;
mod model;
mod nearest;
mod problem;
mod search;
pub mod serve;
mod shipped;

pub use icon::Icon;
pub use model::{
    BundleEntry, Catalog, Channel, ChannelEntry, CsvMetadata, Package, Person, Property, Provider,
    RelatedImage,
};
pub use nearest::Unknown;
pub use problem::{Problem, Severity};
pub use search::Hit;
pub use shipped::{SHIPPED_IMAGE, shipped};

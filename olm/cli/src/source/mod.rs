//! Sources of catalogs and bundles: a path, an image, a URL or a server. Each becomes local files, or the spec
//! of a CatalogSource.

pub mod cache;
mod image;
mod name;
mod open;
mod registry;
mod remote;

pub use image::{image_of, image_template};
pub use name::Named;
pub use open::{Opened, OpenedBundle, blocking, unread};
pub use registry::{failure, options};
pub use remote::requested;

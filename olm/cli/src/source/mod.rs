//! Sources of catalogs and bundles: a path, an image, a URL or a server. Each becomes local files.

mod image;
mod name;
mod open;
mod registry;

pub use image::{image_of, image_template};
pub use name::Named;
pub use open::{Opened, OpenedBundle, blocking, unread};
pub use registry::{failure, options};

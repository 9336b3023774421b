//! Images in folders: writing a catalog as an image into an OCI layout. (Copying images is olm-catalog-sources' work.)

mod layout;

pub use layout::{Layout, LayoutError};

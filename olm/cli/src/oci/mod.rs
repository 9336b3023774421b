//! Writes a catalog as an image into an OCI layout. (`olm-catalog-sources` copies images.)

mod layout;

pub use layout::{Layout, LayoutError};

//! Images in folders: writing the OCI layout, and copying images into one as they are, by digest.

mod layout;

pub use layout::{Layout, LayoutError};

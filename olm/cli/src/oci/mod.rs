//! Images in folders: writing the OCI layout, and copying images into one as they are, by digest.

mod copy;
mod layout;
mod login;
mod registry;

pub use copy::{Copied, copy};
pub use layout::{Layout, LayoutError};
pub use registry::Registry;

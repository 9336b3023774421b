//! Writes images into an OCI layout and into archives: catalogs, and programs. (`olm-catalog-sources` copies
//! and pushes images.)

mod archive;
mod elf;
mod layer;
mod layout;
mod libraries;
mod program;

pub use archive::archive;
pub use layout::{Layout, LayoutError, write_whole};
pub use program::{Image, ImageError, Program, certificates};

//! Writes images into an OCI layout and into archives: catalogs, and programs. (`olm-catalog-sources` copies
//! and pushes images.)

mod archive;
mod elf;
mod layer;
mod layout;
mod libraries;
mod program;
mod tree;

pub use archive::archive;
pub use layout::{Layout, LayoutError, write_whole};
pub use program::{EPOCH, Image, ImageError, Program, certificates};
#[cfg(feature = "devcluster")]
pub use {
    elf::{Architecture, Elf},
    libraries::{Files, libraries},
    program::SEARCH_PATH,
    tree::{Content, Entry, Tree},
};

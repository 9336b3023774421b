//! Where catalogs and bundles come from: every kind of source becomes a local folder, whole and checked or
//! not at all.
//!
//! - [`fetch`](mod@fetch) reads a catalog, [`bundle`] reads a bundle, of any [`Source`], as [`Options`] say;
//! - [`copy_image`] copies an image into a folder, for where there is no network, and [`copy_signatures`] its signatures;
//! - [`signatures`](signatures()) finds the signatures of an image, which `olm-signatures` verifies;
//! - [`Revision`] is what was read; given back, it makes the next fetch a question of a few hundred bytes;
//! - [`SourceError`] says what failed, why, and what to do;
//! - [`unpack_tar`] is the part that meets archives of strangers first.
//!
//! Three things are our own where a crate exists, because sources are hostile. The registry client
//! (`registry/`): `oci-client` reads manifests and error pages of any size into memory, keeps `Retry-After`
//! to itself, and knows neither mirrors nor resumed downloads. The loop over tar entries (`unpack/`): `tar`
//! reads long names and pax records of any size, and writes links that later entries are written through. And
//! zstd is read by `ruzstd`, which is safe Rust.

mod archive;
mod configmap;
mod content;
mod copy;
mod credentials;
mod digest;
mod egress;
mod error;
mod fetch;
mod folder;
mod grpc;
mod image;
mod net;
mod options;
mod reference;
mod registry;
mod retry;
mod signatures;
mod source;
mod stage;
mod trust;
mod unpack;
mod web;

pub use copy::{Copied, CopiedSignatures, copy_image, copy_signatures};
pub use credentials::Credentials;
pub use egress::{Egress, Policy};
pub use error::{Exceeded, SourceError};
pub use fetch::{bundle, fetch};
pub use options::{Limits, Mirror, Options, Patience, Proxy, RATIO_FREE_BYTES};
pub use signatures::{FoundSignatures, signatures};
pub use source::{Fetched, Revision, Source};
pub use unpack::{Unpacked, Wanted, unpack_tar};

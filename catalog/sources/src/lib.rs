//! Sources of catalogs and bundles: each is converted to a verified local directory, atomically.
//!
//! - [`fetch`](mod@fetch) reads a catalog, [`bundle`] reads a bundle, from any [`Source`], with [`Options`];
//!   [`unpack_image`] unpacks an image to run it;
//! - [`copy_image`] copies an image into a directory for air-gapped clusters, and [`copy_signatures`] its
//!   signatures; [`push_image`] pushes an image of such a directory to a registry, [`pin_image`] looks up the
//!   digest of one, [`image_platforms`] its platforms;
//! - [`signatures`](signatures()) discovers the signatures of an image, which `olm-signatures` verifies;
//! - [`Revision`] identifies the content; with it, the next fetch of an unchanged source is a request of a few
//!   hundred bytes;
//! - an [`Observer`] in the options receives the progress of downloads and uploads;
//! - [`SourceError`] has the failure, its cause, and a hint;
//! - [`unpack_tar`] unpacks untrusted archives.
//!
//! Three parts are implemented here although crates exist, because sources are untrusted. The registry client
//! (`registry/`): `oci-client` reads manifests and error pages of any size into memory, hides `Retry-After`, and
//! supports neither mirrors nor resumed downloads. The loop over tar entries (`unpack/`): `tar` reads long names
//! and pax records of any size, and writes links that later entries are written through. And zstd is read by
//! `ruzstd`, which is safe Rust.

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
mod platforms;
mod progress;
mod push;
mod reference;
mod registry;
mod retry;
mod signatures;
mod source;
mod stage;
mod trust;
mod unpack;
mod web;

pub use archive::unpack_archive;
pub use copy::{Copied, CopiedSignatures, copy_image, copy_signatures};
pub use credentials::Credentials;
pub use egress::{Egress, Policy};
pub use error::{Exceeded, SourceError};
pub use fetch::{bundle, fetch, unpack_image};
pub use image::{ImageConfig, image_names};
pub use options::{Limits, Mirror, Options, Proxy, RATIO_FREE_BYTES, Timeouts};
pub use platforms::image_platforms;
pub use progress::{Observer, Transferred};
pub use push::{Pushed, pin_image, push_image};
pub use reference::{full_name, has_user};
pub use signatures::{FoundSignatures, signatures};
pub use source::{Fetched, Revision, Source};
pub use unpack::{DirectorySelection, Unpacked, unpack_tar};

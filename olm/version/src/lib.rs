//! Versions and version ranges as the Operator Lifecycle Manager's formats use them.
//!
//! - [`Range`]: the ranges of blang/semver, which `olm.skipRange`, `olm.package.required` and
//!   `dependencies.yaml` are written in;
//! - [`nearest_range`]: the range that a text which is none was meant to be;
//! - [`precedence`]: order of versions without their build metadata;
//! - [`parse_lenient`]: versions as people write them (`v1.2`);
//! - [`suggest`](mod@suggest): the nearest names for an unknown one.

mod nearest;
mod range;
mod suggest;
mod version;

pub use nearest::nearest_range;
pub use range::{Range, RangeError};
pub use semver::{Prerelease, Version};
pub use suggest::{distance, suggest};
pub use version::{parse_lenient, precedence};

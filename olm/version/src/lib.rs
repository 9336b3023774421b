//! Versions and version ranges of the Operator Lifecycle Manager's formats.
//!
//! - [`Range`]: ranges of blang/semver, as in `olm.skipRange`, `olm.package.required` and
//!   `dependencies.yaml`;
//! - [`nearest_range`]: suggests a range for an invalid text;
//! - [`precedence`]: order of versions without their build metadata;
//! - [`parse_lenient`]: versions in informal notation (`v1.2`);
//! - [`suggest`](mod@suggest): the nearest names for an unknown one;
//! - [`shell_word`]: such names in printed commands.

mod nearest;
mod range;
mod shell;
mod suggest;
mod version;

pub use nearest::nearest_range;
pub use range::{Range, RangeError};
pub use semver::{Prerelease, Version};
pub use shell::shell_word;
pub use suggest::{distance, suggest};
pub use version::{parse_lenient, precedence};

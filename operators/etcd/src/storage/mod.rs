//! Snapshot stores: S3, Google Cloud Storage, Azure, or a directory of the operator. All users of this module
//! work with [`Target`]s and [`Store`]s, independent of the type.

mod credentials;
mod error_text;
mod key;
mod keys;
mod local;
mod reading;
mod seal;
mod snapshot;
mod store;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod upload;

pub use credentials::{SecretData, SecretFault};
pub use error_text::error_text;
pub(crate) use error_text::shorten;
pub use key::{Periodic, surplus};
pub use keys::{DEFAULT_ENTRY, Key, Keys};
pub(crate) use snapshot::hex;
pub use snapshot::{Damage, Snapshot, VerifiedSnapshot};
pub use store::{Found, Labels, Store, Stored};
pub(crate) use store::{LABEL_CLUSTER, LABEL_KEY, LABEL_NAME, LABEL_OWNER, LABEL_REVISION, LABEL_VERSION};
pub use target::{Kind, Target};
pub use upload::{Failure, OnUploadStart, STALL, UploadNotes, store_snapshot};

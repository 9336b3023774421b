//! The three patch formats that change an object without field ownership.

mod json;
mod merge;
mod strategic;

pub use self::{json::json_patch, merge::merge_patch, strategic::strategic_patch};

/// A refused patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch format is not supported for the type (415).
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// The patch is malformed (400).
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not apply to the object (422).
    #[error("{0}")]
    Invalid(String),
    /// A test operation failed (422).
    #[error("{0}")]
    TestFailed(String),
    /// The patch or its result is too large (413).
    #[error("{0}")]
    TooLarge(String),
}

impl PatchError {
    /// HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::UnsupportedMediaType(_) => 415,
            Self::BadRequest(_) => 400,
            Self::Invalid(_) | Self::TestFailed(_) => 422,
            Self::TooLarge(_) => 413,
        }
    }

    /// `reason` of the `Status`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnsupportedMediaType(_) => "UnsupportedMediaType",
            Self::BadRequest(_) => "BadRequest",
            Self::Invalid(_) | Self::TestFailed(_) => "Invalid",
            Self::TooLarge(_) => "RequestEntityTooLarge",
        }
    }
}

//! Errors of the controllers.

/// A failed reconciliation; it is retried with backoff.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to {action}: {source}")]
    Api {
        /// The operation with the object: `create pod default/x`.
        action: String,
        source: Box<kube::Error>,
    },
    /// The object is not valid.
    #[error("{0}")]
    Invalid(String),
}

/// Adds the operation to a failed request.
pub(crate) trait During<T> {
    fn during(self, action: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, kube::Error> {
    fn during(self, action: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Api { action: action(), source: Box::new(source) })
    }
}

impl Error {
    /// The HTTP status of a refused request.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Invalid(_) => None,
        }
    }

    /// The object changed meanwhile: read it again, this is not a failure.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }
}

/// Maps a missing object to success.
pub(crate) fn unless_gone<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

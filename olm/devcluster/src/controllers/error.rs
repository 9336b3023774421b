//! Errors of the controllers.

/// A reconciliation that did not finish; it is retried with a growing delay.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A request failed.
    #[error("failed to {action}: {source}")]
    Api {
        /// What was being done, with the object: `create pod default/x`.
        action: String,
        source: Box<kube::Error>,
    },
    /// The object cannot be handled as it is.
    #[error("{0}")]
    Invalid(String),
}

/// Adds what was being done to a failed request.
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

    /// Somebody else was faster: look again, nothing is wrong.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }
}

/// Turns "it is gone already" into success.
pub(crate) fn unless_gone<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

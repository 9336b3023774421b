//! Errors with messages for users.

use std::{fmt, io, path::PathBuf};

/// Why a source could not be read. Nothing was written to the destination.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// An invalid image reference, URL or address.
    #[error("failed to parse reference {reference:?}: {reason}")]
    Reference { reference: String, reason: String },
    /// A user name or password in an image reference or in a URL.
    #[error(
        "failed to read {what}: the reference contains credentials, readable by everyone with access to \
         the source; hint: store them in a Secret of type kubernetes.io/dockerconfigjson and add its name \
         to spec.secrets"
    )]
    Credentials {
        /// The source, without the credentials.
        what: String,
    },
    /// The egress policy denies the server's address.
    #[error(
        "failed to read {what}: the egress policy denies {kind}; hint: an administrator can allow the host \
         or its network in egress.allow of ConfigMap olm-registries"
    )]
    Egress {
        what: String,
        /// The kind of the address.
        kind: &'static str,
    },
    #[error("failed to set up the connection: {reason}")]
    Options { reason: String },
    /// 401 or 403. A retry with the same credentials would fail.
    #[error("failed to read {what}: access denied ({status}{detail}); {tried}")]
    Denied {
        what: String,
        status: u16,
        /// The registry's error codes, after a colon, or empty.
        detail: String,
        /// The tried credentials (never the secrets) and a hint.
        tried: String,
    },
    /// 404: a missing image, blob or file.
    #[error("failed to read {what}: not found{detail}; check the name and the tag")]
    NotFound {
        what: String,
        /// The registry's error codes, after a colon, or empty.
        detail: String,
    },
    /// The server was unreachable, hung, or answered with an error on every attempt.
    #[error("failed to read {what} after {attempts} attempts: {last}")]
    Unavailable { what: String, attempts: u32, last: String },
    /// Callers add the setting for certificate authorities as a hint: see [`SourceError::is_untrusted`].
    #[error("failed to read {what}: the server's certificate is not trusted: {reason}")]
    Untrusted {
        what: String,
        /// The message of the TLS library.
        reason: String,
    },
    /// The server answered a TLS handshake in plain text. Callers add their setting for such servers as a hint.
    #[error("failed to read {what}: the server does not use TLS")]
    WithoutTls { what: String },
    /// The content does not match its digest.
    #[error(
        "failed to read {what}: content has digest {actual}, expected {expected}; the registry, a mirror \
         or a proxy serves corrupted or modified content"
    )]
    Digest {
        what: String,
        /// The requested digest.
        expected: String,
        /// The digest of the received content.
        actual: String,
    },
    /// A limit is exceeded.
    #[error("failed to read {what}: {exceeded}")]
    Limit { what: String, exceeded: Exceeded },
    /// An archive entry points outside of the target directory.
    #[error("failed to unpack {what}: entry {entry:?} {reason}; no file was extracted")]
    Escape {
        what: String,
        /// The entry's name in the archive.
        entry: String,
        reason: String,
    },
    /// Content in an invalid format.
    #[error("failed to read {what}: {reason}")]
    Malformed { what: String, reason: String },
    /// Content in a known but unsupported format.
    #[error("failed to read {what}: {reason}")]
    Unsupported {
        what: String,
        /// The format, with a hint.
        reason: String,
    },
    #[error("failed to {what} {}: {source}", path.display())]
    Io {
        /// A verb: `read`, `write`, …
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// An image could not be pushed.
    #[error("failed to push {what}: {}", pushing(error))]
    Push {
        /// The image in the registry.
        what: String,
        /// The failed request.
        error: Box<SourceError>,
    },
    /// Every mirror and the origin failed.
    #[error("failed to read {what} from any of {} locations: {}", failures.len(), joined(failures))]
    Everywhere {
        what: String,
        /// Each place in order, with its error.
        failures: Vec<(String, SourceError)>,
    },
}

impl SourceError {
    /// A stable word for conditions and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Reference { .. } => "InvalidReference",
            Self::Credentials { .. } => "CredentialsInReference",
            Self::Egress { .. } => "EgressRefused",
            Self::Options { .. } => "InvalidOptions",
            Self::Denied { .. } => "AccessDenied",
            Self::NotFound { .. } => "NotFound",
            Self::Unavailable { .. } => "Unavailable",
            Self::Untrusted { .. } => "CertificateNotTrusted",
            Self::WithoutTls { .. } => "ServerWithoutTls",
            Self::Digest { .. } => "DigestMismatch",
            Self::Limit { .. } => "LimitExceeded",
            Self::Escape { .. } => "UnsafeArchive",
            Self::Malformed { .. } => "InvalidContent",
            Self::Unsupported { .. } => "UnsupportedContent",
            Self::Io { .. } => "FileSystem",
            Self::Push { error, .. } => error.code(),
            Self::Everywhere { .. } => "NoPlaceAnswered",
        }
    }

    /// Whether a certificate authority has to be added to the trusted ones: of the server, or of a mirror.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.any(|error| matches!(error, Self::Untrusted { .. }))
    }

    /// Whether the server, or a mirror, has to be listed as one without TLS.
    #[must_use]
    pub fn is_without_tls(&self) -> bool {
        self.any(|error| matches!(error, Self::WithoutTls { .. }))
    }

    /// Whether the same request may succeed later without a local change.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.any(|error| match error {
            Self::Unavailable { .. } => true,
            // A full disk may have space again; a missing file stays missing.
            Self::Io { source, .. } => source.kind() != io::ErrorKind::NotFound,
            _ => false,
        })
    }

    /// Whether the error, or one of those that it wraps, matches.
    fn any(&self, matches: fn(&Self) -> bool) -> bool {
        match self {
            Self::Push { error, .. } => error.any(matches),
            Self::Everywhere { failures, .. } => failures.iter().any(|(_, error)| error.any(matches)),
            other => matches(other),
        }
    }

    pub(crate) fn malformed(what: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Malformed { what: what.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn unsupported(what: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Unsupported { what: what.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// An error from a reader of this crate: either an exceeded limit, or the content.
    pub(crate) fn reading(what: impl fmt::Display, error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Exceeded>()) {
            Some(exceeded) => Self::Limit { what: what.to_string(), exceeded: exceeded.clone() },
            None => Self::malformed(what, error),
        }
    }
}

/// The cause of a failed push: the texts of the errors are about reading.
fn pushing(error: &SourceError) -> String {
    match error {
        SourceError::Denied { status, detail, tried, .. } => {
            format!("access denied ({status}{detail}); {tried}")
        }
        SourceError::NotFound { detail, .. } => format!(
            "the registry has no such repository{detail}; create it first if the registry does not create \
             repositories on push"
        ),
        SourceError::Unavailable { attempts, last, .. } => {
            format!("failed after {attempts} attempts: {last}")
        }
        SourceError::Untrusted { reason, .. } => format!(
            "the server's certificate is not trusted: {reason}; add its certificate authority to the CA \
             certificates"
        ),
        SourceError::WithoutTls { .. } => "the server does not use TLS".to_owned(),
        SourceError::Malformed { reason, .. } | SourceError::Unsupported { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

fn joined(failures: &[(String, SourceError)]) -> String {
    failures.iter().map(|(place, error)| format!("{place}: {error}")).collect::<Vec<_>>().join("; ")
}

/// An exceeded limit of [`Limits`](crate::Limits).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} exceeds the limit of {at}; for a trusted source, raise `limits.{limit}`")]
pub struct Exceeded {
    /// The subject, such as `the manifest`.
    pub subject: String,
    /// The field of [`Limits`](crate::Limits).
    pub limit: &'static str,
    pub at: u64,
}

impl Exceeded {
    pub(crate) fn new(subject: impl fmt::Display, limit: &'static str, at: u64) -> Self {
        Self { subject: subject.to_string(), limit, at }
    }

    pub(crate) fn reading(self, what: impl fmt::Display) -> SourceError {
        SourceError::Limit { what: what.to_string(), exceeded: self }
    }
}

/// An error with all of its causes in one line; libraries put the relevant part into the last one.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_an_error_is_that_of_its_cause() {
        let cause = SourceError::WithoutTls { what: "r.example/a".into() };
        let push = SourceError::Push { what: "r.example/a".into(), error: Box::new(cause) };
        assert!(push.is_without_tls() && !push.is_untrusted() && !push.is_transient());
        let unavailable =
            SourceError::Unavailable { what: "m.example/a".into(), attempts: 3, last: String::new() };
        let failures = vec![("r.example".to_owned(), push), ("m.example".to_owned(), unavailable)];
        let everywhere = SourceError::Everywhere { what: "a".into(), failures };
        assert!(everywhere.is_without_tls() && everywhere.is_transient() && !everywhere.is_untrusted());
    }
}

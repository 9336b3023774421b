//! What can go wrong, in words that a person can act on.

use std::{fmt, io, path::PathBuf};

/// Why a source could not be read. Nothing was written to the destination.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The name of an image, a URL or an address is not one.
    #[error("failed to parse reference {reference:?}: {reason}")]
    Reference {
        reference: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A user name or password in the name of an image or in a URL.
    #[error(
        "failed to read {what}: the reference contains credentials, readable by everyone with access to \
         the source; hint: store them in a Secret of type kubernetes.io/dockerconfigjson and add its name \
         to spec.secrets"
    )]
    Credentials {
        /// What was asked for, without them.
        what: String,
    },
    /// The server has an address that sources must not be read from.
    #[error(
        "failed to read {what}: the egress policy denies {kind}; hint: an administrator can allow the host \
         or its network in egress.allow of ConfigMap olm-registries"
    )]
    Egress {
        /// What was asked for.
        what: String,
        /// What kind of address it is.
        kind: &'static str,
    },
    /// An option cannot be used as it stands.
    #[error("failed to set up the connection: {reason}")]
    Options {
        /// Which one, and what is wrong.
        reason: String,
    },
    /// 401 or 403. Trying again with the same credentials would not help.
    #[error("failed to read {what}: access denied ({status}{said}); {tried}")]
    Denied {
        /// What was asked for.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The registry's error codes, after a colon, or nothing.
        said: String,
        /// Which credentials were tried (never the secrets) and what to do.
        tried: String,
    },
    /// 404: there is no such image, blob or file.
    #[error("failed to read {what}: not found{said}; check the name and the tag")]
    NotFound {
        /// What was asked for.
        what: String,
        /// The registry's error codes, after a colon, or nothing.
        said: String,
    },
    /// The server could not be reached, hung, or answered with an error until patience ran out.
    #[error("failed to read {what} after {attempts} attempts: {last}")]
    Unavailable {
        /// What was asked for.
        what: String,
        /// How often.
        attempts: u32,
        /// Why the last attempt failed.
        last: String,
    },
    /// The server's certificate is not trusted.
    #[error(
        "failed to read {what}: the server's certificate is not trusted: {reason}; add its certificate \
         authority to the CA certificates"
    )]
    Untrusted {
        /// What was asked for.
        what: String,
        /// What the TLS library said.
        reason: String,
    },
    /// Content is not what its digest promises.
    #[error(
        "failed to read {what}: content has digest {actual}, expected {expected}; the registry, a mirror \
         or a proxy serves corrupted or modified content"
    )]
    Digest {
        /// What was read.
        what: String,
        /// The digest that it was asked for by.
        expected: String,
        /// The digest of what came.
        actual: String,
    },
    /// Something is larger than allowed.
    #[error("failed to read {what}: {exceeded}")]
    Limit {
        /// What was read.
        what: String,
        /// Which limit.
        exceeded: Exceeded,
    },
    /// An archive entry points outside the folder that it is unpacked into.
    #[error("failed to unpack {what}: entry {entry:?} {reason}; no file was extracted")]
    Escape {
        /// The archive.
        what: String,
        /// The entry as the archive names it.
        entry: String,
        /// What it tries.
        reason: String,
    },
    /// Content that is not in the format that it should have.
    #[error("failed to read {what}: {reason}")]
    Malformed {
        /// What was read.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// Content in a format that is known and not read.
    #[error("failed to read {what}: {reason}")]
    Unsupported {
        /// What was read.
        what: String,
        /// What it is, and what can be done.
        reason: String,
    },
    /// The local file system.
    #[error("failed to {what} {}: {source}", path.display())]
    Io {
        /// A verb: `read`, `write`, …
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// Every mirror and the origin failed.
    #[error("failed to read {what} from any of {} locations: {}", failures.len(), joined(failures))]
    Everywhere {
        /// What was asked for.
        what: String,
        /// Each place that was asked, in order, with its reason.
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
            Self::Digest { .. } => "DigestMismatch",
            Self::Limit { .. } => "LimitExceeded",
            Self::Escape { .. } => "UnsafeArchive",
            Self::Malformed { .. } => "InvalidContent",
            Self::Unsupported { .. } => "UnsupportedContent",
            Self::Io { .. } => "FileSystem",
            Self::Everywhere { .. } => "NoPlaceAnswered",
        }
    }

    /// Whether the same request may succeed later with nothing changed on our side.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            // Disks fill up and are emptied; what does not exist has to be made by somebody.
            Self::Io { source, .. } => source.kind() != io::ErrorKind::NotFound,
            Self::Everywhere { failures, .. } => failures.iter().any(|(_, error)| error.is_transient()),
            _ => false,
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

    /// A reader of ours failed: either a limit that it guards, or the content.
    pub(crate) fn reading(what: impl fmt::Display, error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Exceeded>()) {
            Some(exceeded) => Self::Limit { what: what.to_string(), exceeded: exceeded.clone() },
            None => Self::malformed(what, error),
        }
    }
}

fn joined(failures: &[(String, SourceError)]) -> String {
    failures.iter().map(|(place, error)| format!("{place}: {error}")).collect::<Vec<_>>().join("; ")
}

/// A limit of [`Limits`](crate::Limits) that was passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} exceeds the limit of {at}; for a trusted source, raise `limits.{limit}`")]
pub struct Exceeded {
    /// What is too large, such as `the manifest`.
    pub subject: String,
    /// The field of [`Limits`](crate::Limits).
    pub limit: &'static str,
    /// Its value.
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

/// An error with all of its causes in one line; libraries keep the interesting part in the last one.
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

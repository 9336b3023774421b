use std::time::Duration;

use olm_resolver::Explanation;

use crate::{
    catalogs::{BundleImageError, CatalogRef, ReadError},
    resources::ResourceError,
};

/// The code of a catalog that exists and may not be used in the namespace.
pub const CATALOG_OUT_OF_SIGHT: &str = "CatalogOutOfSight";

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No version satisfies the request, or it names a missing object.
    #[error("{0}")]
    Unresolvable(Box<Explanation>),
    /// The CatalogSource does not exist, or has no content yet.
    #[error("catalog `{catalog}` not found")]
    UnknownCatalog {
        /// `namespace/name`.
        catalog: String,
        nearest: Vec<String>,
    },
    /// Namespaces use catalogs of their own, and those of the product's namespace.
    #[error("{text}; {fix}")]
    CatalogOutOfSight {
        /// The catalog, the namespace, and the reason.
        text: String,
        fix: String,
    },
    /// A package of the catalog is unreadable.
    #[error("failed to read catalog {catalog}: {text}")]
    CatalogUnreadable {
        /// `namespace/name`.
        catalog: String,
        text: String,
    },
    /// A field of the Subscription is invalid.
    #[error("Subscription spec.{field}: {text}")]
    Field { field: &'static str, text: String },
    #[error("failed to read bundle {bundle}: {text}")]
    Bundle { bundle: String, text: String },
    #[error("failed to read bundle {bundle}: {source}; retrying")]
    BundleImage { bundle: String, source: BundleImageError },
    /// The bundle was chosen, and is no longer in the catalog.
    #[error("bundle {bundle} is no longer in catalog {catalog}")]
    BundleGone {
        bundle: String,
        /// `namespace/name`.
        catalog: String,
    },
    /// The cluster could not be read.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A bug.
    #[error("internal error: {text}")]
    Internal { text: String },
}

impl Refusal {
    /// A stable word for the cause, for conditions and events.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unresolvable(explanation) => explanation.code.as_str(),
            Self::UnknownCatalog { .. } => "UnknownCatalog",
            Self::CatalogOutOfSight { .. } => CATALOG_OUT_OF_SIGHT,
            Self::CatalogUnreadable { .. } => "CatalogUnreadable",
            Self::Field { .. } => "InvalidField",
            Self::BundleImage { source, .. } => source.code,
            Self::Bundle { .. } => "BundleInvalid",
            Self::BundleGone { .. } => "BundleGone",
            Self::Resource(_) => "ClusterUnreadable",
            Self::Internal { .. } => "InternalError",
        }
    }

    pub(super) fn bundle(bundle: &str, catalog: &CatalogRef, error: ReadError) -> Self {
        let bundle = bundle.to_owned();
        match error {
            ReadError::Image(source) => Self::BundleImage { bundle, source },
            ReadError::Bundle(text) => Self::Bundle { bundle, text },
            error @ (ReadError::Content(_) | ReadError::Fetch(_)) => {
                Self::CatalogUnreadable { catalog: catalog.to_string(), text: error.to_string() }
            }
        }
    }

    /// When to retry although nothing of the cluster has changed; the refusal is reported meanwhile.
    pub fn retry(&self) -> Option<Duration> {
        match self {
            Self::BundleImage { source, .. } => Some(source.retry),
            _ => None,
        }
    }

    /// Whether a retry without any change may succeed: the cluster did not answer.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Resource(_) | Self::Internal { .. } | Self::CatalogUnreadable { .. })
    }

    /// One paragraph for a condition.
    pub fn message(&self) -> String {
        match self {
            Self::Unresolvable(explanation) => explanation.condition_message(),
            other => other.to_string(),
        }
    }
}

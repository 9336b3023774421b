//! Why there is no plan.

use std::time::Duration;

use olm_resolver::Explanation;

use crate::{
    catalogs::{BundleImageError, CatalogRef, ReadError},
    resources::ResourceError,
};

/// The code of a catalog that is there and may not be used in the namespace.
pub const CATALOG_OUT_OF_SIGHT: &str = "CatalogOutOfSight";

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No version satisfies the request, or it names something that does not exist.
    #[error("{0}")]
    Unresolvable(Box<Explanation>),
    /// The CatalogSource does not exist, or has no content yet.
    #[error("catalog `{catalog}` not found")]
    UnknownCatalog {
        /// `namespace/name`.
        catalog: String,
        /// Nearest names that exist.
        nearest: Vec<String>,
    },
    /// Namespaces use catalogs of their own, and those of the product's.
    #[error("{text}; {fix}")]
    CatalogOutOfSight {
        /// Which, from where, and why.
        text: String,
        /// What to do.
        fix: String,
    },
    /// A package of the catalog cannot be read.
    #[error("failed to read catalog {catalog}: {text}")]
    CatalogUnreadable {
        /// `namespace/name`.
        catalog: String,
        /// Why.
        text: String,
    },
    /// A field of the Subscription cannot be read.
    #[error("Subscription spec.{field}: {text}")]
    Field {
        field: &'static str,
        /// What is wrong with it.
        text: String,
    },
    /// The bundle cannot be read.
    #[error("failed to read bundle {bundle}: {text}")]
    Bundle {
        bundle: String,
        /// What is wrong.
        text: String,
    },
    /// The bundle's image cannot be read.
    #[error("failed to read bundle {bundle}: {source}; retrying")]
    BundleImage {
        bundle: String,
        /// What is wrong.
        source: BundleImageError,
    },
    /// The bundle was chosen, and is not in the catalog any more.
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
    Internal {
        /// What is wrong.
        text: String,
    },
}

impl Refusal {
    /// A stable word for the cause, as conditions and events carry it.
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

    /// When to look again, although nothing of the cluster has changed: what is refused is told meanwhile.
    pub fn retry(&self) -> Option<Duration> {
        match self {
            Self::BundleImage { source, .. } => Some(source.retry),
            _ => None,
        }
    }

    /// Whether trying again may help with nothing changed: the cluster did not answer.
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

//! Why there is no plan.

use olm_resolver::Explanation;

use crate::{ops, resources::ResourceError};

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No version satisfies the request, or it names something that does not exist.
    #[error("{0}")]
    Unresolvable(Box<Explanation>),
    /// The CatalogSource does not exist, cannot be seen from here, or has no content yet.
    #[error("catalog `{catalog}` not found")]
    UnknownCatalog {
        /// `namespace/name`.
        catalog: String,
        /// Nearest names that exist.
        nearest: Vec<String>,
    },
    /// A field of the Subscription cannot be read.
    #[error("Subscription spec.{field}: {text}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        text: String,
    },
    /// The bundle cannot be read.
    #[error(
        "bundle {bundle} cannot be read: {}",
        image.as_ref().map_or_else(
            || text.clone(),
            |image| format!("its manifests are in image {image}, and this version of olm does not pull bundle images")
        )
    )]
    Bundle {
        /// The bundle.
        bundle: String,
        /// What is wrong.
        text: String,
        /// The image that it is in, when it is not inline.
        image: Option<String>,
    },
    /// The bundle was chosen, and is not in the catalog any more.
    #[error("bundle {bundle} is not in catalog {catalog} any more")]
    BundleGone {
        /// The bundle.
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
            Self::Field { .. } => "InvalidField",
            Self::Bundle { image: Some(_), .. } => "BundleImageUnsupported",
            Self::Bundle { .. } => "BundleInvalid",
            Self::BundleGone { .. } => "BundleGone",
            Self::Resource(_) => "ClusterUnreadable",
            Self::Internal { .. } => "InternalError",
        }
    }

    /// Whether trying again may help with nothing changed: the cluster did not answer.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Resource(_) | Self::Internal { .. })
    }

    /// One paragraph for a condition.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Unresolvable(explanation) => explanation.condition_message(),
            other => other.to_string(),
        }
    }
}

impl From<Refusal> for ops::Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unresolvable(explanation) => Self::Unresolvable(explanation),
            Refusal::UnknownCatalog { catalog, nearest } => {
                Self::NotFound { what: "catalog", name: catalog, within: None, nearest }
            }
            Refusal::Resource(error) if error.is_forbidden() => Self::Forbidden { text: error.to_string() },
            Refusal::Resource(error) => Self::Other(error.to_string()),
            Refusal::Internal { text } => Self::Other(format!("internal error: {text}")),
            other => Self::Refused { code: other.code().into(), text: other.to_string(), fix: None },
        }
    }
}

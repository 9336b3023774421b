//! Why a template is not rendered.

use olm_bundle::fields::Ambiguous;

use crate::problem::Problem;

/// Why a template is not rendered.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// It is no YAML or JSON.
    #[error("failed to read the template: {0}")]
    Syntax(String),
    /// It holds none, or several documents.
    #[error("the file contains {0} documents, expected one template")]
    Documents(usize),
    /// Its `schema` is none that we know.
    #[error(
        "unknown schema {0:?} of the template, expected olm.template.basic, olm.semver or \
         olm.template.substitutes"
    )]
    Schema(String),
    /// A field that is not in the schema.
    #[error("unknown field {0:?} in the template; remove or correct it")]
    UnknownField(String),
    /// A field is there in two spellings.
    #[error("the template is ambiguous: {0}")]
    Ambiguous(#[from] Ambiguous),
    /// A field has another shape.
    #[error("{field} of the template: expected {wanted}")]
    Shape {
        field: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// A bundle in a basic template says more than its image.
    #[error(
        "unexpected fields in a bundle of the template ({0}), expected schema and image; the image \
         provides all other fields"
    )]
    UnexpectedFields(String),
    /// `defaultChannelTypePreference` and the channels that are made do not fit.
    #[error(
        "defaultChannelTypePreference is {preference}, but {preference} channels are not generated; set \
         {missing}: true"
    )]
    Mismatch {
        /// What is preferred.
        preference: &'static str,
        /// The field that would make such channels.
        missing: &'static str,
    },
    /// `defaultChannelTypePreference` is neither major nor minor.
    #[error("unknown defaultChannelTypePreference {0:?}, expected major or minor")]
    UnknownPreference(String),
    /// There is nothing in the template.
    #[error("the template has no bundles")]
    NoBundles,
    /// A bundle could not be had.
    #[error("failed to get bundle {reference}: {reason}")]
    Bundle {
        /// What the template says.
        reference: String,
        /// Why.
        reason: String,
    },
    /// A bundle does not say which package and version it is.
    #[error("failed to add bundle {name:?}: {reason}")]
    Identity {
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Bundles of several packages.
    #[error(
        "bundle {name} belongs to package {package}, expected package {expected} of the bundles before it"
    )]
    Package {
        /// The bundle.
        name: String,
        package: String,
        /// The package of the others.
        expected: String,
    },
    /// One bundle twice in a list.
    #[error("bundle {name} is in list {list} twice")]
    Duplicate {
        /// The bundle.
        name: String,
        /// `candidate`, `fast` or `stable`.
        list: &'static str,
    },
    /// Versions without an order.
    #[error("bundles {0} and {1} differ only in build metadata and have no order")]
    Unordered(String, String),
    /// A substitution cannot be made.
    #[error("failed to substitute {base:?} with {name:?}: {reason}")]
    Substitution {
        /// The image that takes the place.
        name: String,
        /// The bundle whose place it takes.
        base: String,
        /// Why not.
        reason: String,
    },
    /// What the template lists, or what was made of it, is no catalog.
    #[error("{what} is not a valid catalog: {}", list(.problems))]
    Invalid {
        /// What is not.
        what: String,
        /// What is wrong with it.
        problems: Vec<Problem>,
    },
}

fn list(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| format!("{} [{}]", problem.text, problem.code))
        .collect::<Vec<_>>()
        .join("; ")
}

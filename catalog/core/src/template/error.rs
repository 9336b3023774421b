//! Errors of template rendering.

use olm_bundle::fields::Ambiguous;

use crate::problem::Problem;

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Invalid YAML or JSON.
    #[error("failed to read the template: {0}")]
    Syntax(String),
    /// No document, or several.
    #[error("the file contains {0} documents, expected one template")]
    Documents(usize),
    /// An unknown `schema`.
    #[error(
        "unknown schema {0:?} of the template, expected olm.template.basic, olm.semver or \
         olm.template.substitutes"
    )]
    Schema(String),
    #[error("unknown field {0:?} in the template; remove or correct it")]
    UnknownField(String),
    /// A field occurs in two spellings.
    #[error("the template is ambiguous: {0}")]
    Ambiguous(#[from] Ambiguous),
    /// A field has another shape.
    #[error("{field} of the template: expected {wanted}")]
    Shape {
        field: String,
        /// The expected shape.
        wanted: &'static str,
    },
    /// A bundle in a basic template has more fields than its image.
    #[error(
        "unexpected fields in a bundle of the template ({0}), expected schema and image; the image \
         provides all other fields"
    )]
    UnexpectedFields(String),
    /// `defaultChannelTypePreference` does not match the generated channels.
    #[error(
        "defaultChannelTypePreference is {preference}, but {preference} channels are not generated; set \
         {missing}: true"
    )]
    Mismatch {
        preference: &'static str,
        /// The field that would generate such channels.
        missing: &'static str,
    },
    /// `defaultChannelTypePreference` is neither major nor minor.
    #[error("unknown defaultChannelTypePreference {0:?}, expected major or minor")]
    UnknownPreference(String),
    /// The template has no bundles.
    #[error("the template has no bundles")]
    NoBundles,
    /// Resolving a bundle failed.
    #[error("failed to get bundle {reference}: {reason}")]
    Bundle {
        /// The reference in the template.
        reference: String,
        reason: String,
    },
    /// A bundle lacks its package or version.
    #[error("failed to add bundle {name:?}: {reason}")]
    Identity { name: String, reason: String },
    /// Bundles of several packages.
    #[error(
        "bundle {name} belongs to package {package}, expected package {expected} of the bundles before it"
    )]
    Package {
        name: String,
        package: String,
        /// The package of the others.
        expected: String,
    },
    /// A duplicate bundle in a list.
    #[error("bundle {name} is in list {list} twice")]
    Duplicate {
        name: String,
        /// `candidate`, `fast` or `stable`.
        list: &'static str,
    },
    /// Versions without an order.
    #[error("bundles {0} and {1} differ only in build metadata and have no order")]
    Unordered(String, String),
    /// A substitution is impossible.
    #[error("failed to substitute {base:?} with {name:?}: {reason}")]
    Substitution {
        /// The substitute's image.
        name: String,
        /// The replaced bundle.
        base: String,
        reason: String,
    },
    /// The input or the result of a template is not a valid catalog.
    #[error("{what} is not a valid catalog: {}", list(.problems))]
    Invalid { what: String, problems: Vec<Problem> },
}

fn list(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| format!("{} [{}]", problem.text, problem.code))
        .collect::<Vec<_>>()
        .join("; ")
}

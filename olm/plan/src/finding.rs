//! Findings: what the preflight has to say.

use serde::{Deserialize, Serialize};

/// One thing that stands in the way of a plan, or that its reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Stable code; `docs/findings/CODE.md` explains it.
    pub code: FindingCode,
    /// Whether it stands in the way.
    pub severity: Severity,
    /// What it is about.
    pub subject: String,
    /// What is the matter.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

/// Whether a finding stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan must not be carried out.
    Block,
    /// It may, but should be looked at.
    Warn,
    /// Good to know.
    Info,
}

/// Stable codes of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FindingCode {
    /// The operator cannot watch the namespaces that it is asked to.
    UnsupportedInstallMode,
    /// The operator needs a newer Kubernetes.
    KubernetesTooOld,
    /// A CRD of the bundle belongs to somebody else.
    CrdOwnedByOther,
    /// The new CRD drops a version that objects are stored in.
    CrdStoredVersionRemoved,
    /// The namespace does not exist and will be created.
    NamespaceMissing,
    /// The namespace has no OperatorGroup; one will be created.
    NoOperatorGroup,
    /// The namespace has several OperatorGroups.
    TooManyOperatorGroups,
    /// The bundle, its channel or its package is deprecated.
    DeprecatedBundle,
    /// The bundle has webhooks, which are not supported yet.
    WebhooksUnsupported,
    /// An API that the operator needs is not there.
    RequiredApiMissing,
    /// The bundle cannot be turned into objects.
    BundleNotRenderable,
    /// Custom resources would be left without an operator, or deleted.
    OperandsPresent,
}

/// Every code.
pub const FINDING_CODES: &[FindingCode] = &[
    FindingCode::UnsupportedInstallMode,
    FindingCode::KubernetesTooOld,
    FindingCode::CrdOwnedByOther,
    FindingCode::CrdStoredVersionRemoved,
    FindingCode::NamespaceMissing,
    FindingCode::NoOperatorGroup,
    FindingCode::TooManyOperatorGroups,
    FindingCode::DeprecatedBundle,
    FindingCode::WebhooksUnsupported,
    FindingCode::RequiredApiMissing,
    FindingCode::BundleNotRenderable,
    FindingCode::OperandsPresent,
];

impl FindingCode {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnsupportedInstallMode => "UnsupportedInstallMode",
            Self::KubernetesTooOld => "KubernetesTooOld",
            Self::CrdOwnedByOther => "CrdOwnedByOther",
            Self::CrdStoredVersionRemoved => "CrdStoredVersionRemoved",
            Self::NamespaceMissing => "NamespaceMissing",
            Self::NoOperatorGroup => "NoOperatorGroup",
            Self::TooManyOperatorGroups => "TooManyOperatorGroups",
            Self::DeprecatedBundle => "DeprecatedBundle",
            Self::WebhooksUnsupported => "WebhooksUnsupported",
            Self::RequiredApiMissing => "RequiredApiMissing",
            Self::BundleNotRenderable => "BundleNotRenderable",
            Self::OperandsPresent => "OperandsPresent",
        }
    }
}

impl std::fmt::Display for FindingCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

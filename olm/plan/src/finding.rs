//! Findings of the preflight.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Maximum number of named items in one line of a finding; the rest is counted.
pub(crate) const MOST_NAMED: usize = 8;

/// A result of a preflight check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Stable code; `docs/findings/CODE.md` explains it.
    #[schemars(schema_with = "schema::word")]
    pub code: FindingCode,
    /// Severity.
    pub severity: Severity,
    /// The subject of the finding.
    pub subject: String,
    /// The object of the plan that it concerns, as `Kind/namespace/name`, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<String>,
    /// The finding, in one sentence.
    pub text: String,
    /// The next step, as a command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

impl Finding {
    /// A finding of its code's usual severity.
    pub(crate) fn new(code: FindingCode, subject: impl ToString, text: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            subject: subject.to_string(),
            object: None,
            text: text.into(),
            fix: None,
        }
    }

    /// The same with another severity than its code's usual one.
    pub(crate) fn severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }

    /// The same with a command as hint.
    pub(crate) fn fix(self, command: impl Into<String>) -> Self {
        Self { fix: Some(command.into()), ..self }
    }
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan must not be applied.
    Block,
    /// The plan may be applied after a review.
    Warn,
    /// For information.
    Info,
}

/// The one table of codes: what each means, and how severe it usually is.
macro_rules! codes {
    ($($(#[$meaning:meta])+ $code:ident: $severity:ident,)+) => {
        /// Stable codes of findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FindingCode {
            $($(#[$meaning])+ $code,)+
        }

        /// Every code.
        pub const FINDING_CODES: &[FindingCode] = &[$(FindingCode::$code,)+];

        impl FindingCode {
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)+
                }
            }

            /// Whether a policy forbids the plan. An approval does not change that.
            pub fn is_denial(self) -> bool {
                matches!(self, Self::PolicyDenies | Self::ImageNotSigned)
            }

            /// The usual severity. A single finding may have another one, as its page describes.
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$code => Severity::$severity,)+
                }
            }
        }
    };
}

// Findings of one severity are listed in this order.
codes! {
    /// The plan grants new permissions of level HIGH.
    HighRightsAdded: Warn,
    /// The operator does not support the target namespaces.
    UnsupportedInstallMode: Block,
    /// The new version does not support the target namespaces of the installed one.
    InstallModeRemoved: Block,
    /// The operator needs a newer Kubernetes.
    KubernetesTooOld: Block,
    /// The bundle cannot be rendered.
    BundleNotRenderable: Block,
    /// The namespace has several OperatorGroups.
    TooManyOperatorGroups: Block,
    /// A dependency of the bundle is neither installed nor part of the plan.
    DependencyMissing: Block,
    /// The caller lacks permissions for the request.
    UserLacksRights: Block,
    /// The installer lacks permissions for objects of the plan.
    InstallerLacksRights: Block,
    /// The operator would receive permissions that the installer may not grant.
    InstallerCannotGrant: Block,
    /// The authority of the plan lacks permissions that the plan uses or grants; the plan waits for an
    /// approver who holds them.
    ApproverLacksRights: Warn,
    /// An InstallPolicy does not allow the bundle, or denies a permission of it.
    PolicyDenies: Block,
    /// An image lacks a signature that an InstallPolicy requires.
    ImageNotSigned: Block,
    /// Failed to read the signatures of an image that an InstallPolicy requires to be signed.
    SignatureUnknown: Block,
    /// An InstallPolicy requires a second approver.
    SecondApproverNeeded: Warn,
    /// An object of the bundle is reserved: it belongs to olm or to Kubernetes.
    ReservedObject: Block,
    /// A CRD of the bundle belongs to another owner.
    CrdOwnedByOther: Block,
    /// The new CRD removes a version in which objects are stored.
    CrdStoredVersionRemoved: Block,
    /// The new CRD has another scope.
    CrdScopeChanged: Block,
    /// The new CRD rejects objects that the current one accepts.
    CrdBreakingChange: Block,
    /// Existing objects are invalid under the new CRD.
    CrdObjectsInvalid: Block,
    /// The new CRD uses a conversion webhook that the bundle does not install.
    CrdConversionUnsupported: Block,
    /// An object of the plan exists and belongs to another owner.
    NameCollision: Block,
    /// The plan changes an immutable field.
    ImmutableField: Block,
    /// The namespace does not admit the operator's pods.
    PodSecurityViolation: Block,
    /// The quota of the namespace would be exceeded.
    QuotaExceeded: Block,
    /// Pods use a PriorityClass that does not exist.
    PriorityClassMissing: Block,
    /// A webhook with failurePolicy Fail has no available backend.
    WebhookUnavailable: Block,
    /// An object of the bundle exceeds the size limit.
    ObjectTooLarge: Block,
    /// The rollback is impossible, or the upgrade cannot be rolled back.
    RollbackImpossible: Block,
    /// Custom resources would be left without an operator, or deleted.
    OperandsPresent: Block,
    /// The upgrade leaves custom resources without an operator.
    CrdRemoved: Warn,
    /// Existing objects lose fields under the new CRD.
    CrdFieldsPruned: Warn,
    /// Others can act as the operator.
    NamespaceTrap: Warn,
    /// A required API is not served.
    RequiredApiMissing: Warn,
    /// No registry serves an image of the plan's pods, and no node has it.
    ImageNotPullable: Warn,
    /// The package is deprecated.
    DeprecatedPackage: Warn,
    /// The channel is deprecated.
    DeprecatedChannel: Warn,
    /// The bundle is deprecated.
    DeprecatedBundle: Warn,
    /// The namespace does not exist and is created.
    NamespaceMissing: Info,
    /// The namespace has no OperatorGroup; one is created.
    NoOperatorGroup: Info,
    /// A check could not be performed.
    NotChecked: Info,
}

impl std::fmt::Display for FindingCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

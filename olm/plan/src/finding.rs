//! Findings of the preflight.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// One thing that stands in the way of a plan, or that its reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Stable code; `docs/findings/CODE.md` explains it.
    #[schemars(schema_with = "schema::word")]
    pub code: FindingCode,
    /// Whether it stands in the way.
    pub severity: Severity,
    /// What it is about.
    pub subject: String,
    /// The object of the plan that it is about, as `Kind/namespace/name`, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<String>,
    /// What is the matter.
    pub text: String,
    /// What to do about it, as a command.
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

/// Whether a finding stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan must not be carried out.
    Block,
    /// It may, but should be looked at.
    Warn,
    /// Good to know.
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

codes! {
    /// The operator cannot watch the namespaces that it is asked to.
    UnsupportedInstallMode: Block,
    /// The new version cannot watch what the old one watches.
    InstallModeRemoved: Block,
    /// The operator needs a newer Kubernetes.
    KubernetesTooOld: Block,
    /// The bundle cannot be turned into objects.
    BundleNotRenderable: Block,
    /// The namespace has several OperatorGroups.
    TooManyOperatorGroups: Block,
    /// Something that the bundle needs is neither there nor installed by the plan.
    DependencyMissing: Block,
    /// Whoever asks may not ask for it.
    UserLacksRights: Block,
    /// Whoever carries the plan out may not write its objects.
    InstallerLacksRights: Block,
    /// The operator would be given rights that whoever carries the plan out may not give away.
    InstallerCannotGrant: Block,
    /// The authority in whose name the plan would be applied lacks rights that it uses or grants; it waits for an approver who holds
    /// them.
    ApproverLacksRights: Warn,
    /// An InstallPolicy does not allow the bundle, or denies a right that it contains.
    PolicyDenies: Block,
    /// An image lacks a signature that an InstallPolicy requires.
    ImageNotSigned: Block,
    /// Failed to read the signatures of an image that an InstallPolicy requires to be signed.
    SignatureUnknown: Block,
    /// An InstallPolicy asks for a second approver.
    SecondApproverNeeded: Warn,
    /// An object of the bundle is reserved: it belongs to olm or to Kubernetes.
    ReservedObject: Block,
    /// A CRD of the bundle belongs to somebody else.
    CrdOwnedByOther: Block,
    /// The new CRD drops a version that objects are stored in.
    CrdStoredVersionRemoved: Block,
    /// The new CRD has another scope.
    CrdScopeChanged: Block,
    /// The new CRD refuses what the old one accepts.
    CrdBreakingChange: Block,
    /// Objects that exist are refused by the new CRD.
    CrdObjectsInvalid: Block,
    /// The new CRD is converted by a webhook that the bundle does not set up.
    CrdConversionUnsupported: Block,
    /// An object of the plan exists and belongs to somebody else.
    NameCollision: Block,
    /// A field would change that never may.
    ImmutableField: Block,
    /// The namespace does not let the operator's pods in.
    PodSecurityViolation: Block,
    /// The namespace's quota is too small.
    QuotaExceeded: Block,
    /// Pods name a PriorityClass that is not there.
    PriorityClassMissing: Block,
    /// A webhook that must answer has nobody behind it.
    WebhookUnavailable: Block,
    /// An object of the bundle is larger than what is written to a cluster.
    ObjectTooLarge: Block,
    /// The step back cannot be made, or the step forward cannot be taken back.
    RollbackImpossible: Block,
    /// Custom resources would be left without an operator, or deleted.
    OperandsPresent: Block,
    /// The upgrade leaves custom resources without an operator.
    CrdRemoved: Warn,
    /// Objects that exist lose fields with the new CRD.
    CrdFieldsPruned: Warn,
    /// Others can act as the operator.
    NamespaceTrap: Warn,
    /// An API that the operator needs is not there.
    RequiredApiMissing: Warn,
    /// The package is deprecated.
    DeprecatedPackage: Warn,
    /// The channel is deprecated.
    DeprecatedChannel: Warn,
    /// The bundle is deprecated.
    DeprecatedBundle: Warn,
    /// The namespace does not exist and will be created.
    NamespaceMissing: Info,
    /// The namespace has no OperatorGroup; one will be created.
    NoOperatorGroup: Info,
    /// Something could not be checked.
    NotChecked: Info,
}

impl std::fmt::Display for FindingCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

//! Stable codes of problems, and their severity.

use serde::Serialize;

use super::safe_fix::SafeFix;

/// How severe a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A malfunction.
    Error,
    /// It works now, and will fail later or leaves objects behind.
    Warning,
    /// Good to know.
    Info,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// The table of codes with their meaning and severity.
macro_rules! codes {
    ($($(#[$meaning:meta])+ $code:ident: $severity:ident,)+) => {
        /// Stable codes; `docs/doctor.md` explains each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Code {
            $($(#[$meaning])+ $code,)+
        }

        /// Every code.
        pub const CODES: &[Code] = &[$(Code::$code,)+];

        impl Code {
            /// The word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)+
                }
            }

            /// Severity of the problem.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$code => Severity::$severity,)+
                }
            }
        }
    };
}

codes! {
    /// The API server does not answer.
    ApiUnreachable: Error,
    /// The API server refuses the credentials of the caller.
    CredentialsRefused: Error,
    /// Another OLM runs.
    OtherOlmRunning: Error,
    /// A CustomResourceDefinition of olm is missing or not served.
    CrdMissing: Error,
    /// A CustomResourceDefinition of olm lacks fields of this version.
    CrdOutdated: Warning,
    /// A CustomResourceDefinition of olm differs from the one of this version.
    CrdDiffers: Error,
    /// Another object of the installation is missing or was changed.
    InstallationDiffers: Error,
    /// The manager is not installed.
    ManagerMissing: Error,
    /// No pod of the manager is ready.
    ManagerNotReady: Error,
    /// The manager has a different version than this program.
    ManagerVersionDiffers: Info,
    /// No replica of the manager leads.
    LeaseStale: Error,
    /// The manager lacks permissions that it requires.
    ManagerLacksRights: Error,
    /// A catalog cannot be read.
    CatalogUnreadable: Error,
    /// A catalog was not refreshed in time.
    CatalogStale: Warning,
    /// Parts of a catalog cannot be used.
    CatalogProblems: Warning,
    /// A Subscription cannot be resolved.
    SubscriptionUnresolved: Error,
    /// A deletion is held.
    DeletionHeld: Error,
    /// A plan makes no progress.
    PlanStuck: Error,
    /// A plan waits for approval.
    PlanWaiting: Info,
    /// An operator is not running.
    OperatorUnhealthy: Error,
    /// A pod of an operator or of `olm` cannot start.
    PodNotStarting: Error,
    /// A custom resource of an operator reports a problem.
    OperandUnhealthy: Error,
    /// A certificate of an operator was not renewed in time.
    CertificateNotRotated: Error,
    /// A namespace with operators has no OperatorGroup.
    NoOperatorGroup: Error,
    /// A namespace has several OperatorGroups.
    TooManyOperatorGroups: Error,
    /// A webhook has no available backend.
    WebhookUnanswered: Error,
    /// An aggregated API does not answer.
    ApiServiceUnavailable: Error,
    /// The API server did not record the author of a Subscription, or of an InstallPolicy that lends permissions.
    AuthorNotRecorded: Warning,
    /// The API server cannot call the webhook that records requests, so it refuses them.
    RequestsRefused: Error,
    /// An operator has no Subscription.
    Unmanaged: Info,
    /// Copies of versions that OLM made.
    CopiedCsv: Warning,
    /// An object whose owner is gone.
    Orphan: Warning,
    /// An OperatorGroup created by a plan, in a namespace without operators.
    UnusedOperatorGroup: Info,
    /// A check could not be performed.
    NotChecked: Info,
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A problem that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub code: Code,
    pub severity: Severity,
    /// The object, as `Kind namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The cause, as far as it is known.
    pub why: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// What `olm doctor --fix` does about it.
    #[serde(rename = "cure", skip_serializing_if = "Option::is_none")]
    pub safe_fix: Option<SafeFix>,
}

impl Problem {
    pub(super) fn new(code: Code, object: Option<String>, why: impl Into<String>) -> Self {
        Self { code, severity: code.severity(), object, why: why.into(), fix: None, safe_fix: None }
    }

    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    pub(super) fn safe_fix(self, safe_fix: SafeFix) -> Self {
        Self { safe_fix: Some(safe_fix), ..self }
    }

    pub(super) fn severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

//! Stable codes of rejections.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident,)+) => {
        /// Why a bundle was not chosen, or why nothing could be. The words are part of the interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $($(#[doc = $doc])+ $code,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)+
                }
            }
        }
    };
}

codes! {
    /// The catalog does not exist.
    UnknownCatalog,
    /// The catalog exists but cannot be read.
    CatalogUnavailable,
    /// The catalog has no such package.
    UnknownPackage,
    /// The package has no such channel.
    UnknownChannel,
    /// No bundle has that version, or none is in that range.
    UnknownVersion,
    /// The channel has no bundle of the name in `startingCSV`.
    UnknownStartingCsv,
    /// The channel's graph has no order.
    BrokenChannel,
    /// The bundle is not in the channel.
    NotInChannel,
    /// No replaces, skips or skipRange leads from the installed version to the bundle.
    NoUpgradeEdge,
    /// Edges lead to the bundle from a version that comes before it on the upgrade path.
    LaterHop,
    /// Another bundle of the channel excludes this one from installation.
    Skipped,
    /// `skipVersions` of the Subscription lists it.
    SkipVersions,
    /// The bundle has the property `olm.deprecated`.
    Deprecated,
    /// The bundle needs a newer Kubernetes.
    KubernetesTooOld,
    /// The bundle does not run on an OpenShift as new as this.
    OpenShiftTooNew,
    /// A policy of the cluster forbids the bundle.
    ForbiddenByPolicy,
    /// Something that the bundle needs cannot be had.
    DependencyUnsatisfied,
    /// An operator that is there owns an API that the bundle provides.
    ApiOwnedBy,
    /// A range, a pin or `startingCSV` asks for something else.
    Pinned,
    /// An installed operator needs another version of this package.
    RequiredByInstalled,
    /// Two requests cannot both be met.
    RequestsConflict,
    /// The bundle has a kind of constraint that is not understood.
    UnsupportedConstraint,
    /// A better one was chosen.
    Older,
    /// The search gave up within its budget.
    GaveUp,
}

impl Code {
    /// Whether the request names something that does not exist (exit code 3 of the command line).
    pub fn is_not_found(self) -> bool {
        matches!(
            self,
            Self::UnknownCatalog
                | Self::UnknownPackage
                | Self::UnknownChannel
                | Self::UnknownVersion
                | Self::UnknownStartingCsv
        )
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

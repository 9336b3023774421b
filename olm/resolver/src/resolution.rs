//! What was chosen, and why nothing else was.

use std::sync::Arc;

use olm_version::Version;
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::explain::{Explanation, Fix};
use crate::request::InstalledRef;
use crate::universe::CatalogRef;
use olm_constraint::Gvk;

/// What was chosen for every request, in the order of the requests.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// One per request. Requests that fail together share their explanation.
    pub items: Vec<Result<Resolved, Arc<Explanation>>>,
}

/// What was chosen for one request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// The Subscription (`namespace/name`).
    pub subscription: String,
    /// Install, upgrade or nothing.
    pub action: Action,
    /// The bundle to have now: the next hop of an upgrade, or what is installed when there is none.
    pub chosen: ChosenBundle,
    pub from: Option<InstalledRef>,
    /// The hops from what is installed to the newest that can be reached; the first one is `chosen`.
    pub path: Vec<Hop>,
    /// Why this one, in a sentence.
    pub why: String,
    /// Candidates that were not chosen, newest first.
    pub rejected: Vec<Rejected>,
    /// What the chosen bundle needs, directly and indirectly, and where it comes from.
    pub dependencies: Vec<Dependency>,
    /// What the catalog says about the deprecation of the package, the channel and the bundle.
    pub deprecations: Vec<String>,
}

/// What to do for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Nothing is installed: install the chosen bundle.
    Install,
    /// Go from the installed bundle to the chosen one; also back, where that was asked for.
    Upgrade,
    /// What is installed is the best.
    None,
}

impl Action {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::None => "none",
        }
    }
}

/// A bundle and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChosenBundle {
    pub catalog: CatalogRef,
    pub package: String,
    /// The channel it was found in.
    pub channel: String,
    pub name: String,
    pub version: Option<Version>,
}

impl ChosenBundle {
    /// The version, or the name of a bundle that has none.
    pub fn version_text(&self) -> String {
        self.version.as_ref().map_or_else(|| self.name.clone(), ToString::to_string)
    }
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Name of the bundle.
    pub name: String,
    pub version: Option<Version>,
    pub channel: String,
    /// What leads there.
    pub via: HopVia,
}

/// What leads from one bundle to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopVia {
    /// It is the first.
    Install,
    /// `replaces`.
    Replaces,
    /// `skips`.
    Skips,
    /// `skipRange`.
    SkipRange,
    /// The user asked for it (`upgradeConstraintPolicy: SelfCertified`).
    SelfCertified,
}

/// A candidate that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    /// Name of the bundle.
    pub name: String,
    pub version: Option<Version>,
    pub channels: Vec<String>,
    /// Why not.
    pub code: Code,
    /// Why not, in words.
    pub text: String,
    /// What would change it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<Fix>,
}

/// Something that a chosen bundle needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    pub need: Need,
    /// The bundle that needs it.
    pub required_by: String,
    /// Where it comes from.
    pub satisfied_by: SatisfiedBy,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Need {
    Api(Gvk),
    /// A package in a range.
    Package {
        /// The package.
        name: String,
        range: String,
    },
    /// Anything else, in words.
    Other(String),
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Api(gvk) => write!(f, "API {gvk}"),
            Self::Package { name, range } => write!(f, "package {name} {range}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Where something that is needed comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SatisfiedBy {
    /// It is installed along with the chosen bundle.
    Install(ChosenBundle),
    /// It is what another request of the same resolution gets.
    Request {
        /// The Subscription (`namespace/name`).
        subscription: String,
        /// Name of the bundle.
        name: String,
    },
    /// An operator that is there provides it.
    Installed {
        /// Name of its ClusterServiceVersion.
        name: String,
        /// Namespace of its ClusterServiceVersion.
        namespace: String,
    },
    /// The cluster serves it.
    Cluster {
        /// Who owns it, as far as known.
        owner: Option<String>,
    },
}

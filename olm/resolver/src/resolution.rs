//! Result of a resolution, and the reasons.

use std::sync::Arc;

use olm_version::Version;
use serde::{Deserialize, Serialize};

use crate::bundle::CatalogRef;
use crate::code::Code;
use crate::explain::{Explanation, Fix};
use crate::request::InstalledRef;
use olm_constraint::Gvk;

/// The choice for every request, in the order of the requests.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// One per request. Requests that fail together share their explanation.
    pub items: Vec<Result<Resolved, Arc<Explanation>>>,
}

/// The choice for one request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// The Subscription (`namespace/name`).
    pub subscription: String,
    pub action: Action,
    /// The bundle to install now: the next hop of an upgrade, or the installed one when there is none.
    pub chosen: ChosenBundle,
    pub from: Option<InstalledRef>,
    /// The hops from the installed bundle to the newest reachable one; the first one is `chosen`.
    pub path: Vec<Hop>,
    /// Why it was chosen, in a sentence.
    pub why: String,
    /// Rejected candidates, newest first.
    pub rejected: Vec<Rejected>,
    /// Direct and indirect dependencies of the chosen bundle, with their sources.
    pub dependencies: Vec<Dependency>,
    /// Deprecation messages of the package, the channel and the bundle.
    pub deprecations: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Nothing is installed: install the chosen bundle.
    Install,
    /// Change from the installed bundle to the chosen one; also to an older one, where requested.
    Upgrade,
    /// The installed bundle is the best.
    None,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::None => "none",
        }
    }
}

/// A bundle and its source.
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

/// One hop of an upgrade path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Name of the bundle.
    pub name: String,
    pub version: Option<Version>,
    pub channel: String,
    /// The edge to it.
    pub via: HopVia,
}

/// The kind of an edge.
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
    /// Requested by the user (`upgradeConstraintPolicy: SelfCertified`).
    SelfCertified,
}

/// A rejected candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    /// Name of the bundle.
    pub name: String,
    pub version: Option<Version>,
    pub channels: Vec<String>,
    pub code: Code,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<Fix>,
}

/// A requirement of a chosen bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    pub need: Need,
    /// The dependent bundle.
    pub required_by: String,
    pub satisfied_by: SatisfiedBy,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Need {
    Api(Gvk),
    /// A package in a range.
    Package {
        name: String,
        range: String,
    },
    /// Anything else, as text.
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

/// What meets a requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SatisfiedBy {
    /// It is installed along with the chosen bundle.
    Install(ChosenBundle),
    /// It is the choice for another request of the same resolution.
    Request {
        /// The Subscription (`namespace/name`).
        subscription: String,
        /// Name of the bundle.
        name: String,
    },
    /// An installed operator provides it.
    Installed {
        /// Name of its ClusterServiceVersion.
        name: String,
        /// Namespace of its ClusterServiceVersion.
        namespace: String,
    },
    /// The cluster serves it.
    Cluster {
        /// Its owner, as far as known.
        owner: Option<String>,
    },
}

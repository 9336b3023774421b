//! What the cluster has.

use std::collections::BTreeMap;

use olm_version::Version;

use crate::universe::{AnyNeed, Gvk, PackageNeed};

/// What the cluster has.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of Kubernetes; unknown versions reject nothing.
    pub kubernetes: Option<Version>,
    /// Served APIs that are not built in, with their owners as far as known.
    pub apis: BTreeMap<Gvk, ApiFact>,
    /// Operators that are installed, in any order.
    pub installed: Vec<Installed>,
}

/// One served API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiFact {
    /// Who owns it, in words, such as `Helm release etcd`. Operators that are installed need not be repeated here.
    pub owner: Option<String>,
}

/// One operator that is installed.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// Name of its ClusterServiceVersion.
    pub name: String,
    /// Namespace of its ClusterServiceVersion.
    pub namespace: String,
    /// Its package, as far as known.
    pub package: Option<String>,
    /// Its version.
    pub version: Option<Version>,
    /// The Subscription (`namespace/name`) that has it installed.
    pub subscription: Option<String>,
    /// APIs that it provides.
    pub provides: Vec<Gvk>,
    /// APIs that it needs.
    pub requires_apis: Vec<Gvk>,
    /// Packages that it needs.
    pub requires_packages: Vec<PackageNeed>,
    /// Choices of which it needs one each.
    pub requires_any: Vec<AnyNeed>,
}

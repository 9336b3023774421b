//! What the cluster has.

use std::collections::BTreeMap;

use olm_constraint::{Constraint, Gvk, Property, Subject};
use olm_version::Version;

use crate::allow::Allowlist;

/// What the cluster has.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of Kubernetes; unknown versions reject nothing.
    pub kubernetes: Option<Version>,
    /// Version of OpenShift, where the cluster is one.
    pub openshift: Option<Version>,
    /// Served APIs that are not built in, with their owners as far as known.
    pub apis: BTreeMap<Gvk, ApiFact>,
    /// Operators that are installed, in any order.
    pub installed: Vec<Installed>,
    /// What every bundle that is chosen must meet, whoever asks for it. It does not touch what is installed.
    pub policy: Vec<Constraint>,
    /// Every bundle that is chosen must be on each of these lists. They do not touch what is installed.
    pub allow: Vec<Allowlist>,
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
    pub version: Option<Version>,
    /// The Subscription (`namespace/name`) that has it installed.
    pub subscription: Option<String>,
    /// APIs that it provides.
    pub provides: Vec<Gvk>,
    /// What it needs.
    pub requires: Vec<Constraint>,
    /// Labels that others can ask for.
    pub labels: Vec<String>,
    /// Properties that expressions can look at.
    pub properties: Vec<Property>,
}

impl Installed {
    /// The operator as constraints see it; `package` is what a request knows it as.
    pub(crate) fn subject<'a>(&'a self, package: Option<&'a str>) -> Subject<'a> {
        Subject {
            package: package.or(self.package.as_deref()),
            version: self.version.as_ref(),
            provides: &self.provides,
            labels: &self.labels,
            properties: &self.properties,
        }
    }
}

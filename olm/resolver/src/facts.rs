//! Facts about the cluster.

use std::collections::BTreeMap;

use olm_constraint::{Constraint, Gvk, Property, Subject};
use olm_version::Version;

use crate::allow::Allowlist;
use crate::bundle::unmet;

#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of Kubernetes; unknown versions reject nothing.
    pub kubernetes: Option<Version>,
    /// Version of OpenShift, where the cluster is one.
    pub openshift: Option<Version>,
    /// Served APIs that are not built in, with their owners as far as known.
    pub apis: BTreeMap<Gvk, ApiFact>,
    /// Installed operators, in any order.
    pub installed: Vec<Installed>,
    /// Constraints on every chosen bundle. They do not affect installed operators.
    pub policy: Vec<Constraint>,
    /// Every chosen bundle must be on each of these lists. They do not affect installed operators.
    pub allow: Vec<Allowlist>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiFact {
    /// Its owner, such as `Helm release etcd`. Installed operators need not be repeated here.
    pub owner: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// Name of its ClusterServiceVersion.
    pub name: String,
    /// Namespace of its ClusterServiceVersion.
    pub namespace: String,
    /// Its package, as far as known.
    pub package: Option<String>,
    pub version: Option<Version>,
    /// The Subscription (`namespace/name`) that installed it.
    pub subscription: Option<String>,
    pub provides: Vec<Gvk>,
    pub requires: Vec<Constraint>,
    /// Labels for constraints.
    pub labels: Vec<String>,
    /// Properties for expressions.
    pub properties: Vec<Property>,
}

impl Installed {
    /// The operator for constraints; `package` is its package in a request.
    pub(crate) fn subject<'a>(&'a self, package: Option<&'a str>) -> Subject<'a> {
        Subject {
            package: package.or(self.package.as_deref()),
            version: self.version.as_ref(),
            provides: &self.provides,
            labels: &self.labels,
            properties: &self.properties,
        }
    }

    /// Requirements that it does not provide itself.
    pub(crate) fn needs(&self) -> Vec<&Constraint> {
        unmet(&self.requires, &self.subject(None))
    }
}

//! Bundles, and the channels and catalogs that list them.

use olm_constraint::{Constraint, Gvk, Property, Subject};
use olm_version::{Range, Version};
use serde::{Deserialize, Serialize};

/// Namespace and name of a CatalogSource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CatalogRef {
    pub namespace: String,
    pub name: String,
}

impl CatalogRef {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for CatalogRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Channel {
    pub name: String,
    /// Deprecation message of the catalog.
    pub deprecated: Option<String>,
    pub entries: Vec<Entry>,
}

/// One node of an upgrade graph. Its edges lead *into* it.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Name of the bundle.
    pub name: String,
    /// Name of the replaced bundle.
    pub replaces: Option<String>,
    /// Names of further bundles that it upgrades from.
    pub skips: Vec<String>,
    /// Versions that it upgrades from. An invalid range is left out, as in OLM.
    pub skip_range: Option<Range>,
}

#[derive(Clone, Debug, Default)]
pub struct Bundle {
    pub name: String,
    pub version: Option<Version>,
    pub provides: Vec<Gvk>,
    /// Its requirements; each is met by one bundle or operator.
    pub requires: Vec<Constraint>,
    /// Labels for constraints (`olm.label`).
    pub labels: Vec<String>,
    /// Properties for expressions.
    pub properties: Vec<Property>,
    /// Deprecation message of the catalog (`olm.deprecations`): reported, and others are preferred.
    pub deprecated: Option<String>,
    /// Whether it has the property `olm.deprecated`: never chosen.
    pub prohibited: bool,
    /// Minimum Kubernetes version.
    pub min_kube_version: Option<Version>,
    /// Maximum OpenShift version (major and minor).
    pub max_openshift_version: Option<Version>,
    /// An invalid constraint, as text; a bundle with one is not chosen.
    pub unsupported: Option<String>,
}

impl Bundle {
    /// The bundle for constraints.
    pub fn subject<'a>(&'a self, package: &'a str) -> Subject<'a> {
        Subject {
            package: Some(package),
            version: self.version.as_ref(),
            provides: &self.provides,
            labels: &self.labels,
            properties: &self.properties,
        }
    }

    /// Requirements that it does not provide itself.
    pub(crate) fn needs(&self, package: &str) -> Vec<&Constraint> {
        unmet(&self.requires, &self.subject(package))
    }
}

/// The requirements that a subject does not meet itself. The author's order has no effect.
pub(crate) fn unmet<'a>(requires: &'a [Constraint], subject: &Subject<'_>) -> Vec<&'a Constraint> {
    let mut list: Vec<_> = requires.iter().filter(|need| !need.met_by(subject)).collect();
    list.sort();
    list.dedup();
    list
}

//! Inputs of plans.

use std::collections::BTreeMap;

use olm_api::subscription::Approval;
use olm_bundle::{Bundle, RenderError, Rendered};
use olm_resolver::Resolved;
use serde_json::Value;

use crate::facts::ClusterFacts;
use crate::object::ObjectRef;

/// Live objects by reference. A missing one does not exist.
pub type Live = BTreeMap<ObjectRef, Value>;

/// Input of a plan for an install or an upgrade.
#[derive(Clone, Debug)]
pub struct PlanInput<'a> {
    /// Namespace of the operator.
    pub namespace: &'a str,
    /// Name of the Subscription.
    pub subscription: &'a str,
    pub approval: Approval,
    /// The resolver's choice.
    pub resolved: &'a Resolved,
    /// Digest of the bundle's catalog.
    pub catalog_digest: &'a str,
    /// The chosen bundle.
    pub bundle: &'a Bundle,
    /// Its objects, or the rendering error.
    pub rendered: Result<&'a Rendered, &'a RenderError>,
    /// The objects of the installed bundle, rendered for the same namespaces.
    pub previous: Option<&'a Rendered>,
    /// Every OperatorGroup of the namespace.
    pub operator_groups: &'a [Value],
    /// The namespaces to watch; empty or `[""]` means all. For the OperatorGroup that is created when none
    /// exists.
    pub target_namespaces: &'a [String],
    /// Other facts about the cluster.
    pub facts: &'a ClusterFacts,
}

impl<'a> PlanInput<'a> {
    /// Names of the bundle's versions whose objects count as the package's own.
    pub(crate) fn bundle_names(&self) -> Vec<&'a str> {
        let mut names = vec![self.resolved.chosen.name.as_str()];
        names.extend(self.resolved.from.as_ref().map(|from| from.name.as_str()));
        names
    }
}

//! What plans are made from.

use std::collections::BTreeMap;

use olm_api::subscription::Approval;
use olm_bundle::{Bundle, RenderError, Rendered};
use olm_resolver::Resolved;
use serde_json::Value;

use crate::facts::ClusterFacts;
use crate::object::ObjectRef;

/// Objects as they are on the cluster, by reference. What is not in it is not there.
pub type Live = BTreeMap<ObjectRef, Value>;

/// What a plan for an install or an upgrade is made from.
#[derive(Clone, Debug)]
pub struct PlanInput<'a> {
    /// Namespace of the operator.
    pub namespace: &'a str,
    /// Name of the Subscription.
    pub subscription: &'a str,
    /// Who approves.
    pub approval: Approval,
    /// What the resolver chose.
    pub resolved: &'a Resolved,
    /// Digest of the catalog that the bundle comes from.
    pub catalog_digest: &'a str,
    /// The bundle that was chosen.
    pub bundle: &'a Bundle,
    /// Its objects, or why it has none.
    pub rendered: Result<&'a Rendered, &'a RenderError>,
    /// The objects of the bundle that is installed now, rendered for the same namespaces.
    pub previous: Option<&'a Rendered>,
    /// Every OperatorGroup of the namespace.
    pub operator_groups: &'a [Value],
    /// The namespaces to watch; empty or `[""]` means all. Used for the OperatorGroup that is made when there is none.
    pub target_namespaces: &'a [String],
    /// What else is known of the cluster.
    pub facts: &'a ClusterFacts,
}

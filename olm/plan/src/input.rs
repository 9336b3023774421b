//! What plans are made from.

use std::collections::BTreeMap;

use olm_api::subscription::{Approval, DeletionPolicy};
use olm_bundle::{Bundle, RenderError, Rendered};
use olm_resolver::{Gvk, Resolved, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// What is known of the cluster beside its objects.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// Version of Kubernetes.
    pub kubernetes: Option<Version>,
    /// Custom APIs that are served.
    pub apis: Vec<Gvk>,
}

/// What a plan for an uninstall is made from.
#[derive(Clone, Debug)]
pub struct UninstallInput<'a> {
    /// Namespace of the operator.
    pub namespace: &'a str,
    /// Name of the Subscription.
    pub subscription: &'a str,
    /// The package.
    pub package: &'a str,
    /// The ClusterServiceVersion that is installed, if it is there.
    pub csv: Option<&'a Value>,
    /// The objects of the bundle that is installed.
    pub rendered: Option<&'a Rendered>,
    /// Custom resources of the operator's CRDs, counted.
    pub operands: &'a [Operand],
    /// What else to delete.
    pub policy: DeletionPolicy,
}

/// Custom resources of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operand {
    /// Their kind.
    pub gvk: Gvk,
    /// Name of their CRD.
    pub crd: String,
    /// How many there are; `None` when they could not be listed.
    pub count: Option<usize>,
    /// Some of them, as `namespace/name`.
    pub examples: Vec<String>,
}

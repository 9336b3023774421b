//! Inputs of uninstall plans.

use std::collections::BTreeSet;

use olm_api::subscription::DeletionPolicy;
use olm_bundle::Rendered;
use olm_resolver::Gvk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Dependency;
use crate::object::ObjectRef;
use crate::schema;

/// Input of an uninstall plan.
#[derive(Clone, Debug)]
pub struct UninstallInput<'a> {
    /// Namespace of the operator.
    pub namespace: &'a str,
    /// Name of the Subscription, where there is one.
    pub subscription: Option<&'a str>,
    pub package: &'a str,
    /// The installed ClusterServiceVersion, if it exists.
    pub csv: Option<&'a Value>,
    /// The name of the version that it is just replacing, if any.
    pub replaced: Option<&'a str>,
    /// The objects of the installed bundle.
    pub rendered: Option<&'a Rendered>,
    /// Custom resources of the operator's CRDs, counted.
    pub operands: &'a [Operand],
    /// The known ones individually.
    pub instances: &'a [ObjectRef],
    /// The OperatorGroup created by a plan and without another user.
    pub operator_group: Option<&'a str>,
    /// Dependencies of it, or of an operator removed with it, in the order of removal.
    pub dependencies: &'a [Dependency<'a>],
    /// Leases of it and of its dependencies.
    pub leases: &'a [OperatorLease],
    /// Objects that the caller may not read: they may exist.
    pub unreadable: &'a BTreeSet<ObjectRef>,
    pub policy: DeletionPolicy,
}

/// A Lease that a process of the operator created for leader election. No manifest has it, and it outlives the
/// process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorLease {
    pub reference: ObjectRef,
    /// Name of the operator's Deployment whose pod holds it.
    pub deployment: String,
}

/// Custom resources of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operand {
    /// Kind of the custom resources.
    #[schemars(with = "schema::Gvk")]
    pub gvk: Gvk,
    /// Name of their CRD.
    pub crd: String,
    /// Number of custom resources; absent if they could not be listed.
    pub count: Option<usize>,
    /// Examples, as `namespace/name`.
    pub examples: Vec<String>,
}

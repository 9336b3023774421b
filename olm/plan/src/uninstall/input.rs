//! What plans for uninstalls are made from.

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

/// What a plan for an uninstall is made from.
#[derive(Clone, Debug)]
pub struct UninstallInput<'a> {
    /// Namespace of the operator.
    pub namespace: &'a str,
    /// Name of the Subscription, where there is one.
    pub subscription: Option<&'a str>,
    /// The package.
    pub package: &'a str,
    /// The ClusterServiceVersion that is installed, if it is there.
    pub csv: Option<&'a Value>,
    /// The name of the version that it is just replacing, if any.
    pub replaced: Option<&'a str>,
    /// The objects of the bundle that is installed.
    pub rendered: Option<&'a Rendered>,
    /// Custom resources of the operator's CRDs, counted.
    pub operands: &'a [Operand],
    /// The same one by one, those that are known.
    pub instances: &'a [ObjectRef],
    /// The OperatorGroup that a plan made and nobody else needs.
    pub operator_group: Option<&'a str>,
    /// What was installed for it, or for something that goes with it, in the order in which it goes.
    pub dependencies: &'a [Dependency<'a>],
    /// Objects that whoever asks may not look at: they may be there.
    pub unreadable: &'a BTreeSet<ObjectRef>,
    /// What else to delete.
    pub policy: DeletionPolicy,
}

/// Custom resources of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operand {
    /// Their kind.
    #[schemars(with = "schema::Gvk")]
    pub gvk: Gvk,
    /// Name of their CRD.
    pub crd: String,
    /// How many there are; `None` when they could not be listed.
    pub count: Option<usize>,
    /// Some of them, as `namespace/name`.
    pub examples: Vec<String>,
}

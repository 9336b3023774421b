//! The input of the checks.

use std::collections::BTreeSet;

use olm_bundle::{Manifest, Phase};
use serde_json::Value;

use crate::input::{Live, PlanInput};
use crate::object::ObjectRef;
use crate::plan::{PermissionDelta, PlanAction, PlannedObject, Reversible};

/// Input of the checks: the input of the plan, and its computed parts.
pub(crate) struct Context<'a> {
    pub(crate) input: &'a PlanInput<'a>,
    pub(crate) live: &'a Live,
    /// The manifests to apply.
    pub(crate) wanted: &'a [(Phase, ObjectRef, Manifest)],
    /// The operation on each object.
    pub(crate) objects: &'a [PlannedObject],
    /// CRDs whose versions, with their schemas, are known to be unchanged.
    pub(crate) same_versions: &'a BTreeSet<&'a ObjectRef>,
    pub(crate) action: PlanAction,
    pub(crate) permissions: &'a PermissionDelta,
    pub(crate) reversible: &'a Reversible,
}

impl<'a> Context<'a> {
    /// The manifests to apply of one kind, whatever their API version.
    pub(super) fn of_kind(
        &self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectRef, &'a Value)> {
        let matching = move |r: &ObjectRef| r.kind == kind && r.group() == group;
        self.wanted.iter().filter(move |(_, r, _)| matching(r)).map(|(_, r, manifest)| (r, &**manifest))
    }

    pub(super) fn crds(&self) -> impl Iterator<Item = (&'a ObjectRef, &'a Value)> {
        self.of_kind("apiextensions.k8s.io", "CustomResourceDefinition")
    }

    pub(super) fn replaced(&self) -> Option<&'a Value> {
        let from = self.input.resolved.from.as_ref()?;
        if from.name == self.input.resolved.chosen.name {
            return None;
        }
        self.live.get(&crate::desired::csv_ref(self.input.namespace, &from.name))
    }

    /// The live namespace of the operator.
    pub(super) fn namespace(&self) -> Option<&'a Value> {
        self.live.get(&crate::desired::namespace_ref(self.input.namespace))
    }
}

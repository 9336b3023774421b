//! Everything that could block an install or an upgrade, reported at once.
//!
//! Each module checks one aspect. All are functions of the plan's input, the live objects and the facts; an
//! unknown fact gives no finding, and where it is relevant one line of
//! [`FindingCode::NotChecked`](crate::FindingCode::NotChecked).

mod access;
mod apis;
mod bundle;
mod collision;
mod crd;
mod immutable;
pub(crate) mod json;
mod namespace;
mod needed;
mod pod;
mod pod_security;
mod policy;
mod priority_class;
mod quota;
mod report;
mod reserved;
mod rights;
mod rollback;
mod trap;
mod upgrade;
mod webhook;

use std::collections::BTreeSet;

use olm_bundle::{Manifest, Phase};
use serde_json::Value;

use crate::finding::Finding;
use crate::input::{Live, PlanInput};
use crate::object::ObjectRef;
use crate::plan::{PermissionDelta, PlanAction, PlannedObject, Reversible};

pub(crate) use access::add;
pub use access::{Access, Rule};
pub(crate) use crd::removed_stored_versions;
pub(crate) use json::{plural, some_of};
pub use needed::{FactsNeeded, KindNeeded, kinds_needed, namespaces_to_ask, roles_needed, services_needed};
pub(crate) use policy::lending;
pub(crate) use report::MOST_NAMED;
use report::Report;
pub(crate) use rights::demands;

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
    fn of_kind(&self, group: &'a str, kind: &'a str) -> impl Iterator<Item = (&'a ObjectRef, &'a Value)> {
        let matching = move |r: &ObjectRef| r.kind == kind && r.group() == group;
        self.wanted.iter().filter(move |(_, r, _)| matching(r)).map(|(_, r, manifest)| (r, &**manifest))
    }

    fn crds(&self) -> impl Iterator<Item = (&'a ObjectRef, &'a Value)> {
        self.of_kind("apiextensions.k8s.io", "CustomResourceDefinition")
    }

    fn replaced(&self) -> Option<&'a Value> {
        let from = self.input.resolved.from.as_ref()?;
        if from.name == self.input.resolved.chosen.name {
            return None;
        }
        self.live.get(&crate::desired::csv_ref(self.input.namespace, &from.name))
    }

    /// The live namespace of the operator.
    fn namespace(&self) -> Option<&'a Value> {
        self.live.get(&crate::desired::namespace_ref(self.input.namespace))
    }
}

/// Every check. None depends on another, so the order does not matter.
const CHECKS: &[fn(&Context<'_>, &mut Report)] = &[
    bundle::check,
    namespace::check,
    apis::check,
    rights::check,
    policy::check,
    crd::check,
    reserved::check,
    collision::check,
    immutable::check,
    pod_security::check,
    quota::check,
    priority_class::check,
    webhook::check,
    trap::check,
    upgrade::check,
    rollback::check,
];

/// All findings, the most severe first.
pub(crate) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let mut report = Report::default();
    for reference in &context.input.facts.unreadable {
        report.not_checked(format!("the current state of {reference}"), "no permission to read it");
    }
    for check in CHECKS {
        check(context, &mut report);
    }
    report.into_findings(context.input)
}

/// Names of the bundle's versions whose objects count as the package's own.
pub(crate) fn bundle_names<'a>(input: &PlanInput<'a>) -> Vec<&'a str> {
    let mut names = vec![input.resolved.chosen.name.as_str()];
    names.extend(input.resolved.from.as_ref().map(|from| from.name.as_str()));
    names
}

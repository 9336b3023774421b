//! Plans for uninstalls.

mod findings;
mod input;

use olm_api::subscription::{CrdPolicy, OperandPolicy};
use olm_bundle::Phase;
use serde_json::{Value, json};

use crate::desired::csv_ref;
use crate::digest::{self, Parts};
use crate::images::PlanImage;
use crate::input::Live;
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_of};
use crate::permissions;
use crate::plan::{API_VERSION, Plan, PlanAction, Reversible, Why};
use crate::planned::{Op, PlannedObject};
use findings::findings;

pub use input::{Operand, UninstallInput};

/// The objects that [`make_uninstall_plan`] has to know the live state of.
pub fn uninstall_reads(input: &UninstallInput<'_>) -> Vec<ObjectRef> {
    let mut list: Vec<ObjectRef> = direct(input);
    let objects = input.rendered.into_iter().flat_map(|r| r.objects());
    list.extend(objects.filter_map(|(_, object)| ObjectRef::of(object)));
    list.sort();
    list.dedup();
    list
}

fn csv_name<'a>(input: &UninstallInput<'a>) -> Option<&'a str> {
    input.csv?.pointer("/metadata/name")?.as_str()
}

/// What stands for the operator: the Subscription first, so that nothing comes back; the version that is being replaced
/// before the one that replaces it, which it would otherwise come back to life as.
fn direct(input: &UninstallInput<'_>) -> Vec<ObjectRef> {
    let namespace = Some(input.namespace);
    let subscription = input
        .subscription
        .map(|name| ObjectRef::new("operators.coreos.com/v1alpha1", "Subscription", namespace, name));
    let versions = input.replaced.into_iter().chain(csv_name(input));
    let group = input
        .operator_group
        .map(|name| ObjectRef::new("operators.coreos.com/v1", "OperatorGroup", namespace, name));
    subscription.into_iter().chain(versions.map(|name| csv_ref(input.namespace, name))).chain(group).collect()
}

/// Works out what an uninstall will do, in this order: the custom resources if asked for, while the operator can still
/// clean up after them; the Subscription; the ClusterServiceVersion, and with it the objects of the operator from its
/// workloads back to its rights; the CRDs last, and only when asked for.
///
/// Objects that go with the ClusterServiceVersion say so ([`PlannedObject::goes_with`]): garbage collection and the
/// manager delete them. The others are for whoever carries the plan out.
pub fn make_uninstall_plan(input: &UninstallInput<'_>, live: &Live) -> Plan {
    let mut draft = Draft { input, live, objects: Vec::new() };
    draft.instances();
    let (group, others): (Vec<ObjectRef>, Vec<ObjectRef>) =
        direct(input).into_iter().partition(|reference| reference.kind == "OperatorGroup");
    for reference in &others {
        draft.push(reference, Op::Delete, None);
    }
    let mut rendered: Vec<(Phase, ObjectRef)> = input
        .rendered
        .into_iter()
        .flat_map(|r| r.objects())
        .filter_map(|(phase, object)| Some((phase, ObjectRef::of(object)?)))
        .collect();
    rendered.sort_by_key(|(phase, _)| std::cmp::Reverse(*phase));
    let (crds, parts): (Vec<_>, Vec<_>) =
        rendered.into_iter().map(|(_, r)| r).partition(|r| r.kind == "CustomResourceDefinition");
    draft.parts(&parts);
    for reference in &group {
        draft.push(reference, Op::Delete, Some("a plan made it, and no other operator needs it".to_owned()));
    }
    let crds_go = draft.crds(&crds);
    let objects = draft.objects;

    let mut operands = input.operands.to_vec();
    operands.sort_by(|a, b| a.crd.cmp(&b.crd));
    let lost = (input.policy.operands == OperandPolicy::Delete || crds_go)
        && operands.iter().any(|operand| operand.count != Some(0));
    let (digest, parts) = digest(input, &objects);
    let name = csv_name(input);
    let version = input.csv.and_then(|c| c.pointer("/spec/version")?.as_str()).map(str::to_owned);
    Plan {
        api_version: API_VERSION.to_owned(),
        digest,
        catalog_digest: None,
        action: PlanAction::Uninstall,
        namespace: input.namespace.to_owned(),
        subscription: input.subscription.unwrap_or_default().to_owned(),
        package: input.package.to_owned(),
        channel: None,
        from_channel: None,
        bundle: name.unwrap_or_default().to_owned(),
        from: version.or_else(|| name.map(str::to_owned)),
        to: None,
        path: Vec::new(),
        why: Why::default(),
        dependencies: Vec::new(),
        permissions: permissions::delta(input.rendered, None),
        findings: findings(input, &operands, crds_go),
        images: Vec::<PlanImage>::new(),
        requires_approval: false,
        reversible: Reversible {
            possible: !lost,
            reason: lost.then(|| "custom resources are deleted with their data".to_owned()),
        },
        operands,
        parts,
        manifests: Default::default(),
        objects,
    }
}

/// The list of objects as it grows.
struct Draft<'a> {
    input: &'a UninstallInput<'a>,
    live: &'a Live,
    objects: Vec<PlannedObject>,
}

impl Draft<'_> {
    /// What is not there is not listed; what may not be looked at is, because it may be there.
    fn push(&mut self, reference: &ObjectRef, op: Op, note: Option<String>) {
        let note = match (self.live.contains_key(reference), self.input.unreadable.contains(reference)) {
            (true, _) => note,
            (false, true) => {
                Some(note.unwrap_or_else(|| "you may not look at it; it may be there".to_owned()))
            }
            (false, false) => return,
        };
        self.objects.push(PlannedObject { note, ..PlannedObject::new(reference, op, None) });
    }

    fn instances(&mut self) {
        let (op, note) = match self.input.policy.operands {
            OperandPolicy::Delete => (Op::Delete, None),
            OperandPolicy::Orphan | OperandPolicy::Abort => {
                (Op::Noop, Some("kept: it runs on without an operator".to_owned()))
            }
        };
        let object = |r| PlannedObject { note: note.clone(), ..PlannedObject::new(r, op, None) };
        self.objects.extend(self.input.instances.iter().map(object));
    }

    /// The operator's own objects, which go with its version.
    fn parts(&mut self, parts: &[ObjectRef]) {
        let version = csv_name(self.input).map(|name| csv_ref(self.input.namespace, name).to_string());
        for reference in parts {
            match self.owner(reference) {
                Owner::Other(other) => {
                    self.push(reference, Op::Noop, Some(format!("kept: owned by {other}")))
                }
                _ => {
                    let before = self.objects.len();
                    self.push(reference, Op::Delete, None);
                    for object in &mut self.objects[before..] {
                        object.goes_with.clone_from(&version);
                    }
                }
            }
        }
    }

    /// Returns whether any CRD goes.
    fn crds(&mut self, crds: &[ObjectRef]) -> bool {
        let mut any = false;
        for reference in crds {
            let shared = self.live.get(reference).and_then(|there| shared_with(there, self.input));
            let note = match (self.input.policy.crds, self.owner(reference), shared) {
                (CrdPolicy::Keep, ..) => Some(
                    "kept: with it all its objects would go (deletionPolicy.crds: Delete removes it)"
                        .to_owned(),
                ),
                (CrdPolicy::Delete, Owner::Other(other), _) => Some(format!("kept: owned by {other}")),
                (CrdPolicy::Delete, _, Some(namespace)) => {
                    Some(format!("kept: the same package in namespace {namespace} needs it"))
                }
                (CrdPolicy::Delete, ..) => None,
            };
            any |= note.is_none();
            let op = if note.is_none() { Op::Delete } else { Op::Noop };
            self.push(reference, op, note);
        }
        any
    }

    fn owner(&self, reference: &ObjectRef) -> Owner {
        let bundles: Vec<&str> = csv_name(self.input).into_iter().chain(self.input.replaced).collect();
        let owner = |there| owner_of(there, self.input.package, self.input.namespace, &bundles);
        self.live.get(reference).map_or(Owner::Ours, owner)
    }
}

/// Another namespace whose instance of the package uses the object too.
fn shared_with(live: &Value, input: &UninstallInput<'_>) -> Option<String> {
    let prefix = format!("{}{}.", olm_api::names::LABEL_COMPONENT_PREFIX, input.package);
    let labels = live.pointer("/metadata/labels")?.as_object()?;
    let others = labels.keys().filter_map(|key| key.strip_prefix(&prefix));
    others.filter(|namespace| *namespace != input.namespace).map(str::to_owned).next()
}

/// What is confirmed is what is deleted by name and on purpose. What goes with a version is said by that version.
fn digest(input: &UninstallInput<'_>, objects: &[PlannedObject]) -> (String, Parts) {
    let deleted = objects.iter().filter(|o| o.op == Op::Delete && o.goes_with.is_none());
    let parts =
        deleted.map(|o| (format!("delete {} {}", o.reference.api_version, o.reference), None)).collect();
    let head = json!({
        "apiVersion": API_VERSION,
        "action": "uninstall",
        "namespace": input.namespace,
        "package": input.package,
        "operands": input.policy.operands.as_str(),
        "crds": input.policy.crds.as_str(),
    });
    digest::digest(&head, &parts)
}

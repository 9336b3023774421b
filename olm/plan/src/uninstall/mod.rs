//! Plans for uninstalls.

mod dependencies;
mod findings;
mod input;

use olm_api::subscription::{CrdPolicy, DependencyRemoval, OperandPolicy};
use olm_bundle::{Phase, Rendered, crd_of_role};
use serde_json::{Value, json};

use crate::desired::csv_ref;
use crate::digest::{self, Digests};
use crate::images::PlanImage;
use crate::input::Live;
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_of, shared_with};
use crate::permissions;
use crate::plan::{API_VERSION, DependencyView, Plan, PlanAction, Reversible, Why};
use crate::planned::{Op, PlannedObject};
use crate::reserved::is_reserved;
use findings::findings;

pub use dependencies::{Dependency, PendingDeletion, Requester, no_longer_needed};
pub use input::{Operand, OperatorLease, UninstallInput};

/// An operator to remove: the requested one, or an unneeded dependency.
struct RemovedOperator<'a> {
    package: &'a str,
    csv: Option<&'a Value>,
    rendered: Option<&'a Rendered>,
    /// The names of its versions.
    bundles: Vec<&'a str>,
}

/// The objects whose live state [`make_uninstall_plan`] needs.
pub fn uninstall_reads(input: &UninstallInput<'_>) -> Vec<ObjectRef> {
    let mut list: Vec<ObjectRef> = direct(input);
    list.extend(input.dependencies.iter().flat_map(|dependency| of_dependency(input.namespace, dependency)));
    let rendered = input.dependencies.iter().map(|dependency| dependency.rendered);
    let objects = rendered.chain([input.rendered]).flatten().flat_map(|r| r.objects());
    list.extend(objects.filter_map(|(_, object)| ObjectRef::of(object)));
    list.sort();
    list.dedup();
    list
}

fn name_of(csv: &Value) -> Option<&str> {
    csv.pointer("/metadata/name")?.as_str()
}

fn csv_name<'a>(input: &UninstallInput<'a>) -> Option<&'a str> {
    name_of(input.csv?)
}

fn subscription_ref(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new("operators.coreos.com/v1alpha1", "Subscription", Some(namespace), name)
}

/// The objects of a dependency, in the order of removal.
fn of_dependency(namespace: &str, dependency: &Dependency<'_>) -> Vec<ObjectRef> {
    let csv = dependency.csv.and_then(name_of).map(|name| csv_ref(namespace, name));
    [subscription_ref(namespace, dependency.subscription)].into_iter().chain(csv).collect()
}

/// The objects of the operator: the Subscription first, so that nothing is reinstalled; the version being
/// replaced before its replacement, which would otherwise be superseded by it again.
fn direct(input: &UninstallInput<'_>) -> Vec<ObjectRef> {
    let namespace = Some(input.namespace);
    let subscription = input.subscription.map(|name| subscription_ref(input.namespace, name));
    let versions = input.replaced.into_iter().chain(csv_name(input));
    let group = input
        .operator_group
        .map(|name| ObjectRef::new("operators.coreos.com/v1", "OperatorGroup", namespace, name));
    subscription.into_iter().chain(versions.map(|name| csv_ref(input.namespace, name))).chain(group).collect()
}

/// Plans an uninstall, in this order: the custom resources if requested, while the operator can still clean
/// up after them; the Subscription; the ClusterServiceVersion, and with it the objects of the operator from
/// its workloads back to its rights; its unneeded dependencies, if requested; the CRDs last, and only if
/// requested.
/// Objects deleted with a ClusterServiceVersion are marked ([`PlannedObject::goes_with`]): garbage collection
/// and the manager delete them. The caller deletes the others.
pub fn make_uninstall_plan(input: &UninstallInput<'_>, live: &Live) -> Plan {
    let mut draft = Draft { input, live, objects: Vec::new() };
    draft.instances();
    let (group, others): (Vec<ObjectRef>, Vec<ObjectRef>) =
        direct(input).into_iter().partition(|reference| reference.kind == "OperatorGroup");
    for reference in &others {
        draft.push(reference, Op::Delete, None);
    }
    let bundles: Vec<&str> = csv_name(input).into_iter().chain(input.replaced).collect();
    let it = RemovedOperator { package: input.package, csv: input.csv, rendered: input.rendered, bundles };
    draft.parts(&it);
    let mut removals = vec![it];
    let mut needs = Vec::new();
    for dependency in input.dependencies {
        let goes = dependency.needed_by.is_empty() && input.policy.dependencies == DependencyRemoval::Delete;
        let note = note_of(dependency, goes);
        needs.push(DependencyView {
            need: format!("package {}", dependency.package),
            required_by: csv_name(input).unwrap_or(input.package).to_owned(),
            satisfied_by: note.clone(),
            install: None,
        });
        for reference in of_dependency(input.namespace, dependency) {
            draft.push(&reference, if goes { Op::Delete } else { Op::Noop }, Some(note.clone()));
        }
        if goes {
            let bundles = dependency.csv.and_then(name_of).into_iter().collect();
            let Dependency { package, csv, rendered, .. } = *dependency;
            let removed = RemovedOperator { package, csv, rendered, bundles };
            draft.parts(&removed);
            removals.push(removed);
        }
    }
    for reference in &group {
        draft.push(
            reference,
            Op::Delete,
            Some("created by a plan and not required by another operator".to_owned()),
        );
    }
    let mut crds_go = false;
    for removed in &removals {
        crds_go |= draft.crds(removed);
    }
    let objects = draft.objects;

    let mut operands = input.operands.to_vec();
    operands.sort_by(|a, b| a.crd.cmp(&b.crd));
    let lost = (input.policy.operands == OperandPolicy::Delete || crds_go)
        && operands.iter().any(|operand| operand.count != Some(0));
    let Digests { all, content, parts, .. } = digest(input, &objects);
    let name = csv_name(input);
    let version = input.csv.and_then(|c| c.pointer("/spec/version")?.as_str()).map(str::to_owned);
    Plan {
        api_version: API_VERSION.to_owned(),
        digest: all,
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
        watches: Vec::new(),
        why: Why::default(),
        dependencies: needs,
        permissions: permissions::delta(input.rendered, None),
        findings: findings(input, &operands, crds_go),
        images: Vec::<PlanImage>::new(),
        signatures: Vec::new(),
        requires_approval: false,
        reversible: Reversible {
            possible: !lost,
            reason: lost.then(|| "custom resources are deleted with their data".to_owned()),
        },
        operands,
        along: Vec::new(),
        parts,
        content,
        lending: Default::default(),
        demands: Default::default(),
        manifests: Default::default(),
        objects,
    }
}

/// Note on objects selected by [`is_reserved`].
const RESERVED: &str = "belongs to olm or Kubernetes";

/// The list of objects being built.
struct Draft<'a> {
    input: &'a UninstallInput<'a>,
    live: &'a Live,
    objects: Vec<PlannedObject>,
}

impl Draft<'_> {
    /// Missing objects are not listed; unreadable ones are, because they may exist.
    fn push(&mut self, reference: &ObjectRef, op: Op, note: Option<String>) {
        let note = match (self.live.contains_key(reference), self.input.unreadable.contains(reference)) {
            (true, _) => note,
            (false, true) => {
                Some(note.unwrap_or_else(|| "no permission to read it; it may exist".to_owned()))
            }
            (false, false) => return,
        };
        self.objects.push(PlannedObject { note, ..PlannedObject::new(reference, op, None) });
    }

    fn instances(&mut self) {
        let (op, note) = match self.input.policy.operands {
            OperandPolicy::Delete => (Op::Delete, None),
            OperandPolicy::Orphan | OperandPolicy::Abort => {
                (Op::Noop, Some("without an operator".to_owned()))
            }
        };
        let object = |r| PlannedObject { note: note.clone(), ..PlannedObject::new(r, op, None) };
        self.objects.extend(self.input.instances.iter().map(object));
    }

    /// An operator's own objects, which are deleted with its version.
    fn parts(&mut self, removed: &RemovedOperator<'_>) {
        let version =
            removed.csv.and_then(name_of).map(|name| csv_ref(self.input.namespace, name).to_string());
        for reference in rendered_by(removed, |object| !is_crd(object) && crd_of_role(object).is_none()) {
            if self.is_reserved(&reference) {
                self.push(&reference, Op::Noop, Some(RESERVED.to_owned()));
                continue;
            }
            match self.owner(removed, &reference) {
                Owner::Other(other) => self.push(&reference, Op::Noop, Some(format!("owned by {other}"))),
                Owner::Shared(namespace) => {
                    self.push(&reference, Op::Noop, Some(needed_in(&namespace)));
                }
                Owner::Ours | Owner::None => {
                    let before = self.objects.len();
                    self.push(&reference, Op::Delete, None);
                    for object in &mut self.objects[before..] {
                        object.goes_with.clone_from(&version);
                    }
                }
            }
        }
        self.leases(removed, version.as_deref());
    }

    /// The Leases that the operator's pods hold. They are deleted once its pods are gone.
    fn leases(&mut self, removed: &RemovedOperator<'_>, version: Option<&str>) {
        let deployments = rendered_by(removed, |object| object["kind"] == "Deployment");
        for lease in self.input.leases {
            if !deployments.iter().any(|deployment| deployment.name == lease.deployment) {
                continue;
            }
            let reserved = self.is_reserved(&lease.reference);
            let (op, note) = if reserved {
                (Op::Noop, RESERVED)
            } else {
                (Op::Delete, "created by the operator's process")
            };
            self.objects.push(PlannedObject {
                goes_with: version.filter(|_| !reserved).map(str::to_owned),
                note: Some(note.to_owned()),
                ..PlannedObject::new(&lease.reference, op, None)
            });
        }
    }

    /// Returns whether any CRD is deleted.
    fn crds(&mut self, removed: &RemovedOperator<'_>) -> bool {
        let mut any = false;
        for reference in rendered_by(removed, is_crd) {
            let there = self.live.get(&reference);
            let shared = there.and_then(|there| shared_with(there, removed.package, self.input.namespace));
            let note = match (self.input.policy.crds, self.owner(removed, &reference), shared) {
                _ if self.is_reserved(&reference) => Some(RESERVED.to_owned()),
                (CrdPolicy::Keep, ..) => Some(
                    "its deletion would delete all its objects; deletionPolicy.crds: Delete removes it"
                        .to_owned(),
                ),
                (CrdPolicy::Delete, Owner::Other(other), _) => Some(format!("owned by {other}")),
                (CrdPolicy::Delete, _, Some(namespace)) => Some(needed_in(&namespace)),
                (CrdPolicy::Delete, ..) => None,
            };
            any |= note.is_none();
            let op = if note.is_none() { Op::Delete } else { Op::Noop };
            self.roles(removed, &reference, op);
            self.push(&reference, op, note);
        }
        any
    }

    /// Users' roles over the kinds of a CRD stay or go with it.
    fn roles(&mut self, removed: &RemovedOperator<'_>, crd: &ObjectRef, op: Op) {
        let note = (op == Op::Noop).then(|| format!("belongs to {crd}"));
        let with = (op == Op::Delete).then(|| crd.to_string());
        let before = self.objects.len();
        for role in rendered_by(removed, |object| crd_of_role(object).as_ref() == Some(&crd.name)) {
            self.push(&role, op, note.clone());
        }
        for object in &mut self.objects[before..] {
            object.goes_with.clone_from(&with);
        }
    }

    /// Whether an object must not be deleted, even if the operator's version contains it.
    fn is_reserved(&self, reference: &ObjectRef) -> bool {
        is_reserved(reference, self.live.get(reference))
    }

    fn owner(&self, removed: &RemovedOperator<'_>, reference: &ObjectRef) -> Owner {
        let owner = |there| owner_of(there, removed.package, self.input.namespace, &removed.bundles);
        self.live.get(reference).map_or(Owner::Ours, owner)
    }
}

fn needed_in(namespace: &str) -> String {
    format!("required by the same package in namespace {namespace}")
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Some objects of a version, those of the last phase first.
fn rendered_by(removed: &RemovedOperator<'_>, which: impl Fn(&Value) -> bool) -> Vec<ObjectRef> {
    let objects = removed.rendered.into_iter().flat_map(|r| r.objects()).filter(|(_, object)| which(object));
    let mut all: Vec<(Phase, ObjectRef)> =
        objects.filter_map(|(phase, object)| Some((phase, ObjectRef::of(object)?))).collect();
    all.sort_by_key(|(phase, _)| std::cmp::Reverse(*phase));
    all.into_iter().map(|(_, reference)| reference).collect()
}

/// The outcome for a dependency, and why.
fn note_of(dependency: &Dependency<'_>, goes: bool) -> String {
    match (goes, dependency.needed_by) {
        (true, _) => "installed as a dependency and no longer required".to_owned(),
        (false, []) => {
            "retained, although no longer required (deletionPolicy.dependencies: Delete removes it)"
                .to_owned()
        }
        (false, by) => format!("retained: required by {}", by.join(", ")),
    }
}

/// The confirmed content is what is deleted explicitly. The version determines the objects deleted with it.
fn digest(input: &UninstallInput<'_>, objects: &[PlannedObject]) -> Digests {
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
    digest::digest(&head, &parts, |_, _| true)
}

//! Uninstalls.

use std::collections::BTreeSet;

use olm_api::subscription::{CrdPolicy, DeletionPolicy, DependencyRemoval, OperandPolicy};
use olm_plan::{
    Dependency, FindingCode, Live, ObjectRef, Op, Operand, OperatorLease, Plan, Severity, UninstallInput,
    make_uninstall_plan, uninstall_reads,
};
use olm_resolver::Gvk;
use serde_json::json;

use crate::world::*;

/// Input of an uninstall over the cluster after a case.
pub struct Leaving<'a> {
    pub case: &'a Case,
    pub policy: DeletionPolicy,
    pub operands: Vec<Operand>,
    pub instances: Vec<ObjectRef>,
    pub change: Box<dyn Fn(&mut Live)>,
    pub unreadable: BTreeSet<ObjectRef>,
    pub dependencies: Vec<Needed>,
    pub leases: Vec<OperatorLease>,
}

/// An operator that was installed for it.
pub struct Needed {
    pub csv: serde_json::Value,
    pub by: Vec<String>,
}

impl<'a> Leaving<'a> {
    pub fn new(case: &'a Case, policy: DeletionPolicy, operands: &[Operand]) -> Self {
        Self {
            case,
            policy,
            operands: operands.to_vec(),
            instances: vec![],
            change: Box::new(|_| {}),
            unreadable: BTreeSet::new(),
            dependencies: vec![],
            leases: vec![],
        }
    }

    pub fn plan(&self) -> Plan {
        let mut live = self.case.applied();
        let subscription = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                                   "metadata": { "name": "thing", "namespace": "ns" } });
        let group = group("olm-operators", &[]);
        for object in [subscription, group] {
            live.insert(ObjectRef::of(&object).unwrap(), object);
        }
        (self.change)(&mut live);
        let dependency = |needed: &'_ Needed| {
            let subscription = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                                       "metadata": { "name": "base", "namespace": "ns" } });
            [subscription, needed.csv.clone()].map(|object| (ObjectRef::of(&object).unwrap(), object))
        };
        live.extend(self.dependencies.iter().flat_map(dependency));
        let dependencies: Vec<Dependency<'_>> = self
            .dependencies
            .iter()
            .map(|needed| Dependency {
                subscription: "base",
                package: "base",
                csv: Some(&needed.csv),
                rendered: None,
                needed_by: &needed.by,
            })
            .collect();
        let csv =
            self.case.applied().into_iter().find(|(r, _)| r.kind == "ClusterServiceVersion").map(|(_, v)| v);
        let input = UninstallInput {
            namespace: "ns",
            subscription: Some("thing"),
            package: "thing",
            csv: csv.as_ref(),
            replaced: None,
            rendered: self.case.rendered.as_ref().ok(),
            operands: &self.operands,
            instances: &self.instances,
            operator_group: Some("olm-operators"),
            dependencies: &dependencies,
            leases: &self.leases,
            unreadable: &self.unreadable,
            policy: self.policy,
        };
        let asked: BTreeSet<ObjectRef> = uninstall_reads(&input).into_iter().collect();
        live.retain(|r, _| asked.contains(r));
        make_uninstall_plan(&input, &live)
    }
}

pub fn uninstall(case: &Case, policy: DeletionPolicy, operands: &[Operand]) -> Plan {
    Leaving::new(case, policy, operands).plan()
}

pub fn operand(count: Option<usize>) -> Operand {
    Operand {
        gvk: Gvk::new("example.com", "v1", "Thing"),
        crd: "things.example.com".into(),
        count,
        examples: vec![],
    }
}

const KEEP: DeletionPolicy = DeletionPolicy {
    operands: OperandPolicy::Orphan,
    crds: CrdPolicy::Keep,
    dependencies: DependencyRemoval::Keep,
};
const ALL: DeletionPolicy = DeletionPolicy {
    operands: OperandPolicy::Delete,
    crds: CrdPolicy::Delete,
    dependencies: DependencyRemoval::Keep,
};

fn things(names: &[&str]) -> Vec<ObjectRef> {
    names.iter().map(|name| ObjectRef::new("example.com/v1", "Thing", Some("ns"), name)).collect()
}

#[test]
fn an_uninstall_keeps_crds_and_stops_at_operands() {
    let case = Case::install("1.0.0");
    let plan = uninstall(&case, DeletionPolicy::default(), &[operand(Some(0))]);
    let list = ops(&plan);
    assert_eq!(list[0], "delete Subscription thing");
    assert_eq!(list[1], "delete ClusterServiceVersion thing.v1.0.0");
    assert_eq!(list[2], "delete Deployment thing");
    assert_eq!(list.last().unwrap(), "noop CustomResourceDefinition things.example.com");
    assert!(list.contains(&"delete OperatorGroup olm-operators".to_owned()), "{list:?}");
    assert!(!plan.is_blocked());
    // objects deleted by garbage collection and the manager are marked, and no others
    for object in plan.objects.iter().filter(|o| o.op == Op::Delete) {
        let direct = ["Subscription", "ClusterServiceVersion", "OperatorGroup"]
            .contains(&object.reference.kind.as_str());
        let with = (!direct).then_some("ClusterServiceVersion ns/thing.v1.0.0");
        assert_eq!(object.goes_with.as_deref(), with, "{object:?}");
    }
    assert_eq!(plan.permissions.added, vec![]);
    assert!(!plan.permissions.removed.is_empty());
    // operands block it, unless the policy allows it
    let plan = uninstall(&case, DeletionPolicy::default(), &[operand(Some(3))]);
    assert!(plan.is_blocked());
    assert_eq!(codes(&plan), [FindingCode::OperandsPresent]);
    assert_eq!(plan.findings[0].object.as_deref(), Some("CustomResourceDefinition/things.example.com"));
    let orphaned = uninstall(&case, KEEP, &[operand(Some(3))]);
    assert_eq!((orphaned.is_blocked(), orphaned.findings[0].severity), (false, Severity::Warn));
    // an unknown number: leaving them is reported, deleting them is refused
    assert!(!uninstall(&case, KEEP, &[operand(None)]).is_blocked());
}

/// Reported as deleted with the version, and outside of the digest: whether a replica holds its lease at the
/// moment of the preview changes nothing that is confirmed.
#[test]
fn leases_of_the_operator_go_with_its_version() {
    let case = Case::install("1.0.0");
    let without = uninstall(&case, KEEP, &[operand(Some(0))]);
    let lease = |name: &str, deployment: &str| OperatorLease {
        reference: ObjectRef::new("coordination.k8s.io/v1", "Lease", Some("ns"), name),
        deployment: deployment.into(),
    };
    let mut leaving = Leaving::new(&case, KEEP, &[operand(Some(0))]);
    leaving.leases = vec![lease("leader", "thing"), lease("another", "else")];
    let plan = leaving.plan();
    let leases: Vec<_> = plan.objects.iter().filter(|o| o.reference.kind == "Lease").collect();
    assert_eq!(leases.len(), 1, "{leases:?}");
    assert_eq!((leases[0].name.as_str(), leases[0].op), ("leader", Op::Delete));
    assert_eq!(leases[0].goes_with.as_deref(), Some("ClusterServiceVersion ns/thing.v1.0.0"));
    assert_eq!(plan.digest, without.digest);
}

#[test]
fn instances_go_first_while_the_operator_can_clean_up() {
    let case = Case::install("1.0.0");
    let policy = DeletionPolicy {
        operands: OperandPolicy::Delete,
        crds: CrdPolicy::Keep,
        dependencies: DependencyRemoval::Keep,
    };
    let mut leaving = Leaving::new(&case, policy, &[operand(Some(2))]);
    leaving.instances = things(&["a", "b"]);
    let plan = leaving.plan();
    assert_eq!(ops(&plan)[..3], ["delete Thing a", "delete Thing b", "delete Subscription thing"]);
    assert!(!plan.is_blocked() && !plan.reversible.possible);
    // and where they stay the plan still shows them
    leaving.policy = KEEP;
    let kept = leaving.plan();
    assert_eq!(ops(&kept)[..2], ["noop Thing a", "noop Thing b"]);
    assert!(kept.reversible.possible);
}

#[test]
fn deleting_crds_takes_their_objects_and_wants_to_know_them() {
    let case = Case::install("1.0.0");
    let plan = uninstall(&case, ALL, &[operand(Some(3))]);
    assert_eq!(ops(&plan).last().unwrap(), "delete CustomResourceDefinition things.example.com");
    assert!(!plan.is_blocked() && !plan.reversible.possible);
    assert!(uninstall(&case, ALL, &[operand(None)]).is_blocked());
    // keeping the instances and deleting their kind is a contradiction
    let contradiction = DeletionPolicy {
        operands: OperandPolicy::Orphan,
        crds: CrdPolicy::Delete,
        dependencies: DependencyRemoval::Keep,
    };
    assert!(uninstall(&case, contradiction, &[operand(Some(1))]).is_blocked());
    assert!(!uninstall(&case, contradiction, &[operand(Some(0))]).is_blocked());
}

#[test]
fn what_others_took_over_stays() {
    let case = Case::install("1.0.0");
    let mut leaving = Leaving::new(&case, ALL, &[operand(Some(0))]);
    // given objects shared with another namespace's installation, and a Deployment adopted by another
    // operator
    leaving.change = Box::new(|live| {
        for (reference, object) in live.iter_mut() {
            let labels = match reference.kind.as_str() {
                "CustomResourceDefinition" | "ClusterRoleBinding" => {
                    json!({ "operators.coreos.com/thing.ns": "", "operators.coreos.com/thing.other": "" })
                }
                "Deployment" => json!({ "operators.coreos.com/else.ns": "" }),
                _ => continue,
            };
            object["metadata"]["labels"] = labels;
        }
    });
    let plan = leaving.plan();
    let kept: Vec<(&str, &str)> = plan
        .objects
        .iter()
        .filter(|o| o.op == Op::Noop)
        .map(|o| (o.reference.kind.as_str(), o.note.as_deref().unwrap_or_default()))
        .collect();
    // the roles over the CRD stay with it
    let (roles, kept): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(kind, _)| *kind == "ClusterRole");
    assert!(
        !roles.is_empty()
            && roles.iter().all(|(_, note)| note.starts_with("belongs to CustomResourceDefinition ")),
        "{roles:?}"
    );
    assert_eq!(
        kept,
        [
            ("Deployment", "owned by package else in namespace ns"),
            ("ClusterRoleBinding", "required by the same package in namespace other"),
            ("CustomResourceDefinition", "required by the same package in namespace other"),
        ]
    );
}

#[test]
fn the_digest_covers_lost_objects_but_not_garbage_collected_ones() {
    let case = Case::install("1.0.0");
    let policy = DeletionPolicy {
        operands: OperandPolicy::Delete,
        crds: CrdPolicy::Keep,
        dependencies: DependencyRemoval::Keep,
    };
    let mut leaving = Leaving::new(&case, policy, &[operand(Some(1))]);
    leaving.instances = things(&["a"]);
    let reviewed = leaving.plan().digest;
    // a missing Deployment changes nothing
    leaving.change = Box::new(|live| live.retain(|r, _| r.kind != "Deployment"));
    assert_eq!(leaving.plan().digest, reviewed);
    // one more instance does: its loss was not confirmed
    leaving.instances = things(&["a", "b"]);
    assert_ne!(leaving.plan().digest, reviewed);
}

#[test]
fn what_may_not_be_looked_at_may_be_there() {
    let case = Case::install("1.0.0");
    let mut leaving = Leaving::new(&case, KEEP, &[]);
    let role = case.applied().into_keys().find(|r| r.kind == "ClusterRole").unwrap();
    let hidden = role.clone();
    leaving.change = Box::new(move |live| drop(live.remove(&hidden)));
    assert!(!leaving.plan().objects.iter().any(|o| o.reference == role));
    leaving.unreadable = [role.clone()].into();
    let plan = leaving.plan();
    let shown = plan.objects.iter().find(|o| o.reference == role).unwrap();
    assert_eq!(
        (shown.op, shown.note.as_deref()),
        (Op::Delete, Some("no permission to read it; it may exist"))
    );
}

#[test]
fn the_policy_removes_unneeded_dependencies_after_their_dependent() {
    let case = Case::install("1.0.0");
    let mut leaving =
        Leaving::new(&case, DeletionPolicy { dependencies: DependencyRemoval::Delete, ..KEEP }, &[]);
    let csv = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                      "metadata": { "name": "base.v1", "namespace": "ns" } });
    leaving.dependencies = vec![Needed { csv, by: vec![] }];
    let plan = leaving.plan();
    let list = ops(&plan);
    let at =
        |text: &str| list.iter().position(|op| op == text).unwrap_or_else(|| panic!("{text} in {list:?}"));
    // a dependent is removed before its dependency
    assert!(at("delete ClusterServiceVersion thing.v1.0.0") < at("delete Subscription base"));
    assert!(at("delete Subscription base") < at("delete ClusterServiceVersion base.v1"));
    assert_eq!(plan.dependencies[0].satisfied_by, "installed as a dependency and no longer required");
    let agreed = plan.digest;
    // a dependency that another operator needs stays, and so does everything by default; both are another
    // plan
    leaving.dependencies[0].by = vec!["other".into()];
    let plan = leaving.plan();
    assert_eq!(plan.dependencies[0].satisfied_by, "retained: required by other");
    assert!(ops(&plan).contains(&"noop Subscription base".to_owned()));
    assert_ne!(plan.digest, agreed);
    leaving.dependencies[0].by.clear();
    leaving.policy = KEEP;
    assert!(leaving.plan().dependencies[0].satisfied_by.contains("deletionPolicy.dependencies: Delete"));
}

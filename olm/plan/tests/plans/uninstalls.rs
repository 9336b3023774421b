//! Uninstalls.

use std::collections::BTreeSet;

use olm_api::subscription::{CrdPolicy, DeletionPolicy, OperandPolicy};
use olm_plan::{
    FindingCode, Live, ObjectRef, Op, Operand, Plan, Severity, UninstallInput, make_uninstall_plan,
    uninstall_reads,
};
use olm_resolver::Gvk;
use serde_json::json;

use crate::world::*;

/// What an uninstall over the cluster after a case is made from.
pub struct Leaving<'a> {
    pub case: &'a Case,
    pub policy: DeletionPolicy,
    pub operands: Vec<Operand>,
    pub instances: Vec<ObjectRef>,
    pub change: Box<dyn Fn(&mut Live)>,
    pub unreadable: BTreeSet<ObjectRef>,
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
        let csv = live.iter().find(|(r, _)| r.kind == "ClusterServiceVersion").map(|(_, v)| v.clone());
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

const KEEP: DeletionPolicy = DeletionPolicy { operands: OperandPolicy::Orphan, crds: CrdPolicy::Keep };
const ALL: DeletionPolicy = DeletionPolicy { operands: OperandPolicy::Delete, crds: CrdPolicy::Delete };

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
    // what garbage collection and the manager take away says so, and nothing else does
    for object in plan.objects.iter().filter(|o| o.op == Op::Delete) {
        let direct = ["Subscription", "ClusterServiceVersion", "OperatorGroup"]
            .contains(&object.reference.kind.as_str());
        let with = (!direct).then_some("ClusterServiceVersion ns/thing.v1.0.0");
        assert_eq!(object.goes_with.as_deref(), with, "{object:?}");
    }
    assert_eq!(plan.permissions.added, vec![]);
    assert!(!plan.permissions.removed.is_empty());
    // operands stop it, unless the policy says otherwise
    let plan = uninstall(&case, DeletionPolicy::default(), &[operand(Some(3))]);
    assert!(plan.is_blocked());
    assert_eq!(codes(&plan), [FindingCode::OperandsPresent]);
    assert_eq!(plan.findings[0].object.as_deref(), Some("CustomResourceDefinition/things.example.com"));
    let orphaned = uninstall(&case, KEEP, &[operand(Some(3))]);
    assert_eq!((orphaned.is_blocked(), orphaned.findings[0].severity), (false, Severity::Warn));
    // nobody knows how many: what is left behind is said, what would be deleted is refused
    assert!(!uninstall(&case, KEEP, &[operand(None)]).is_blocked());
}

#[test]
fn instances_go_first_while_the_operator_can_clean_up() {
    let case = Case::install("1.0.0");
    let policy = DeletionPolicy { operands: OperandPolicy::Delete, crds: CrdPolicy::Keep };
    let mut leaving = Leaving::new(&case, policy, &[operand(Some(2))]);
    leaving.instances = things(&["a", "b"]);
    let plan = leaving.plan();
    assert_eq!(ops(&plan)[..3], ["delete Thing a", "delete Thing b", "delete Subscription thing"]);
    assert!(!plan.is_blocked() && !plan.reversible.possible);
    // and where they stay the plan shows them all the same
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
    // whoever keeps the instances cannot have their kind deleted
    let contradiction = DeletionPolicy { operands: OperandPolicy::Orphan, crds: CrdPolicy::Delete };
    assert!(uninstall(&case, contradiction, &[operand(Some(1))]).is_blocked());
    assert!(!uninstall(&case, contradiction, &[operand(Some(0))]).is_blocked());
}

#[test]
fn what_others_took_over_stays() {
    let case = Case::install("1.0.0");
    let mut leaving = Leaving::new(&case, ALL, &[operand(Some(0))]);
    // given a CRD that another namespace's installation uses, and a Deployment that went to another operator
    leaving.change = Box::new(|live| {
        for (reference, object) in live.iter_mut() {
            let labels = match reference.kind.as_str() {
                "CustomResourceDefinition" => {
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
    assert_eq!(
        kept,
        [
            ("Deployment", "kept: owned by package else in namespace ns"),
            ("CustomResourceDefinition", "kept: the same package in namespace other needs it"),
        ]
    );
}

#[test]
fn the_digest_pins_what_is_lost_and_nothing_that_goes_by_itself() {
    let case = Case::install("1.0.0");
    let policy = DeletionPolicy { operands: OperandPolicy::Delete, crds: CrdPolicy::Keep };
    let mut leaving = Leaving::new(&case, policy, &[operand(Some(1))]);
    leaving.instances = things(&["a"]);
    let reviewed = leaving.plan().digest;
    // a Deployment that is gone already changes nothing
    leaving.change = Box::new(|live| live.retain(|r, _| r.kind != "Deployment"));
    assert_eq!(leaving.plan().digest, reviewed);
    // one more instance does: nobody agreed to lose it
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
        (Op::Delete, Some("you may not look at it; it may be there"))
    );
}

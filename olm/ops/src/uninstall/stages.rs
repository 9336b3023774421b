//! The order of deletions, and messages for objects that are not deleted. Pure.

use olm_api::names::FINALIZER_SUBSCRIPTION_CLEANUP;
use olm_plan::{ObjectRef, Op, Plan};

/// The objects that are deleted by name, in the order of the plan: those of a stage together, each stage
/// after the one before is gone.
///
/// Consecutive CRDs are one stage, and so are consecutive objects of other kinds, such as instances.
/// Subscriptions, versions and OperatorGroups are deleted one by one: a replaced version would be reactivated
/// as soon as the version that replaces it is gone.
pub(super) fn stages(plan: &Plan) -> Vec<Vec<ObjectRef>> {
    let direct = plan.objects.iter().filter(|o| o.op == Op::Delete && o.goes_with.is_none());
    let mut out: Vec<Vec<ObjectRef>> = Vec::new();
    let mut last = None;
    for object in direct {
        let class = class(&object.reference);
        match out.last_mut() {
            Some(stage) if last == Some(class) && class != Class::Operator => {
                stage.push(object.reference.clone());
            }
            _ => out.push(vec![object.reference.clone()]),
        }
        last = Some(class);
    }
    out
}

/// Objects of one class may be deleted together, except those of [`Class::Operator`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Operator,
    Definition,
}

fn class(reference: &ObjectRef) -> Class {
    match (reference.group(), reference.kind.as_str()) {
        ("operators.coreos.com", "Subscription" | "ClusterServiceVersion" | "OperatorGroup") => {
            Class::Operator
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Class::Definition,
        _ => Class::Other,
    }
}

/// An object that was deleted and still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingDeletion {
    pub(super) object: ObjectRef,
    /// The resource, as kubectl accepts it.
    pub(super) resource: String,
    pub(super) finalizers: Vec<String>,
    /// Why its own deletion is held, if it reports that.
    pub(super) condition: Option<HeldCondition>,
}

/// Reason and message of the condition `DeletionHeld`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeldCondition {
    pub(super) reason: String,
    pub(super) message: String,
}

impl PendingDeletion {
    /// Whether it is a Subscription whose deletion the manager completes.
    pub(super) fn completes_on_its_own(&self) -> bool {
        self.object.kind == "Subscription"
            && self.finalizers.iter().any(|f| f == FINALIZER_SUBSCRIPTION_CLEANUP)
    }

    /// The finalizers that hold it.
    pub(super) fn text(&self) -> String {
        match self.finalizers.as_slice() {
            [] => format!("{} is being deleted", self.object),
            [one] => format!("{} is waiting for finalizer {one}", self.object),
            several => format!("{} is waiting for finalizers {}", self.object, several.join(", ")),
        }
    }

    /// What to do when they are not removed.
    pub(super) fn fix(&self) -> String {
        let place = self.object.namespace.as_ref().map_or(String::new(), |ns| format!(" -n {ns}"));
        let (resource, name) = (&self.resource, &self.object.name);
        match self.finalizers.iter().any(|f| f.starts_with("operators.coreos.com/")) {
            true => format!(
                "the manager removes this finalizer after the cleanup: see `olm doctor` and `kubectl \
                    describe {resource} {name}{place}`"
            ),
            false => format!(
                "check its operator: `kubectl describe {resource} {name}{place}` and the operator's logs; as \
                    a last resort, without the operator's cleanup: `kubectl patch {resource} {name}{place} \
                    --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'`"
            ),
        }
    }
}

/// Several of them in one line.
pub(super) fn in_words(held: &[PendingDeletion]) -> String {
    /// Maximum number of objects that are named; the rest is counted.
    const NAMED: usize = 5;
    let mut texts: Vec<String> = held.iter().take(NAMED).map(PendingDeletion::text).collect();
    if held.len() > NAMED {
        texts.push(format!("{} more", held.len() - NAMED));
    }
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(kind: &str, finalizers: &[&str]) -> PendingDeletion {
        PendingDeletion {
            object: ObjectRef::new("example.com/v1", kind, Some("ns"), "a"),
            resource: "things.example.com".into(),
            finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
            condition: None,
        }
    }

    #[test]
    fn an_object_that_does_not_go_is_named_with_what_holds_it_and_what_to_do() {
        let stuck = held("Thing", &["example.com/backup"]);
        assert_eq!(stuck.text(), "Thing ns/a is waiting for finalizer example.com/backup");
        assert!(stuck.fix().contains("kubectl describe things.example.com a -n ns"), "{}", stuck.fix());
        assert!(stuck.fix().contains(r#"-p '{"metadata":{"finalizers":null}}'"#), "{}", stuck.fix());
        // no message suggests removing a finalizer that the manager is still to process
        let ours = held("ClusterServiceVersion", &["operators.coreos.com/csv-cleanup"]);
        assert!(!ours.fix().contains("patch"), "{}", ours.fix());
        let many: Vec<PendingDeletion> = (0..7).map(|_| held("Thing", &[])).collect();
        assert!(in_words(&many).ends_with("; 2 more"));
    }
}

//! Plans for uninstalls.

use olm_api::subscription::{CrdPolicy, OperandPolicy};
use olm_bundle::Phase;
use serde_json::{Value, json};

use crate::desired::csv_ref;
use crate::digest::digest;
use crate::finding::{Finding, FindingCode, Severity};
use crate::input::{Live, Operand, UninstallInput};
use crate::make::shown;
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_of};
use crate::permissions;
use crate::plan::{Op, Plan, PlanAction, PlannedObject, Reversible, Why};

fn subscription_ref(input: &UninstallInput<'_>) -> ObjectRef {
    ObjectRef::new("operators.coreos.com/v1alpha1", "Subscription", Some(input.namespace), input.subscription)
}

fn csv_name<'a>(input: &UninstallInput<'a>) -> Option<&'a str> {
    input.csv?.pointer("/metadata/name")?.as_str()
}

/// The objects that [`make_uninstall_plan`] has to know the live state of.
pub fn uninstall_reads(input: &UninstallInput<'_>) -> Vec<ObjectRef> {
    let mut list = vec![subscription_ref(input)];
    list.extend(csv_name(input).map(|name| csv_ref(input.namespace, name)));
    let objects = input.rendered.into_iter().flat_map(|r| r.objects());
    list.extend(objects.filter_map(|(_, object)| ObjectRef::of(object)));
    list.sort();
    list.dedup();
    list
}

/// Works out what an uninstall will do: the Subscription first, so that nothing comes back, then the objects of the
/// operator from its workloads back to its rights, then its ClusterServiceVersion, CRDs last and only when asked for.
pub fn make_uninstall_plan(input: &UninstallInput<'_>, live: &Live) -> Plan {
    let name = csv_name(input);
    let mut objects = Vec::new();
    let mut push = |reference: &ObjectRef, op: Op, note: Option<String>| {
        if live.contains_key(reference) {
            objects.push(PlannedObject { note, ..shown(reference, op, None) });
        }
    };
    push(&subscription_ref(input), Op::Delete, None);
    let mut rendered: Vec<(Phase, ObjectRef)> = input
        .rendered
        .into_iter()
        .flat_map(|r| r.objects())
        .filter_map(|(phase, object)| Some((phase, ObjectRef::of(object)?)))
        .collect();
    rendered.sort_by_key(|(phase, _)| std::cmp::Reverse(*phase));
    let (crds, others): (Vec<_>, Vec<_>) =
        rendered.into_iter().partition(|(_, r)| r.kind == "CustomResourceDefinition");
    let bundles: Vec<&str> = name.into_iter().collect();
    let owner = |reference: &ObjectRef| {
        live.get(reference)
            .map_or(Owner::Ours, |there| owner_of(there, input.package, input.namespace, &bundles))
    };
    for (_, reference) in &others {
        match owner(reference) {
            Owner::Other(other) => push(reference, Op::Noop, Some(format!("kept: owned by {other}"))),
            _ => push(reference, Op::Delete, None),
        }
    }
    if let Some(name) = name {
        push(&csv_ref(input.namespace, name), Op::Delete, None);
    }
    let mut crds_go = false;
    for (_, reference) in &crds {
        let shared = live.get(reference).and_then(|there| shared_with(there, input));
        match (input.policy.crds, owner(reference), shared) {
            (CrdPolicy::Keep, ..) => {
                let note = "kept: with it all its objects would go (deletionPolicy.crds: Delete removes it)";
                push(reference, Op::Noop, Some(note.to_owned()));
            }
            (CrdPolicy::Delete, Owner::Other(other), _) => {
                push(reference, Op::Noop, Some(format!("kept: owned by {other}")));
            }
            (CrdPolicy::Delete, _, Some(namespace)) => {
                let note = format!("kept: the same package in namespace {namespace} needs it");
                push(reference, Op::Noop, Some(note));
            }
            (CrdPolicy::Delete, ..) => {
                crds_go = true;
                push(reference, Op::Delete, None);
            }
        }
    }
    let version = input.csv.and_then(|c| c.pointer("/spec/version")?.as_str()).map(str::to_owned);
    let mut operands = input.operands.to_vec();
    operands.sort_by(|a, b| a.crd.cmp(&b.crd));
    let lost = input.policy.operands == OperandPolicy::Delete || crds_go;
    Plan {
        api_version: "plan.olm/v1".to_owned(),
        digest: uninstall_digest(input, &objects),
        catalog_digest: None,
        action: PlanAction::Uninstall,
        namespace: input.namespace.to_owned(),
        subscription: input.subscription.to_owned(),
        package: input.package.to_owned(),
        channel: None,
        bundle: name.unwrap_or_default().to_owned(),
        from: version.or_else(|| name.map(str::to_owned)),
        to: None,
        path: Vec::new(),
        why: Why::default(),
        dependencies: Vec::new(),
        permissions: permissions::delta(input.rendered, None),
        findings: findings(input, &operands, crds_go),
        requires_approval: false,
        reversible: Reversible {
            possible: !(lost && operands.iter().any(|o| o.count != Some(0))),
            reason: lost.then(|| "custom resources are deleted with their data".to_owned()),
        },
        operands,
        manifests: Default::default(),
        objects,
    }
}

/// Another namespace whose instance of the package uses the object too.
fn shared_with(live: &Value, input: &UninstallInput<'_>) -> Option<String> {
    let prefix = format!("{}{}.", olm_api::names::LABEL_COMPONENT_PREFIX, input.package);
    let labels = live.pointer("/metadata/labels")?.as_object()?;
    let others = labels.keys().filter_map(|key| key.strip_prefix(&prefix));
    others.filter(|namespace| *namespace != input.namespace).map(str::to_owned).next()
}

fn uninstall_digest(input: &UninstallInput<'_>, objects: &[PlannedObject]) -> String {
    let mut deleted: Vec<String> = objects
        .iter()
        .filter(|o| o.op == Op::Delete)
        .map(|o| format!("{} {}", o.reference.api_version, o.reference))
        .collect();
    deleted.sort();
    let head = json!({
        "apiVersion": "plan.olm/v1",
        "action": "uninstall",
        "namespace": input.namespace,
        "package": input.package,
        "operands": input.policy.operands.as_str(),
        "crds": input.policy.crds.as_str(),
        "deleted": deleted,
    });
    digest([&head])
}

fn findings(input: &UninstallInput<'_>, operands: &[Operand], crds_go: bool) -> Vec<Finding> {
    let mut list = Vec::new();
    for operand in operands.iter().filter(|o| o.count != Some(0)) {
        let many = operand.count.map_or("an unknown number of".to_owned(), |n| n.to_string());
        let what = format!("{many} {} objects", operand.gvk.kind);
        let deletes = crds_go || input.policy.operands == OperandPolicy::Delete;
        let (severity, text, fix) = match (input.policy.operands, operand.count) {
            _ if deletes && operand.count.is_none() => (
                Severity::Block,
                format!("{what} would be deleted; they could not be listed, so nobody can say what is lost"),
                Some(format!("kubectl get {} -A", operand.crd)),
            ),
            _ if deletes => (Severity::Warn, format!("{what} are deleted with their data"), None),
            (OperandPolicy::Abort, _) => (
                Severity::Block,
                format!(
                    "{what} still exist and would be left without an operator (deletionPolicy.operands: Abort)"
                ),
                Some(format!(
                    "olm uninstall {} -n {} --instances keep  # or: --instances delete",
                    input.package, input.namespace
                )),
            ),
            _ => (Severity::Warn, format!("{what} keep running without an operator"), None),
        };
        let subject =
            operand.examples.first().map_or(operand.crd.clone(), |e| format!("{} {e}", operand.gvk.kind));
        list.push(Finding { code: FindingCode::OperandsPresent, severity, subject, text, fix });
    }
    list.sort_by(|a, b| (a.severity, &a.subject).cmp(&(b.severity, &b.subject)));
    list
}

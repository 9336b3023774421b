//! Plans for installs and upgrades.

use std::collections::BTreeMap;

use olm_api::subscription::Approval;
use olm_bundle::{Phase, Rendered};
use olm_resolver::{Action, Need, Resolved, SatisfiedBy};
use olm_version::precedence;
use serde_json::{Value, json};

use crate::desired::{csv_ref, desired, keep_shared_labels, namespace_ref};
use crate::diff::{diff, mask};
use crate::digest::digest;
use crate::input::{Live, PlanInput};
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_of};
use crate::permissions;
use crate::plan::{DependencyView, Op, Plan, PlanAction, PlannedObject, RejectedView, Reversible, Why};
use crate::preflight::{bundle_names, findings, removed_stored_versions};

/// The objects that [`make_plan`] has to know the live state of.
pub fn reads(input: &PlanInput<'_>) -> Vec<ObjectRef> {
    let mut list =
        vec![namespace_ref(input.namespace), csv_ref(input.namespace, &input.resolved.chosen.name)];
    list.extend(input.resolved.from.as_ref().map(|from| csv_ref(input.namespace, &from.name)));
    for rendered in input.rendered.ok().into_iter().chain(input.previous) {
        list.extend(rendered.objects().filter_map(|(_, object)| ObjectRef::of(object)));
    }
    list.sort();
    list.dedup();
    list
}

/// Works out what an install or an upgrade will do.
pub fn make_plan(input: &PlanInput<'_>, live: &Live) -> Plan {
    let resolved = input.resolved;
    let mut wanted: Vec<(Phase, ObjectRef, Value)> = match input.rendered {
        Ok(rendered) => desired(input, rendered, live)
            .into_iter()
            .filter_map(|(phase, manifest)| Some((phase, ObjectRef::of(&manifest)?, manifest)))
            .collect(),
        // what cannot be rendered is not applied in parts
        Err(_) => Vec::new(),
    };
    let previous = previous_manifests(input.previous);
    let leftovers = if wanted.is_empty() { Vec::new() } else { leftovers(input, &wanted, &previous) };
    // before anything of the live state gets into the manifests
    let digest = plan_digest(input, &wanted, &leftovers);
    for (_, reference, manifest) in wanted.iter_mut().filter(|(_, r, _)| r.kind == "CustomResourceDefinition")
    {
        keep_shared_labels(manifest, live.get(reference), &resolved.chosen.package);
    }
    let mut objects: Vec<PlannedObject> = wanted
        .iter()
        .map(|(phase, reference, manifest)| planned(input, live, &previous, *phase, reference, manifest))
        .collect();
    for reference in &leftovers {
        let ours = live.get(reference).map(|there| {
            owner_of(there, &resolved.chosen.package, input.namespace, &bundle_names(input)) == Owner::Ours
                || reference.kind == "ClusterServiceVersion"
        });
        if let Some(ours) = ours {
            let mut object = shown(reference, if ours { Op::Delete } else { Op::Noop }, None);
            object.note =
                (!ours).then(|| "it was the old version's, but somebody else took it over".to_owned());
            objects.push(object);
        }
    }
    let crds: Vec<(ObjectRef, &Value)> = wanted
        .iter()
        .filter(|(_, r, _)| r.kind == "CustomResourceDefinition")
        .map(|(_, r, m)| (r.clone(), m))
        .collect();
    let action = action(resolved);
    let changes = objects.iter().any(|o| !matches!(o.op, Op::Unchanged | Op::Noop));
    Plan {
        api_version: "plan.olm/v1".to_owned(),
        digest,
        catalog_digest: Some(input.catalog_digest.to_owned()).filter(|d| !d.is_empty()),
        action,
        namespace: input.namespace.to_owned(),
        subscription: input.subscription.to_owned(),
        package: resolved.chosen.package.clone(),
        channel: Some(resolved.chosen.channel.clone()).filter(|c| !c.is_empty()),
        bundle: resolved.chosen.name.clone(),
        from: resolved.from.as_ref().map(|f| f.version.as_ref().map_or(f.name.clone(), ToString::to_string)),
        to: Some(resolved.chosen.version_text()),
        path: resolved
            .path
            .iter()
            .map(|hop| hop.version.as_ref().map_or(hop.name.clone(), ToString::to_string))
            .collect(),
        why: why(resolved),
        dependencies: resolved.dependencies.iter().map(dependency).collect(),
        permissions: permissions::delta(input.previous, input.rendered.ok()),
        findings: findings(input, live, &crds),
        requires_approval: input.approval == Approval::Manual && (changes || action != PlanAction::None),
        reversible: reversible(live, &crds),
        operands: Vec::new(),
        manifests: wanted.into_iter().map(|(_, reference, manifest)| (reference, manifest)).collect(),
        objects,
    }
}

fn action(resolved: &Resolved) -> PlanAction {
    match resolved.action {
        Action::Install => PlanAction::Install,
        Action::None => PlanAction::None,
        Action::Upgrade => {
            let from = resolved.from.as_ref().and_then(|f| f.version.as_ref());
            match (from, &resolved.chosen.version) {
                (Some(from), Some(to)) if precedence(to, from).is_lt() => PlanAction::Rollback,
                _ => PlanAction::Upgrade,
            }
        }
    }
}

fn previous_manifests(previous: Option<&Rendered>) -> BTreeMap<ObjectRef, &Value> {
    let objects = previous.into_iter().flat_map(Rendered::objects);
    objects.filter_map(|(_, object)| Some((ObjectRef::of(object)?, object))).collect()
}

pub(crate) fn shown(reference: &ObjectRef, op: Op, phase: Option<Phase>) -> PlannedObject {
    let gvk = match reference.group() {
        "" => format!("{}.{}", reference.kind, reference.version()),
        group => format!("{}.{}.{group}", reference.kind, reference.version()),
    };
    PlannedObject {
        gvk,
        ns: reference.namespace.clone(),
        name: reference.name.clone(),
        op,
        phase,
        diff: Vec::new(),
        masked: false,
        note: None,
        reference: reference.clone(),
    }
}

fn planned(
    input: &PlanInput<'_>,
    live: &Live,
    previous: &BTreeMap<ObjectRef, &Value>,
    phase: Phase,
    reference: &ObjectRef,
    manifest: &Value,
) -> PlannedObject {
    let Some(there) = live.get(reference) else { return shown(reference, Op::Create, Some(phase)) };
    let mut fields = diff(there, previous.get(reference).copied(), manifest);
    let masked = mask(&reference.kind, &mut fields);
    let owner = owner_of(there, &input.resolved.chosen.package, input.namespace, &bundle_names(input));
    let (op, note) = match owner {
        Owner::Ours if fields.is_empty() => (Op::Unchanged, None),
        Owner::Ours => (Op::Update, None),
        Owner::Shared(namespaces) => {
            // at the least our own label is new
            (Op::Update, Some(format!("shared with the same package in namespace {namespaces}")))
        }
        Owner::Nobody => (Op::Adopt, Some("it exists and nobody owns it".to_owned())),
        Owner::Other(other) => (Op::Adopt, Some(format!("owned by {other}"))),
    };
    PlannedObject { diff: fields, masked, note, ..shown(reference, op, Some(phase)) }
}

/// What the old version brought and the new one does not have, the old ClusterServiceVersion last. CRDs stay always:
/// with them all their objects would go.
fn leftovers(
    input: &PlanInput<'_>,
    wanted: &[(Phase, ObjectRef, Value)],
    previous: &BTreeMap<ObjectRef, &Value>,
) -> Vec<ObjectRef> {
    let kept = |reference: &ObjectRef| wanted.iter().any(|(_, r, _)| r.same_object(reference));
    let mut list: Vec<ObjectRef> = previous
        .keys()
        .filter(|r| !kept(r) && r.kind != "CustomResourceDefinition" && r.kind != "Namespace")
        .cloned()
        .collect();
    let old = input.resolved.from.as_ref().map(|from| csv_ref(input.namespace, &from.name));
    list.extend(old.filter(|old| !kept(old)));
    list
}

/// What is approved is what is applied and deleted: not what happens to be there already, nor the time, nor the order.
/// A namespace that is made on the way does not count: whoever makes it first would change the digest.
fn plan_digest(
    input: &PlanInput<'_>,
    wanted: &[(Phase, ObjectRef, Value)],
    leftovers: &[ObjectRef],
) -> String {
    let mut parts: BTreeMap<String, Value> = BTreeMap::new();
    for (_, reference, manifest) in wanted.iter().filter(|(_, r, _)| r.kind != "Namespace") {
        parts.insert(format!("apply {} {reference}", reference.api_version), manifest.clone());
    }
    for reference in leftovers {
        parts.insert(format!("delete {} {reference}", reference.api_version), Value::Null);
    }
    for dependency in &input.resolved.dependencies {
        if let SatisfiedBy::Install(bundle) = &dependency.satisfied_by {
            parts.insert(format!("install {} {}", bundle.catalog, bundle.name), Value::Null);
        }
    }
    let head = json!({
        "apiVersion": "plan.olm/v1",
        "namespace": input.namespace,
        "package": input.resolved.chosen.package,
        "bundle": input.resolved.chosen.name,
    });
    let parts: Vec<Value> = parts.into_iter().map(|(key, value)| json!([key, value])).collect();
    digest(std::iter::once(&head).chain(&parts))
}

fn why(resolved: &Resolved) -> Why {
    let rejected = resolved.rejected.iter().map(|r| RejectedView {
        version: r.version.as_ref().map_or_else(|| r.name.clone(), ToString::to_string),
        code: r.code,
        text: r.text.clone(),
        fix: r.fix.as_ref().map(|f| f.command.clone()),
    });
    Why { chosen: resolved.chosen.version_text(), text: resolved.why.clone(), rejected: rejected.collect() }
}

fn dependency(dependency: &olm_resolver::Dependency) -> DependencyView {
    let need = match &dependency.need {
        Need::Api(gvk) => format!("gvk {}/{} {}", gvk.group, gvk.version, gvk.kind),
        other => other.to_string(),
    };
    let (satisfied_by, install) = match &dependency.satisfied_by {
        SatisfiedBy::Install(bundle) => (
            format!("{} from catalog {}, installed along", bundle.name, bundle.catalog),
            Some(bundle.clone()),
        ),
        SatisfiedBy::Request { subscription, name } => {
            (format!("{name} of Subscription {subscription}"), None)
        }
        SatisfiedBy::Installed { name, namespace } => {
            (format!("{name} installed in namespace {namespace}"), None)
        }
        SatisfiedBy::Cluster { owner: Some(owner) } => (format!("cluster ({owner})"), None),
        SatisfiedBy::Cluster { owner: None } => ("cluster".to_owned(), None),
    };
    DependencyView { need, required_by: dependency.required_by.clone(), satisfied_by, install }
}

/// There is no way back over a CRD that gives up a version: objects may be stored in it again after the way back.
fn reversible(live: &Live, crds: &[(ObjectRef, &Value)]) -> Reversible {
    let names = |crd: &Value| -> Vec<String> {
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        versions.filter_map(|v| v["name"].as_str()).map(str::to_owned).collect()
    };
    for (reference, new) in crds {
        let Some(there) = live.get(reference) else { continue };
        let storage = new.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let storage = storage.filter(|v| v["storage"] == true).filter_map(|v| v["name"].as_str()).next();
        if let Some(version) = storage.filter(|v| !names(there).iter().any(|n| n == v)) {
            let reason = format!(
                "{reference} will store objects in version {version}, which the old version does not know"
            );
            return Reversible { possible: false, reason: Some(reason) };
        }
        let gone = removed_stored_versions(there, new);
        if !gone.is_empty() {
            let reason = format!("{reference} drops stored version {}", gone.join(", "));
            return Reversible { possible: false, reason: Some(reason) };
        }
    }
    Reversible { possible: true, reason: None }
}

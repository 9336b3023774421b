//! Plans for installs and upgrades.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::subscription::Approval;
use olm_bundle::{Endpoint, Manifest, Phase, Rendered, crd_of_role};
use olm_resolver::{Action, Need, Resolved, SatisfiedBy};
use olm_version::precedence;
use serde_json::{Value, json};

use crate::desired::{csv_ref, desired, keep_shared_labels, namespace_ref, unclaimed};
use crate::diff::{Diff, difference};
use crate::digest::{self, Digests};
use crate::finding::{Finding, FindingCode};
use crate::images::images;
use crate::input::{Live, PlanInput};
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_in, owner_of};
use crate::permissions;
use crate::plan::{API_VERSION, DependencyView, Plan, PlanAction, RejectedView, Reversible, Why};
use crate::planned::{Cause, Op, PlannedObject};
use crate::preflight::{Context, demands, findings, lending, removed_stored_versions};
use crate::reserved::is_reserved;

/// The objects whose live state [`make_plan`] needs.
pub fn reads(input: &PlanInput<'_>) -> Vec<ObjectRef> {
    let mut list =
        vec![namespace_ref(input.namespace), csv_ref(input.namespace, &input.resolved.chosen.name)];
    list.extend(input.resolved.from.as_ref().map(|from| csv_ref(input.namespace, &from.name)));
    for rendered in input.rendered.ok().into_iter().chain(input.previous) {
        let references = rendered.objects().filter_map(|(_, object)| ObjectRef::of(object));
        list.extend(references.filter(|reference| certificate_of(rendered, reference).is_none()));
    }
    list.sort();
    list.dedup();
    list
}

/// The Service whose certificate is in a Secret. A plan contains nothing of such a Secret, and its author
/// need not be allowed to read it: it exists when its Service does.
fn certificate_of(rendered: &Rendered, reference: &ObjectRef) -> Option<ObjectRef> {
    if reference.kind != "Secret" {
        return None;
    }
    let holds = |endpoint: &&Endpoint| {
        endpoint.secret == reference.name && reference.namespace.as_deref() == Some(&endpoint.namespace)
    };
    let endpoint = rendered.endpoints.iter().find(holds)?;
    Some(ObjectRef::new("v1", "Service", Some(&endpoint.namespace), &endpoint.service))
}

/// Plans an install or an upgrade.
pub fn make_plan(input: &PlanInput<'_>, live: &Live) -> Plan {
    let resolved = input.resolved;
    let mut wanted: Vec<(Phase, ObjectRef, Manifest)> = match input.rendered {
        Ok(rendered) => desired(input, rendered, live)
            .into_iter()
            .filter_map(|(phase, manifest)| Some((phase, ObjectRef::of(&manifest)?, manifest)))
            .collect(),
        // a bundle that cannot be rendered is not applied in parts
        Err(_) => Vec::new(),
    };
    // an unchanged version was applied before
    let same = input.rendered.ok().filter(|_| resolved.action == Action::None);
    let before = input.previous.or(same);
    let previous = manifests_of(before);
    let leftovers = if wanted.is_empty() { Vec::new() } else { leftovers(input, &wanted, &previous) };
    // before anything of the live state gets into the manifests
    let Digests { all, content, parts, longest } = plan_digest(input, &wanted, &leftovers);
    let of_the_cluster = wanted.iter_mut().filter(|(_, r, _)| r.namespace.is_none() && r.kind != "Namespace");
    for (_, reference, manifest) in of_the_cluster {
        keep_shared_labels(manifest, live.get(reference), &resolved.chosen.package);
    }
    let mut objects = Vec::with_capacity(wanted.len() + leftovers.len());
    let mut same_versions = BTreeSet::new();
    for (phase, reference, manifest) in &wanted {
        if let Some(service) = input.rendered.ok().and_then(|rendered| certificate_of(rendered, reference)) {
            let op = if live.contains_key(&service) { Op::Unchanged } else { Op::Create };
            let note = Some("its certificate is created when the plan is applied".to_owned());
            objects.push(PlannedObject { note, ..PlannedObject::new(reference, op, Some(*phase)) });
            continue;
        }
        let difference = live.get(reference).map(|there| {
            let last = previous.get(reference).map(|rendered| unclaimed(input, rendered, there));
            let difference = difference(there, last.as_deref(), manifest);
            if difference.same_versions {
                same_versions.insert(reference);
            }
            (there, difference)
        });
        objects.push(planned(input, difference, *phase, reference));
    }
    objects.extend(leftovers.iter().filter_map(|reference| left_over(input, live, reference)));
    let crds: Vec<(ObjectRef, &Value)> = wanted
        .iter()
        .filter(|(_, r, _)| r.kind == "CustomResourceDefinition")
        .map(|(_, r, m)| (r.clone(), &**m))
        .collect();
    let action = action(input);
    let changes = objects.iter().any(|o| !matches!(o.op, Op::Unchanged | Op::Noop));
    let permissions =
        permissions::delta(before, input.rendered.ok()).among(input.facts.catalog_risk.as_ref());
    let reversible = reversible(live, &crds);
    let context = Context {
        input,
        live,
        wanted: &wanted,
        objects: &objects,
        same_versions: &same_versions,
        action,
        permissions: &permissions,
        reversible: &reversible,
    };
    let mut findings = findings(&context);
    let (demands, lending) = (demands(&context), lending(&context));
    findings.extend(too_large(&longest));
    findings.sort_by_key(|finding| finding.severity);
    locate(&mut findings, &objects);
    Plan {
        api_version: API_VERSION.to_owned(),
        digest: all,
        catalog_digest: Some(input.catalog_digest.to_owned()).filter(|d| !d.is_empty()),
        action,
        namespace: input.namespace.to_owned(),
        subscription: input.subscription.to_owned(),
        package: resolved.chosen.package.clone(),
        channel: Some(resolved.chosen.channel.clone()).filter(|c| !c.is_empty()),
        from_channel: from_channel(input).map(str::to_owned),
        bundle: resolved.chosen.name.clone(),
        from: resolved.from.as_ref().map(|f| f.version.as_ref().map_or(f.name.clone(), ToString::to_string)),
        to: Some(resolved.chosen.version_text()),
        path: resolved
            .path
            .iter()
            .map(|hop| hop.version.as_ref().map_or(hop.name.clone(), ToString::to_string))
            .collect(),
        watches: input.rendered.map(|_| input.target_namespaces.to_vec()).unwrap_or_default(),
        why: why(resolved),
        dependencies: resolved.dependencies.iter().map(dependency).collect(),
        permissions,
        findings,
        images: input.rendered.map(|rendered| images(input.bundle, rendered)).unwrap_or_default(),
        signatures: input.facts.signatures.clone(),
        requires_approval: input.approval == Approval::Manual
            && (changes || !matches!(action, PlanAction::None | PlanAction::ChannelChange)),
        reversible,
        operands: Vec::new(),
        along: Vec::new(),
        parts,
        content,
        demands,
        lending,
        manifests: wanted.into_iter().map(|(_, reference, manifest)| (reference, manifest)).collect(),
        objects,
    }
}

/// The previous channel, if it changed and something was installed.
fn from_channel<'a>(input: &PlanInput<'a>) -> Option<&'a str> {
    let before = input.facts.from_channel.as_deref()?;
    let installed = input.resolved.action != Action::Install;
    (installed && before != input.resolved.chosen.channel).then_some(before)
}

/// A change of version is named by its direction; only without one, a change of channel has its own action.
/// [`Plan::from_channel`] has it in any case.
fn action(input: &PlanInput<'_>) -> PlanAction {
    let resolved = input.resolved;
    match resolved.action {
        Action::Install => PlanAction::Install,
        Action::None if from_channel(input).is_some() => PlanAction::ChannelChange,
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

fn manifests_of(rendered: Option<&Rendered>) -> BTreeMap<ObjectRef, &Value> {
    let objects = rendered.into_iter().flat_map(Rendered::objects);
    objects.filter_map(|(_, object)| Some((ObjectRef::of(object)?, object))).collect()
}

/// Findings about an object of the plan reference it in a machine-readable form.
fn locate(findings: &mut [Finding], objects: &[PlannedObject]) {
    if findings.iter().all(|finding| finding.object.is_some()) {
        return;
    }
    let known: BTreeMap<String, String> =
        objects.iter().map(|o| (o.reference.to_string(), o.reference.path())).collect();
    for finding in findings.iter_mut().filter(|finding| finding.object.is_none()) {
        finding.object = known.get(&finding.subject).cloned();
    }
}

fn planned(
    input: &PlanInput<'_>,
    there: Option<(&Value, Diff)>,
    phase: Phase,
    reference: &ObjectRef,
) -> PlannedObject {
    let Some((there, difference)) = there else {
        return PlannedObject::new(reference, Op::Create, Some(phase));
    };
    let (op, note) = match owner_in(input, there) {
        Owner::Ours | Owner::Shared(_) if difference.fields.is_empty() => (Op::Unchanged, None),
        Owner::Ours if difference.fields.iter().all(|field| field.cause == Cause::Drift) => {
            (Op::Update, Some("it was changed by another client and is restored".to_owned()))
        }
        Owner::Ours => (Op::Update, None),
        Owner::Shared(namespace) => {
            (Op::Update, Some(format!("shared with the same package in namespace {namespace}")))
        }
        Owner::None => (Op::Adopt, Some("it exists without an owner".to_owned())),
        Owner::Other(other) => (Op::Adopt, Some(format!("owned by {other}"))),
    };
    PlannedObject {
        diff: difference.fields,
        masked: difference.masked,
        note,
        ..PlannedObject::new(reference, op, Some(phase))
    }
}

/// The operation on an object of the old version; `None` when it does not exist.
fn left_over(input: &PlanInput<'_>, live: &Live, reference: &ObjectRef) -> Option<PlannedObject> {
    let there = live.get(reference)?;
    let old = input.resolved.from.as_ref().map(|from| csv_ref(input.namespace, &from.name));
    let is_old = old.as_ref() == Some(reference);
    if is_reserved(reference, Some(there)) {
        let note = Some("it belongs to olm or Kubernetes".to_owned());
        return Some(PlannedObject { note, ..PlannedObject::new(reference, Op::Noop, None) });
    }
    let owner = owner_of(there, &input.resolved.chosen.package, input.namespace, &input.bundle_names());
    if !is_old && owner != Owner::Ours {
        let note = Some(match owner {
            Owner::Shared(namespace) => format!("required by the same package in namespace {namespace}"),
            _ => "it belonged to the old version and no longer belongs to this package".to_owned(),
        });
        return Some(PlannedObject { note, ..PlannedObject::new(reference, Op::Noop, None) });
    }
    let goes_with = old.filter(|_| !is_old).map(|old| old.to_string());
    Some(PlannedObject { goes_with, ..PlannedObject::new(reference, Op::Delete, None) })
}

/// Objects of the old version that the new one lacks, the old ClusterServiceVersion last. CRDs always stay,
/// with the roles over their kinds: their deletion would delete all their objects.
fn leftovers(
    input: &PlanInput<'_>,
    wanted: &[(Phase, ObjectRef, Manifest)],
    previous: &BTreeMap<ObjectRef, &Value>,
) -> Vec<ObjectRef> {
    let identity =
        |r: &ObjectRef| (r.group().to_owned(), r.kind.clone(), r.namespace.clone(), r.name.clone());
    let wanted: BTreeSet<_> = wanted.iter().map(|(_, reference, _)| identity(reference)).collect();
    let kept = |reference: &ObjectRef| wanted.contains(&identity(reference));
    let stays = |reference: &ObjectRef, manifest: &Value| {
        ["CustomResourceDefinition", "Namespace"].contains(&reference.kind.as_str())
            || crd_of_role(manifest).is_some()
    };
    let mut list: Vec<ObjectRef> = previous
        .iter()
        .filter(|(reference, manifest)| !kept(reference) && !stays(reference, manifest))
        .map(|(reference, _)| reference.clone())
        .collect();
    let old = input.resolved.from.as_ref().map(|from| csv_ref(input.namespace, &from.name));
    list.extend(old.filter(|old| !kept(old)));
    list
}

/// The approved content is what is applied and deleted, independent of existing objects, time and order. A
/// namespace that is created on the way does not count: its creation by another user would change the digest.
fn plan_digest(
    input: &PlanInput<'_>,
    wanted: &[(Phase, ObjectRef, Manifest)],
    leftovers: &[ObjectRef],
) -> Digests {
    let mut parts: BTreeMap<String, Option<&Value>> = BTreeMap::new();
    for (_, reference, manifest) in wanted.iter().filter(|(_, r, _)| r.kind != "Namespace") {
        parts.insert(format!("apply {} {reference}", reference.api_version), Some(manifest));
    }
    for reference in leftovers {
        parts.insert(format!("delete {} {reference}", reference.api_version), None);
    }
    let head = json!({
        "apiVersion": API_VERSION,
        "namespace": input.namespace,
        "package": input.resolved.chosen.package,
        "bundle": input.resolved.chosen.name,
    });
    // An OperatorGroup created by the plan already exists when the plan continues; deleted objects do not
    // exist any more.
    let lasting = |_: &str, manifest: Option<&Value>| manifest.is_some_and(|m| m["kind"] != "OperatorGroup");
    digest::digest(&head, &parts, lasting)
}

/// Maximum size of a written object: etcd accepts 1.5 MB in one request, and the API server adds managed
/// fields.
pub const MOST_BYTES: usize = 900_000;

/// Reserve for a ClusterServiceVersion: its status, and the names of more namespaces in its annotations.
const ROOM_TO_GROW: usize = 250_000;

fn too_large((bytes, part): &(usize, String)) -> Option<Finding> {
    let object = part.strip_prefix("apply ").and_then(|rest| rest.split_once(' '))?.1;
    let is_csv = object.starts_with("ClusterServiceVersion ");
    let most = if is_csv { MOST_BYTES - ROOM_TO_GROW } else { MOST_BYTES };
    (*bytes > most).then(|| {
        let mut text = format!("{object} has {} KB, expected at most {} KB", bytes / 1000, MOST_BYTES / 1000);
        if is_csv {
            text += &format!(", of which its status needs {} KB", ROOM_TO_GROW / 1000);
        }
        Finding::new(FindingCode::ObjectTooLarge, object, text)
            .fix("olm bundle validate DIR  # report to the publisher: shorten descriptions and examples")
    })
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
            format!("{} from catalog {}, installed as a dependency", bundle.name, bundle.catalog),
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

/// There is no way back over a CRD that removes a version: objects may be stored in it again afterwards.
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
                "{reference} will store objects in version {version}, which the old version does not have"
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

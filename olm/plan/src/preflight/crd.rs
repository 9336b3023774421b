//! Effects of new CustomResourceDefinitions on existing objects and their users.

use olm_kube_schema::change::{Change, ChangeCode, Severity as Harm};
use olm_kube_schema::live::{LiveReport, ObjectReport};
use olm_version::shell_word;
use serde_json::Value;

use super::{Context, Report};
use crate::equal::equal;
use crate::facts::{CustomObjects, Fact, Identity, Principal};
use crate::finding::{Finding, FindingCode, MOST_NAMED, Severity};
use crate::json::{list, some_of, text};
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_of};

/// Maximum number of listed fields of one object.
const MOST_FIELDS: usize = 3;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for (reference, new) in context.crds() {
        report.extend(conversion(context, reference, new));
        report.extend(newer_rule(context, reference, new));
        let Some(live) = context.live.get(reference) else { continue };
        report.extend(owned_by_other(context, reference, live));
        report.extend(stored_version_removed(reference, live, new));
        report.extend(scope(reference, live, new));
        schema(context, reference, live, new, report);
    }
}

fn owned_by_other(context: &Context<'_>, reference: &ObjectRef, live: &Value) -> Option<Finding> {
    let input = context.input;
    let package = &input.resolved.chosen.package;
    let Owner::Other(other) = owner_of(live, package, input.namespace, &input.bundle_names()) else {
        return None;
    };
    if given_up(context, reference, live) {
        return None;
    }
    let text = format!("{other} owns this CRD; two owners would overwrite each other");
    Some(
        Finding::new(FindingCode::CrdOwnedByOther, reference, text)
            .fix(format!("kubectl describe crd {}", reference.name)),
    )
}

/// Whether the CRD is only labelled as that of an operator of this namespace that does not own it any more: a
/// version that gives an API up leaves the label behind.
fn given_up(context: &Context<'_>, reference: &ObjectRef, live: &Value) -> bool {
    let Fact::Known(owned) = &context.input.facts.owned_crds else { return false };
    let labels = live.pointer("/metadata/labels").and_then(Value::as_object);
    let mut components = labels
        .into_iter()
        .flat_map(|labels| labels.keys())
        .filter_map(|key| key.strip_prefix(olm_api::names::LABEL_COMPONENT_PREFIX))
        .peekable();
    let here =
        |component: &str| component.rsplit_once('.').is_some_and(|(_, ns)| ns == context.input.namespace);
    components.peek().is_some() && components.all(here) && !owned.contains(&reference.name)
}

/// The stored versions of a live CRD that the new one lacks.
pub(crate) fn removed_stored_versions(live: &Value, new: &Value) -> Vec<String> {
    let known: Vec<&str> = list(new, "/spec/versions").iter().map(|v| text(v, "/name")).collect();
    let stored = list(live, "/status/storedVersions").iter().filter_map(Value::as_str);
    stored.filter(|v| !known.contains(v)).map(str::to_owned).collect()
}

fn stored_version_removed(reference: &ObjectRef, live: &Value, new: &Value) -> Option<Finding> {
    let gone = removed_stored_versions(live, new);
    (!gone.is_empty()).then(|| {
        let text = format!(
            "objects may be stored in version {} (status.storedVersions), which the new CRD does not have",
            gone.join(", ")
        );
        Finding::new(FindingCode::CrdStoredVersionRemoved, reference, text)
            .fix(format!("kubectl get crd {} -o jsonpath='{{.status.storedVersions}}'", reference.name))
    })
}

fn scope(reference: &ObjectRef, live: &Value, new: &Value) -> Option<Finding> {
    let (before, after) = (text(live, "/spec/scope"), text(new, "/spec/scope"));
    (before != after && !before.is_empty()).then(|| {
        let text = format!(
            "its scope would change from {before} to {after}, which the API server refuses; the CRD must be \
                deleted first, which deletes all its objects"
        );
        Finding::new(FindingCode::CrdScopeChanged, reference, text)
            .fix(format!("kubectl get {} -A -o yaml > backup.yaml", reference.name))
    })
}

/// A rule that uses what the cluster's Kubernetes does not have. Rules that it has stored stay valid.
fn newer_rule(context: &Context<'_>, reference: &ObjectRef, new: &Value) -> Option<Finding> {
    let have = context.input.facts.kubernetes.as_ref()?;
    let newer = |crd: &Value| olm_kube_schema::definition::newer_rules(crd, have.minor);
    let stored = context.live.get(reference).map(newer).unwrap_or_default();
    let error = newer(new).into_iter().find(|new| stored.iter().all(|old| old.bad_value != new.bad_value))?;
    let text = format!("{}: {}; this cluster runs {have}", error.path, error.detail);
    Some(Finding::new(FindingCode::KubernetesTooOld, reference, text).fix(format!(
        "olm show {}  # choose an older version",
        shell_word(&context.input.resolved.chosen.package)
    )))
}

/// A conversion by the bundle's own webhook is enabled once that answers. Any other is not managed here.
fn conversion(context: &Context<'_>, reference: &ObjectRef, new: &Value) -> Option<Finding> {
    if text(new, "/spec/conversion/strategy") != "Webhook" {
        return None;
    }
    let endpoints = context.input.rendered.map(|rendered| rendered.endpoints.as_slice()).unwrap_or_default();
    let mut trust = endpoints.iter().flat_map(|endpoint| &endpoint.trust);
    if trust.any(|place| place.kind == reference.kind && place.name == reference.name) {
        return None;
    }
    let client = new.pointer("/spec/conversion/webhook/clientConfig");
    let there = |key: &str| client.and_then(|c| c.get(key)).is_some_and(|v| !v.is_null());
    let (severity, text) = if there("service") || there("url") {
        (
            Severity::Warn,
            "its objects are converted by a webhook that is not part of the bundle; while the webhook is \
                unavailable, they are neither readable nor writable",
        )
    } else {
        (
            Severity::Block,
            "its objects are converted by a webhook that neither the CRD nor the bundle \
                (spec.webhookdefinitions, type ConversionWebhook) defines",
        )
    };
    Some(
        Finding::new(FindingCode::CrdConversionUnsupported, reference, text).severity(severity).fix(format!(
            "kubectl get crd {} -o jsonpath='{{.spec.conversion}}'",
            shell_word(&reference.name)
        )),
    )
}

/// The changes without a finding of their own.
fn harmful(live: &Value, new: &Value, same_versions: bool) -> Vec<Change> {
    const TOLD: &[ChangeCode] = &[
        ChangeCode::GroupChanged,
        ChangeCode::ScopeChanged,
        ChangeCode::KindChanged,
        ChangeCode::PluralChanged,
        ChangeCode::StoredVersionRemoved,
        ChangeCode::ConversionWebhookAdded,
    ];
    if untouched(live, new, same_versions) {
        return Vec::new();
    }
    let mut changes = olm_kube_schema::compare(live, new);
    changes.retain(|c| c.severity != Harm::Safe && !TOLD.contains(&c.code));
    changes
}

/// Whether versions with their schemas and conversions are equal, as in most upgrades: faster than a
/// comparison rule by rule. `same_versions`: the versions are known to be equal.
fn untouched(live: &Value, new: &Value, same_versions: bool) -> bool {
    let same = |pointer: &str, default: Value| {
        let [live, new] = [live, new].map(|crd| crd.pointer(pointer).filter(|v| !v.is_null()));
        live.unwrap_or(&default) == new.unwrap_or(&default)
    };
    let versions = || match (live.pointer("/spec/versions"), new.pointer("/spec/versions")) {
        (Some(live), Some(new)) => equal(live, new),
        (live, new) => live == new,
    };
    (same_versions || versions())
        && same("/spec/conversion/strategy", "None".into())
        && same("/spec/preserveUnknownFields", false.into())
}

/// Whether a change of the definition can harm objects, so that these must be read.
pub(super) fn matters(live: &Value, new: &Value) -> bool {
    !harmful(live, new, false).is_empty()
}

fn schema(context: &Context<'_>, reference: &ObjectRef, live: &Value, new: &Value, report: &mut Report) {
    let changes = harmful(live, new, context.same_versions.contains(reference));
    if changes.is_empty() {
        return;
    }
    let fact = context.input.facts.custom_objects.get(&reference.name).unwrap_or(&Fact::NotRead);
    let breaking: Vec<String> = changes
        .iter()
        .filter(|c| c.severity == Harm::Breaking)
        .map(|c| match &c.version {
            Some(version) => format!("{version} {}: {}", c.path, c.text),
            None => format!("{}: {}", c.path, c.text),
        })
        .collect();
    let found = fact.known().map(|objects| olm_kube_schema::check_objects(new, &objects.items));
    if !breaking.is_empty() {
        report.push(breaking_change(context, reference, &breaking, fact, found.as_ref()));
    }
    if let (Some(found), Some(objects)) = (&found, fact.known()) {
        live_objects(reference, found, objects, report);
    }
    if let Some(why) = fact.why_unknown() {
        report.not_checked(format!("objects of {}", reference.name), why);
    }
}

/// Incompatible changes of the definitions. They block unless no object is known to be harmed: none exists,
/// or every one was validated against the new schema.
fn breaking_change(
    context: &Context<'_>,
    reference: &ObjectRef,
    breaking: &[String],
    fact: &Fact<CustomObjects>,
    found: Option<&LiveReport>,
) -> Finding {
    let (severity, who) = match (fact, found) {
        (Fact::Known(objects), _) if objects.items.is_empty() => {
            (Severity::Warn, "no existing objects".to_owned())
        }
        (Fact::Known(objects), Some(found)) if found.is_clean() && !objects.more => {
            (Severity::Warn, format!("all {} existing objects are valid in the new schema", found.checked))
        }
        (Fact::Known(objects), _) => {
            let more = if objects.more { "more than " } else { "" };
            (Severity::Block, format!("existing objects: {more}{}", objects.items.len()))
        }
        (Fact::Unknown(why), _) => (Severity::Block, format!("failed to list existing objects: {why}")),
        (Fact::NotRead, _) => (Severity::Block, "existing objects were not checked".to_owned()),
    };
    let text = format!("the new version is not compatible: {}; {who}", some_of(breaking, MOST_NAMED));
    // The installer may lack only the permission to list the objects.
    let fix = match (fact, context.input.facts.installer.known()) {
        (
            Fact::Unknown(_),
            Some(Principal {
                who: Identity::ServiceAccount { namespace, name: account }, exact: true, ..
            }),
        ) => {
            let name = format!("olm-reads-{}", reference.name);
            format!(
                "kubectl create clusterrole {name} --verb=list --resource={} && kubectl create \
                    clusterrolebinding {name} --clusterrole={name} --serviceaccount={namespace}:{account}",
                reference.name
            )
        }
        _ => format!("kubectl get {} -A", reference.name),
    };
    Finding::new(FindingCode::CrdBreakingChange, reference, text).severity(severity).fix(fix)
}

fn live_objects(reference: &ObjectRef, found: &LiveReport, objects: &CustomObjects, report: &mut Report) {
    if found.failing > 0 {
        let text = format!(
            "the new schema refuses {} of {} objects: {}",
            found.failing,
            found.checked,
            in_words(&found.failures, found.failing)
        );
        report.push(
            Finding::new(FindingCode::CrdObjectsInvalid, reference, text)
                .fix(edit(reference, &found.failures)),
        );
    }
    if found.losing > 0 {
        let text = format!(
            "{} of {} objects lose fields that are not in the new schema: {}",
            found.losing,
            found.checked,
            in_words(&found.losses, found.losing)
        );
        report.push(
            Finding::new(FindingCode::CrdFieldsPruned, reference, text)
                .fix(format!("kubectl get {} -A -o yaml > backup.yaml", reference.name)),
        );
    }
    unchecked(reference, found, objects.more, report);
}

fn unchecked(reference: &ObjectRef, found: &LiveReport, more: bool, report: &mut Report) {
    for open in &found.unchecked {
        report.not_checked(format!("{} {}", reference.name, open.what), &open.why);
    }
    if more {
        report.not_checked(
            format!("objects of {} beyond the first {}", reference.name, found.checked),
            "too many objects",
        );
    }
}

fn in_words(objects: &[ObjectReport], total: usize) -> String {
    let one = |object: &ObjectReport| {
        let fields: Vec<String> = object.fields.iter().map(|f| format!("{}: {}", f.path, f.text)).collect();
        let name = match &object.namespace {
            Some(namespace) => format!("{namespace}/{}", object.name),
            None => object.name.clone(),
        };
        format!("{name} ({})", some_of(&fields, MOST_FIELDS))
    };
    let mut shown: Vec<String> = objects.iter().take(MOST_NAMED).map(one).collect();
    if total > shown.len() {
        shown.push(format!("and {} more", total - shown.len()));
    }
    shown.join(", ")
}

fn edit(reference: &ObjectRef, objects: &[ObjectReport]) -> String {
    match objects.first() {
        Some(ObjectReport { namespace: Some(namespace), name, .. }) => {
            format!("kubectl edit {} {name} -n {namespace}", reference.name)
        }
        Some(object) => format!("kubectl edit {} {}", reference.name, object.name),
        None => format!("kubectl get {} -A", reference.name),
    }
}

/// `namespace/name` of a custom resource.
pub(super) fn name_of(object: &Value) -> String {
    match text(object, "/metadata/namespace") {
        "" => text(object, "/metadata/name").to_owned(),
        namespace => format!("{namespace}/{}", text(object, "/metadata/name")),
    }
}

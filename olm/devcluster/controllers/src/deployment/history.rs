//! Revisions: the ReplicaSet of each template, and the revision history limit.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::PodTemplateSpec,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::plan::{Change, DESIRED, HASH_LABEL, Limits, MAX, Plan, REVISION, Sets, desired_replicas};
use crate::cache::Key;

const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A template without the label that the controller adds.
fn bare(template: &PodTemplateSpec) -> Value {
    let mut value = serde_json::to_value(template).unwrap_or_default();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.shift_remove(HASH_LABEL);
        }
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
    value
}

pub(super) fn same_template(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let none = PodTemplateSpec::default();
    let (mine, theirs) = (bare(&deployment.spec.template), bare(set.spec.template.as_ref().unwrap_or(&none)));
    let no_metadata =
        |value: &Value| value.get("metadata").is_none_or(|m| m.as_object().is_some_and(|m| m.is_empty()));
    mine == theirs || mine["spec"] == theirs["spec"] && no_metadata(&mine) && no_metadata(&theirs)
}

/// The hash of a template; the collision count changes it.
pub(super) fn template_hash(deployment: &Deployment) -> String {
    let mut value = bare(&deployment.spec.template);
    value.sort_all_objects();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    // FNV-1a: only a stable name, not a secret.
    let mut hash: u32 = 0x811c_9dc5;
    for byte in
        value.to_string().bytes().chain(collisions.to_le_bytes().into_iter().filter(|_| collisions > 0))
    {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    safe_encode(&hash.to_string())
}

/// Kubernetes' alphabet for generated names: without vowels, so that no words appear.
fn safe_encode(text: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

fn revision_of(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The revision of the current template: one above the highest of the others.
pub(super) fn next_revision(sets: &Sets<'_>) -> i64 {
    sets.old.iter().map(|set| revision_of(set)).max().unwrap_or(0) + 1
}

/// The annotations of a ReplicaSet: those of the Deployment, and the controller's own.
pub(super) fn annotations(
    deployment: &Deployment,
    set: Option<&ReplicaSet>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut annotations = set.map(|set| set.annotations().clone()).unwrap_or_default();
    for (key, value) in deployment.annotations() {
        if ![REVISION, HISTORY, DESIRED, MAX, LAST_APPLIED].contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let old = set.map(revision_of).unwrap_or(0);
    if old < revision {
        // A rollback gives the template a new revision; the annotation records its earlier ones.
        if old > 0 {
            let history = annotations.get(HISTORY).cloned().unwrap_or_default();
            let history = if history.is_empty() { old.to_string() } else { format!("{history},{old}") };
            annotations.insert(HISTORY.to_owned(), history);
        }
        annotations.insert(REVISION.to_owned(), revision.to_string());
    }
    if set.is_none() {
        let limits = Limits::of(deployment);
        annotations.insert(DESIRED.to_owned(), limits.replicas.to_string());
        annotations.insert(MAX.to_owned(), limits.max_total().to_string());
    }
    annotations
}

/// Updates the annotations (and minReadySeconds) of the current ReplicaSet and of the Deployment.
pub(super) fn update_annotations(deployment: &Deployment, new: &ReplicaSet, revision: i64, plan: &mut Plan) {
    let annotations = annotations(deployment, Some(new), revision);
    let min_ready = deployment.spec.min_ready_seconds.unwrap_or(0);
    if annotations != *new.annotations() || new.spec.min_ready_seconds.unwrap_or(0) != min_ready {
        let patch = json!({
            "metadata": { "annotations": annotations },
            "spec": { "minReadySeconds": min_ready },
        });
        plan.changes.push(Change::Patch { set: Key::of(new), patch, event: None });
    }
    if let Some(revision) = annotations.get(REVISION)
        && deployment.annotations().get(REVISION) != Some(revision)
    {
        let annotation = BTreeMap::from([(REVISION.to_owned(), revision.clone())]);
        plan.changes.push(Change::Annotate(annotation));
    }
}

/// Deletes ReplicaSets beyond `revisionHistoryLimit`, oldest revision first.
pub(super) fn clean_up(deployment: &Deployment, sets: &Sets<'_>, plan: &mut Plan) {
    let limit = deployment.spec.revision_history_limit.unwrap_or(10);
    let mut old: Vec<&ReplicaSet> =
        sets.old.iter().copied().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
    let Some(excess) = usize::try_from(limit).ok().and_then(|limit| old.len().checked_sub(limit)) else {
        return;
    };
    old.sort_by_key(|set| revision_of(set));
    for set in old.into_iter().take(excess) {
        let status = set.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation).unwrap_or(0);
        let empty = desired_replicas(set) == 0
            && status.is_none_or(|status| status.replicas == 0)
            && set.metadata.generation.unwrap_or(0) <= observed;
        if empty {
            plan.changes.push(Change::Delete(Key::of(set)));
        }
    }
}

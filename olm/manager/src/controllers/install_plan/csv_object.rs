//! The ClusterServiceVersion as it is created. Pure.

use kube::Resource;
use olm_api::{ClusterServiceVersion, names};
use olm_engine::{Change, Snapshot};
use olm_plan::ObjectRef;
use serde_json::{Value, json};

use crate::controllers::csv::apis;

pub(super) fn reference(change: &Change) -> ObjectRef {
    ObjectRef::new(
        &ClusterServiceVersion::api_version(&()),
        &ClusterServiceVersion::kind(&()),
        Some(&change.plan.namespace),
        &change.resolved.chosen.name,
    )
}

/// Whether the old version already names the new one in `replaces`: on a rollback each would replace the
/// other, and it would be undefined which of them stays.
pub(super) fn makes_replaces_cycle(change: &Change, snapshot: &Snapshot) -> bool {
    let old = change.replaces.as_ref().and_then(|name| snapshot.csv(name));
    old.is_some_and(|csv| csv.spec.replaces.as_ref() == Some(&change.resolved.chosen.name))
}

/// Adds to the planned manifest what only the manager needs: the predecessor that it replaces, and the
/// finalizer for its cleanup.
pub(super) fn finish(mut manifest: Value, change: &Change) -> Value {
    if let (Some(replaces), Some(spec)) =
        (&change.replaces, manifest.get_mut("spec").and_then(Value::as_object_mut))
    {
        // An upgrade along `skips` or `skipRange` replaces another version than the author's `replaces`.
        spec.insert("replaces".into(), json!(replaces));
    }
    // Those that the version's own controller would add.
    let csv = serde_json::from_value::<ClusterServiceVersion>(manifest.clone());
    let apis = csv.map(|csv| apis::labels(&csv)).unwrap_or_default();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        // Garbage collection does not reach its cluster-wide objects.
        metadata.insert("finalizers".into(), json!([names::FINALIZER_CSV_CLEANUP]));
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(names::LABEL_MANAGED.into(), json!("true"));
            labels.extend(apis.into_iter().map(|(key, value)| (key, value.into())));
        }
    }
    manifest
}

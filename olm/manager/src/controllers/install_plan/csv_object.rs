//! The ClusterServiceVersion as it is put on the cluster: pure.

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

/// Whether the version that goes says that it replaces the one that comes: on the way back each would replace the other, and
/// neither would know which of them stays.
pub(super) fn closes_a_circle(change: &Change, snapshot: &Snapshot) -> bool {
    let old = change.replaces.as_ref().and_then(|name| snapshot.csv(name));
    old.is_some_and(|csv| csv.spec.replaces.as_ref() == Some(&change.resolved.chosen.name))
}

/// The planned manifest with what only the manager needs: the predecessor that it takes over from, and the finalizer
/// by which it cleans up.
pub(super) fn finish(mut manifest: Value, change: &Change) -> Value {
    if let (Some(replaces), Some(spec)) =
        (&change.replaces, manifest.get_mut("spec").and_then(Value::as_object_mut))
    {
        // An upgrade along `skips` or `skipRange` replaces something else than the author's `replaces`.
        spec.insert("replaces".into(), json!(replaces));
    }
    // Those that the version's own controller would add.
    let csv = serde_json::from_value::<ClusterServiceVersion>(manifest.clone());
    let apis = csv.map(|csv| apis::labels(&csv)).unwrap_or_default();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        // What it brings cluster-wide is not found by garbage collection.
        metadata.insert("finalizers".into(), json!([names::FINALIZER_CSV_CLEANUP]));
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(names::LABEL_MANAGED.into(), json!("true"));
            labels.extend(apis.into_iter().map(|(key, value)| (key, value.into())));
        }
    }
    manifest
}

//! Removes unused fields of objects before they are stored.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorCondition, Shared, install_plan::InstallPlanPhase, names,
};

/// The manager reads these annotations of versions in place; the others are stored with the spec, once for
/// all versions with equal ones.
const READ: [&str; 2] = ["olm.", "operatorframework.io/"];
/// Annotations that tools write into any object; the manager does not read them.
const TOOLS: &str = "kubectl.kubernetes.io/";

/// Removes unused fields of a version, and moves what versions of one operator have in common to the spec.
pub(super) fn csv(csv: &mut ClusterServiceVersion) {
    let spec = &mut csv.spec;
    spec.description = None;
    spec.icon = Vec::new();
    spec.links = Vec::new();
    spec.maintainers = Vec::new();
    spec.keywords = Vec::new();
    spec.related_images = Vec::new();
    tools(&mut csv.metadata);
    let Some(annotations) = &mut csv.metadata.annotations else { return };
    let stays = |key: &str| READ.iter().any(|prefix| key.starts_with(prefix));
    let others: BTreeMap<String, String> = annotations.extract_if(.., |key, _| !stays(key)).collect();
    csv.spec.shared_annotations = Shared::from(others);
}

/// Reduces a plan that is over to its result.
pub(super) fn plan(plan: &mut InstallPlan) {
    tools(&mut plan.metadata);
    if !plan.is_over() {
        return;
    }
    plan.metadata.annotations = None;
    let spec = &mut plan.spec;
    (spec.source, spec.source_namespace, spec.plan_digest) = (None, None, None);
    if let Some(status) = &mut plan.status {
        let whole = std::mem::take(status);
        status.phase = whole.phase;
        // The failure is also reported on its Subscription.
        if whole.phase == InstallPlanPhase::Failed {
            (status.conditions, status.message) = (whole.conditions, whole.message);
        }
    }
}

/// Removes the metadata of the owner from an OperatorCondition: only the operator's conditions are read.
pub(super) fn condition(condition: &mut OperatorCondition) {
    tools(&mut condition.metadata);
    condition.metadata.owner_references = None;
    if let Some(labels) = &mut condition.metadata.labels {
        labels.retain(|key, _| key.starts_with(names::LABEL_COMPONENT_PREFIX));
    }
    (condition.spec.service_accounts, condition.spec.deployments) = Default::default();
}

/// Removes what only tools read.
pub(super) fn tools(metadata: &mut ObjectMeta) {
    let Some(annotations) = &mut metadata.annotations else { return };
    annotations.retain(|key, _| !key.starts_with(TOOLS));
    if annotations.is_empty() {
        metadata.annotations = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use olm_engine::restore_annotations;

    use kube::ResourceExt;

    use super::*;

    fn csv(namespace: &str) -> ClusterServiceVersion {
        let text = "x".repeat(200);
        serde_json::from_value(json!({
            "metadata": { "name": "a.v1", "namespace": namespace, "annotations": {
                "alm-examples": text, "olm.targetNamespaces": text, "short": "x", "kubectl.kubernetes.io/last": "x",
            } },
            "spec": {
                "description": "long",
                "install": { "strategy": "deployment", "spec": { "deployments": [{ "name": "a", "spec": {} }] } },
                "customresourcedefinitions": { "owned": [{ "name": "as.example.com", "version": "v1", "kind": "A" }] },
            },
        }))
        .unwrap()
    }

    #[test]
    fn nothing_is_lost_that_pods_get() {
        let mut kept = csv("one");
        let mut all = kept.metadata.annotations.clone().unwrap();
        super::csv(&mut kept);
        // annotations that the manager reads stay in place
        assert_eq!(kept.annotations().keys().collect::<Vec<_>>(), ["olm.targetNamespaces"]);
        assert_eq!(kept.spec.description, None);
        all.remove("kubectl.kubernetes.io/last");
        assert_eq!(restore_annotations(&kept).metadata.annotations.unwrap(), all);
    }
}

//! What is kept of objects. An operator that is in a thousand namespaces is one specification: it is kept once. What nobody reads
//! is not kept.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use kube::{ResourceExt, api::ObjectMeta};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorCondition, Shared, Subscription,
    install_plan::InstallPlanPhase, names,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::pack;

/// The manager reads these annotations of versions where they are; the others are kept once for all versions that have the same.
const READ: [&str; 2] = ["olm.", "operatorframework.io/"];
/// Only what tools write into any object; nobody asks the manager for it.
const TOOLS: &str = "kubectl.kubernetes.io/";

type Known = Mutex<HashMap<[u8; 32], Weak<dyn Any + Send + Sync>>>;

/// Every part that is kept, by its content, as long as an object has it.
static KNOWN: LazyLock<Known> = LazyLock::new(Known::default);

/// Takes from a version what nobody reads, and shares with others what they have alike.
pub(crate) fn version(csv: &mut ClusterServiceVersion) {
    let spec = &mut csv.spec;
    spec.description = None;
    spec.icon = Vec::new();
    spec.links = Vec::new();
    spec.maintainers = Vec::new();
    spec.keywords = Vec::new();
    spec.related_images = Vec::new();
    share(&mut spec.install);
    spec.custom_resource_definitions.iter_mut().for_each(share);
    spec.api_service_definitions.iter_mut().for_each(share);
    pack::version(csv);
    tools(&mut csv.metadata);
    let Some(annotations) = &mut csv.metadata.annotations else { return };
    let stays = |key: &str| READ.iter().any(|prefix| key.starts_with(prefix));
    let others: BTreeMap<String, String> = annotations.extract_if(.., |key, _| !stays(key)).collect();
    csv.spec.aside = Shared::from(others);
    share(&mut csv.spec.aside);
}

/// Takes from a Subscription what is asked for only when its status is written.
pub(super) fn subscription(subscription: &mut Subscription) {
    pack::subscription(subscription);
    tools(&mut subscription.metadata);
}

/// Takes from a plan that is over everything but what became of it.
pub(super) fn plan(plan: &mut InstallPlan) {
    tools(&mut plan.metadata);
    if !super::is_over(plan) {
        return;
    }
    plan.metadata.annotations = None;
    let spec = &mut plan.spec;
    (spec.source, spec.source_namespace, spec.plan_digest) = (None, None, None);
    if let Some(status) = &mut plan.status {
        let whole = std::mem::take(status);
        status.phase = whole.phase;
        // Why it failed is said of its Subscription too.
        if whole.phase == InstallPlanPhase::Failed {
            (status.conditions, status.message) = (whole.conditions, whole.message);
        }
    }
}

/// Takes from an OperatorCondition what says whose it is: only what the operator says is read.
pub(super) fn condition(condition: &mut OperatorCondition) {
    tools(&mut condition.metadata);
    condition.metadata.owner_references = None;
    if let Some(labels) = &mut condition.metadata.labels {
        labels.retain(|key, _| key.starts_with(names::LABEL_COMPONENT_PREFIX));
    }
    (condition.spec.service_accounts, condition.spec.deployments) = Default::default();
}

/// Takes away what only tools read.
pub(super) fn tools(metadata: &mut ObjectMeta) {
    let Some(annotations) = &mut metadata.annotations else { return };
    annotations.retain(|key, _| !key.starts_with(TOOLS));
    if annotations.is_empty() {
        metadata.annotations = None;
    }
}

/// A version with all its annotations where they belong.
pub(crate) fn whole(csv: &ClusterServiceVersion) -> ClusterServiceVersion {
    let mut csv = csv.clone();
    let aside = std::mem::take(&mut csv.spec.aside);
    csv.annotations_mut().extend(aside.iter().map(|(key, value)| (key.clone(), value.clone())));
    csv
}

/// Makes a value the one of all those that are equal.
fn share<T: Serialize + Send + Sync + 'static>(value: &mut Shared<T>) {
    let Ok(text) = serde_json::to_vec(&**value) else { return };
    let mut hasher = Sha256::new();
    hasher.update(std::any::type_name::<T>());
    hasher.update(&text);
    let key: [u8; 32] = hasher.finalize().into();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let same = known.get(&key).and_then(Weak::upgrade).and_then(|same| same.downcast::<T>().ok());
    match same {
        Some(same) => *value = Shared::from(same),
        None => {
            known.retain(|_, value| value.strong_count() > 0);
            let value: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(value.arc());
            known.insert(key, Arc::downgrade(&value));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn equal_specifications_are_kept_once_and_nothing_is_lost_that_pods_get() {
        // given the same operator in two namespaces
        let (mut one, mut other) = (csv("one"), csv("other"));
        let original = one.metadata.annotations.clone().unwrap();
        // when both are kept
        version(&mut one);
        version(&mut other);
        // then what they have alike is one
        assert!(Arc::ptr_eq(one.spec.install.arc(), other.spec.install.arc()));
        assert!(Arc::ptr_eq(one.spec.aside.arc(), other.spec.aside.arc()));
        let crds = |csv: &ClusterServiceVersion| csv.spec.custom_resource_definitions.clone().unwrap();
        assert!(Arc::ptr_eq(crds(&one).arc(), crds(&other).arc()));
        // and what the manager reads is where it was
        let kept: Vec<&String> = one.annotations().keys().collect();
        assert_eq!(kept, ["olm.targetNamespaces"]);
        assert_eq!(one.spec.description, None);
        let mut all = original;
        all.remove("kubectl.kubernetes.io/last");
        assert_eq!(whole(&one).metadata.annotations.unwrap(), all);
        // and another specification is another
        other.spec.install.strategy = "other".into();
        share(&mut other.spec.install);
        assert_eq!(
            (one.spec.install.strategy.as_str(), other.spec.install.strategy.as_str()),
            ("deployment", "other")
        );
    }
}

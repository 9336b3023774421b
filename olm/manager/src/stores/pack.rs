//! What is kept of a status in few bytes: most of it is compared with a new one now and then, and read by nobody else. Whoever
//! writes a status opens it first.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use k8s_openapi::api::core::v1::ObjectReference;
use olm_api::{
    ClusterServiceVersion, ClusterServiceVersionStatus, Condition, Subscription, SubscriptionStatus,
};
use serde::{Serialize, de::DeserializeOwned};

/// Leaves of a version's status what is read while another object is looked at.
pub(super) fn version(csv: &mut ClusterServiceVersion) {
    let Some(status) = &mut csv.status else { return };
    let Some(packed) = pack(status) else { return };
    *status = ClusterServiceVersionStatus {
        observed_generation: status.observed_generation,
        phase: status.phase,
        reason: status.reason.take(),
        message: status.message.take(),
        last_update_time: status.last_update_time.take(),
        last_transition_time: status.last_transition_time.take(),
        packed: Some(packed),
        ..ClusterServiceVersionStatus::default()
    };
}

/// Leaves of a Subscription's status what is read while another object is looked at: which versions it names, which plan, and
/// what is wrong with it.
pub(super) fn subscription(subscription: &mut Subscription) {
    let Some(status) = &mut subscription.status else { return };
    let Some(packed) = pack(status) else { return };
    let plan = status.install_plan_ref.take();
    status.conditions.retain(Condition::is_true);
    *status = SubscriptionStatus {
        state: status.state,
        current_csv: status.current_csv.take(),
        installed_csv: status.installed_csv.take(),
        install_plan_ref: plan.map(|plan| ObjectReference { name: plan.name, ..ObjectReference::default() }),
        conditions: status.conditions.drain(..).filter(|c| is_trouble(&c.type_)).collect(),
        packed: Some(packed),
        ..SubscriptionStatus::default()
    };
}

/// A kept version with its whole status.
pub(crate) fn version_opened(csv: Arc<ClusterServiceVersion>) -> Arc<ClusterServiceVersion> {
    let Some(whole) = csv.status.as_ref().and_then(|status| open(status.packed.as_deref()?)) else {
        return csv;
    };
    let mut csv = Arc::unwrap_or_clone(csv);
    csv.status = Some(whole);
    Arc::new(csv)
}

/// A kept Subscription with its whole status.
pub(crate) fn subscription_opened(subscription: Arc<Subscription>) -> Arc<Subscription> {
    let Some(whole) = subscription.status.as_ref().and_then(|status| open(status.packed.as_deref()?)) else {
        return subscription;
    };
    let mut subscription = Arc::unwrap_or_clone(subscription);
    subscription.status = Some(whole);
    Arc::new(subscription)
}

fn is_trouble(type_: &str) -> bool {
    crate::metrics::TROUBLES.contains(&type_)
}

/// `None` where it cannot be packed: then it stays as it is.
fn pack<T: Serialize>(value: &T) -> Option<Box<[u8]>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&serde_json::to_vec(value).ok()?).ok()?;
    Some(encoder.finish().ok()?.into_boxed_slice())
}

/// Only what was packed here is opened: it is as large as what the API server sent.
fn open<T: DeserializeOwned>(packed: &[u8]) -> Option<T> {
    let mut text = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_that_was_packed_is_whole_again_for_whoever_writes_it() {
        // given what the API server sends
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "metadata": { "name": "a.v1" }, "spec": {},
            "status": {
                "phase": "Succeeded", "reason": "InstallSucceeded", "message": "m", "observedGeneration": 2,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "conditions": [{ "phase": "Pending", "reason": "r", "lastUpdateTime": "2026-01-01T00:00:00Z" }],
                "appliedDeployments": [{ "uid": "u", "generation": 3 }],
                "requirementStatus": [{ "group": "g", "version": "v1", "kind": "K", "name": "n", "status": "Present", "message": "" }],
            },
        }))
        .unwrap();
        let mut kept = csv.clone();
        version(&mut kept);
        // then what others look at is there, and the rest is not
        let slim = kept.status.clone().unwrap();
        assert_eq!(
            (slim.phase, slim.reason.as_deref()),
            (csv.status.clone().unwrap().phase, Some("InstallSucceeded"))
        );
        assert_eq!(
            (slim.conditions.len(), slim.applied_deployments.len(), slim.requirement_status.len()),
            (0, 0, 0)
        );
        // and opened it is what it was
        assert_eq!(*version_opened(Arc::new(kept)), csv);

        let wish: Subscription = serde_json::from_value(json!({
            "metadata": { "name": "a" }, "spec": { "name": "a", "source": "c", "sourceNamespace": "olm" },
            "status": {
                "state": "UpgradePending", "installedCSV": "a.v1", "currentCSV": "a.v2", "reason": "x",
                "installPlanRef": { "name": "install-1", "kind": "InstallPlan" },
                "conditions": [
                    { "type": "ResolutionFailed", "status": "True", "reason": "no" },
                    { "type": "CatalogSourcesUnhealthy", "status": "False" },
                    { "type": "Ready", "status": "True" },
                ],
            },
        }))
        .unwrap();
        let mut kept = wish.clone();
        subscription(&mut kept);
        let slim = kept.status.clone().unwrap();
        let named = slim.install_plan_ref.and_then(|plan| plan.name);
        assert_eq!(
            (slim.installed_csv.as_deref(), slim.current_csv.as_deref(), named.as_deref()),
            (Some("a.v1"), Some("a.v2"), Some("install-1"))
        );
        let told: Vec<&str> = slim.conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(told, ["ResolutionFailed"]);
        assert_eq!(*subscription_opened(Arc::new(kept)), wish);
    }
}

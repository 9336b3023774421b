//! The health rules of Flux and Argo CD as published, reimplemented to test our conditions.

use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

/// The statuses of kstatus (Flux, kpt, `cli-utils`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kstatus {
    Current,
    InProgress,
    Failed,
    Terminating,
}

/// The statuses of Argo CD; `None` is a kind without a check, which counts as healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argo {
    Healthy,
    Progressing,
    Degraded,
    NotLookedAt,
}

/// An object with a status, as on a server.
pub(crate) fn object<K: Resource<DynamicType = ()> + Serialize>(of: &K, status: &impl Serialize) -> Value {
    let mut object = serde_json::to_value(of).unwrap();
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    object["status"] = serde_json::to_value(status).unwrap();
    object
}

fn conditions(object: &Value) -> Vec<Value> {
    object["status"]["conditions"].as_array().cloned().unwrap_or_default()
}

/// Deletion first, then the generation, then the first of `Reconciling` and `Stalled` that is true, then
/// `Ready`; an object without any of them is current.
pub(crate) fn kstatus(object: &Value) -> Kstatus {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Kstatus::Terminating;
    }
    let (generation, observed) =
        (object["metadata"]["generation"].as_i64(), object["status"]["observedGeneration"].as_i64());
    if generation.is_some() && observed.is_some() && generation != observed {
        return Kstatus::InProgress;
    }
    for condition in conditions(object) {
        match (condition["type"].as_str(), condition["status"].as_str()) {
            (Some("Reconciling"), Some("True")) => return Kstatus::InProgress,
            (Some("Stalled"), Some("True")) => return Kstatus::Failed,
            _ => {}
        }
    }
    match conditions(object).iter().find(|c| c["type"] == "Ready").and_then(|c| c["status"].as_str()) {
        Some("True") | None => Kstatus::Current,
        Some(_) => Kstatus::InProgress,
    }
}

/// Argo CD has a built-in check for Subscriptions only in this group.
pub(crate) fn argo(object: &Value) -> Argo {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Argo::Progressing;
    }
    if object["kind"] != "Subscription" {
        return Argo::NotLookedAt;
    }
    if object["status"]["conditions"].is_null() {
        return Argo::Progressing;
    }
    let (mut waits, mut wrong) = (false, false);
    for condition in conditions(object) {
        // Its script would fail otherwise.
        assert!(condition["type"].is_string() && condition["status"].is_string(), "{condition}");
        let holds = condition["status"] == "True";
        match condition["type"].as_str().unwrap() {
            "InstallPlanPending" => waits |= holds,
            // Whether it is true or false.
            "InstallPlanMissing" => wrong |= condition["reason"] != "ReferencedInstallPlanNotFound",
            "CatalogSourcesUnhealthy" | "InstallPlanFailed" | "ResolutionFailed" => wrong |= holds,
            _ => {}
        }
    }
    match (wrong, waits) {
        (true, _) => Argo::Degraded,
        (false, true) => Argo::Progressing,
        (false, false) => Argo::Healthy,
    }
}

/// Our own check for Argo CD (docs/monitoring.md): it reads the common conditions.
pub(crate) fn argo_with_our_check(object: &Value) -> Argo {
    match kstatus(object) {
        _ if object["status"]["observedGeneration"].is_null() => Argo::Progressing,
        Kstatus::Current => Argo::Healthy,
        Kstatus::InProgress | Kstatus::Terminating => Argo::Progressing,
        Kstatus::Failed => Argo::Degraded,
    }
}

#[test]
fn the_judges_follow_their_rules() {
    let of = |generation: i64, observed: Value, conditions: Value| {
        let status = json!({ "observedGeneration": observed, "conditions": conditions });
        kstatus(&json!({ "metadata": { "generation": generation }, "status": status }))
    };
    let ready = json!([{ "type": "Ready", "status": "True" }]);
    assert_eq!(of(2, json!(1), ready.clone()), Kstatus::InProgress);
    assert_eq!(of(2, Value::Null, ready), Kstatus::Current);
    assert_eq!(of(2, json!(2), json!([{ "type": "Ready", "status": "Unknown" }])), Kstatus::InProgress);
    assert_eq!(of(2, json!(2), json!([{ "phase": "Failed" }])), Kstatus::Current);
    assert_eq!(of(2, json!(2), json!([{ "type": "Stalled", "status": "True" }])), Kstatus::Failed);
    assert_eq!(kstatus(&json!({ "metadata": { "deletionTimestamp": "x" } })), Kstatus::Terminating);
}

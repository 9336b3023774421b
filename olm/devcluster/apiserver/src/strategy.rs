//! Preparation of a kind's objects before storage, beyond defaults.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::meta;

pub(crate) fn namespace(object: &mut Value, live: Option<&Value>) {
    match live {
        None => {
            meta::child(object, "spec").insert("finalizers".to_owned(), json!(["kubernetes"]));
            meta::child(object, "status").insert("phase".to_owned(), "Active".into());
        }
        // Only `/finalize` changes the finalizers.
        Some(live) => {
            let finalizers = live.pointer("/spec/finalizers").cloned();
            meta::set_or_remove(meta::child(object, "spec"), "finalizers", finalizers);
        }
    }
}

pub(crate) fn pod(object: &mut Value, live: Option<&Value>) {
    if live.is_none() {
        let class = quality_of_service(object);
        let status = meta::child(object, "status");
        status.insert("phase".to_owned(), "Pending".into());
        status.insert("qosClass".to_owned(), class.into());
    }
}

/// As `GetPodQOS` of Kubernetes.
fn quality_of_service(pod: &Value) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    for container in meta::list(pod, "/spec/containers").iter().chain(meta::list(pod, "/spec/initContainers"))
    {
        let resources = &container["resources"];
        for name in ["cpu", "memory"] {
            let (request, limit) = (&resources["requests"][name], &resources["limits"][name]);
            any |= !request.is_null() || !limit.is_null();
            guaranteed &= !limit.is_null() && (request.is_null() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

pub(crate) fn persistent_volume_claim(object: &mut Value, live: Option<&Value>) {
    if live.is_none() {
        meta::child(object, "status").insert("phase".to_owned(), "Pending".into());
    }
}

/// `stringData` is a write-only form of `data`.
pub(crate) fn secret(object: &mut Value, _live: Option<&Value>) {
    let Some(map) = object.as_object_mut() else { return };
    let Some(Value::Object(texts)) = map.shift_remove("stringData") else { return };
    let data = meta::child(object, "data");
    for (key, value) in texts {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
}

/// Absent addresses mean no change.
pub(crate) fn service(object: &mut Value, live: Option<&Value>) {
    let Some(live) = live else {
        meta::child(object, "status").insert("loadBalancer".to_owned(), json!({}));
        return;
    };
    if live.pointer("/spec/type") != object.pointer("/spec/type") {
        return;
    }
    let spec = meta::child(object, "spec");
    for field in ["clusterIP", "clusterIPs"] {
        if spec.get(field).is_none_or(|v| v.is_null() || v == "") {
            meta::set_or_remove(spec, field, live.pointer(&format!("/spec/{field}")).cloned());
        }
    }
}

/// Only the server writes the status.
pub(crate) fn custom_resource_definition(object: &mut Value, live: Option<&Value>) {
    if let Some(live) = live {
        meta::set_or_remove(meta::as_map(object), "status", live.get("status").cloned());
    }
}

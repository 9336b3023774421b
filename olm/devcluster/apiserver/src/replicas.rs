//! The `Scale` of an object, for `/scale` and webhooks.

use olm_devcluster_machinery::crd::{ScalePaths, json_path};
use serde_json::{Value, json};

use super::{meta, selector::selector_text};

fn number(object: &Value, path: &str) -> i64 {
    json_path(object, path).first().and_then(|v| v.as_i64()).unwrap_or(0)
}

/// The `Scale` of an object.
pub(crate) fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let selector = match &paths.label_selector_path {
        Some(path) => json_path(object, path).first().and_then(|v| v.as_str()).unwrap_or_default().to_owned(),
        None => match selector_text(&object["spec"]["selector"]) {
            text if text == "<none>" => String::new(),
            text => text,
        },
    };
    let metadata: serde_json::Map<String, Value> =
        ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), object.get("metadata")?.get(key)?.clone())))
            .collect();
    let mut status = json!({ "replicas": number(object, &paths.status_replicas_path) });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": number(object, &paths.spec_replicas_path) },
        "status": status,
    })
}

pub(crate) fn set_replicas(object: &mut Value, paths: &ScalePaths, replicas: i64) {
    let mut at = object;
    for step in paths.spec_replicas_path.split('.').filter(|s| !s.is_empty()) {
        at = meta::as_map(at).entry(step.to_owned()).or_insert(Value::Null);
    }
    *at = replicas.into();
}

/// Adopts the webhooks' changes of the `Scale`.
pub(crate) fn adopt_scale(object: &mut Value, paths: &ScalePaths, scale: &Value) {
    if let Some(replicas) = scale["spec"]["replicas"].as_i64() {
        set_replicas(object, paths, replicas);
    }
}

//! The scale subresource.

use std::sync::Arc;

use axum::response::Response;
use http::header;
use olm_devcluster_machinery::{crd::json_path, field_error::FieldError, patch};
use serde_json::{Value, json};

use super::{
    convert, meta,
    prepare::Tracking,
    registry::ScalePaths,
    rest::change,
    selector::selector_text,
    server::{Call, answer, decode, yaml},
    status::{ApiError, ApiResult},
};

fn paths<'a>(call: &'a Call<'_>) -> ApiResult<&'a ScalePaths> {
    call.resource.scale.as_ref().ok_or_else(ApiError::no_route)
}

fn number(object: &Value, path: &str) -> i64 {
    json_path(object, path).first().and_then(|v| v.as_i64()).unwrap_or(0)
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let selector = match &paths.selector {
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
    let mut status = json!({ "replicas": number(object, &paths.status_replicas) });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": number(object, &paths.spec_replicas) },
        "status": status,
    })
}

fn set_replicas(object: &mut Value, paths: &ScalePaths, replicas: i64) {
    let mut at = object;
    for step in paths.spec_replicas.split('.').filter(|s| !s.is_empty()) {
        at = meta::as_map(at).entry(step.to_owned()).or_insert(Value::Null);
    }
    *at = replicas.into();
}

/// The object that webhooks see for a write to `/scale`: the `Scale`.
pub(crate) fn seen_by_webhooks(object: &Value, paths: &ScalePaths) -> Value {
    scale_of(object, paths)
}

/// Adopts the webhooks' changes of the `Scale`.
pub(crate) fn changed_by_webhooks(object: &mut Value, paths: &ScalePaths, scale: &Value) {
    if let Some(replicas) = scale["spec"]["replicas"].as_i64() {
        set_replicas(object, paths, replicas);
    }
}

/// GET.
pub(crate) async fn get(call: &Call<'_>) -> ApiResult<Response> {
    let object = convert::present(call.server, call.resource, &call.current()?).await?;
    Ok(answer(200, &scale_of(&object, paths(call)?)))
}

/// PUT.
pub(crate) async fn update(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let wanted = decode(call.headers, bytes)?;
    write(call, |_| Ok(wanted.clone())).await
}

/// PATCH of the `Scale`.
pub(crate) async fn patch(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let media = call.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let json_patch = media.starts_with("application/json-patch+json");
    let body = yaml(bytes)?;
    write(call, |scale| {
        if json_patch { patch::json_patch(scale, &body) } else { patch::merge_patch(scale, &body) }
            .map_err(ApiError::from)
    })
    .await
}

async fn write(call: &Call<'_>, mut wanted: impl FnMut(&Value) -> ApiResult<Value>) -> ApiResult<Response> {
    let paths = paths(call)?.clone();
    let stored: Arc<Value> = change(call, |live| {
        let scale = scale_of(live, &paths);
        let wanted = wanted(&scale)?;
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        let refuse = |error| Err(ApiError::invalid("autoscaling", "Scale", &call.info.name, &[error]));
        if replicas < 0 {
            return refuse(FieldError::invalid(
                "spec.replicas",
                replicas,
                "must be greater than or equal to 0",
            ));
        }
        let mut new = Value::clone(live);
        set_replicas(&mut new, &paths, replicas);
        // The client's resourceVersion, if it sent one, is a precondition.
        let sent = meta::resource_version(&wanted);
        if !sent.is_empty() {
            meta::metadata(&mut new).insert("resourceVersion".to_owned(), sent.into());
        }
        Ok((new, Tracking::Update))
    })
    .await?;
    let object = convert::present(call.server, call.resource, &stored).await?;
    Ok(answer(200, &scale_of(&object, &paths)))
}

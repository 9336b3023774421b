//! The scale subresource.

use std::sync::Arc;

use axum::response::Response;
use http::header;
use olm_devcluster_machinery::{crd::ScalePaths, field_error::FieldError, patch};
use serde_json::Value;

use super::{
    body::{decode, yaml},
    call::Call,
    convert, meta,
    prepare::Tracking,
    replicas::{scale_of, set_replicas},
    rest::change,
    status::{ApiError, ApiResult, json_response},
};

fn paths<'a>(call: &'a Call<'_>) -> ApiResult<&'a ScalePaths> {
    call.resource.scale.as_ref().ok_or_else(ApiError::no_route)
}

/// GET.
pub(crate) async fn get(call: &Call<'_>) -> ApiResult<Response> {
    let object = convert::present(call.server, call.resource, &call.current()?).await?;
    Ok(json_response(200, &scale_of(&object, paths(call)?)))
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
    Ok(json_response(200, &scale_of(&object, &paths)))
}

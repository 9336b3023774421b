//! Bodies of requests.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::{
    protobuf,
    status::{ApiError, ApiResult},
};

/// Kubernetes' limit of 3 MiB.
const MAX_BODY: usize = 3 << 20;

/// Reads a body of limited size.
pub(crate) async fn read_body(body: Body) -> ApiResult<Bytes> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(ApiError::too_large(format!("Request entity too large: limit is {MAX_BODY}")))
        }
        Err(error) => Err(ApiError::bad_request(format!("failed to read the request body: {error}"))),
    }
}

/// Decodes a body: JSON, YAML or Kubernetes' protobuf.
pub(crate) fn decode(headers: &HeaderMap, bytes: &[u8]) -> ApiResult<Value> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
    let media = media.split(';').next().unwrap_or_default().trim();
    match media {
        "application/json" | "*/*" | "" => serde_json::from_slice(bytes).map_err(|error| {
            ApiError::bad_request(format!("failed to decode the request body as JSON: {error}"))
        }),
        "application/yaml" | "application/x-yaml" | "text/yaml" => yaml(bytes),
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes),
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf (got {other})"
        ))),
    }
}

pub(crate) fn yaml(bytes: &[u8]) -> ApiResult<Value> {
    serde_yaml::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("failed to decode the request body as YAML: {error}")))
}

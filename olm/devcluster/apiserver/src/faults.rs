//! `/dev/faults`: fault injection into pods.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use http::Method;
use olm_devcluster_machinery::fault::{Done, List, Order, Undo};
use serde::de::DeserializeOwned;

use super::{
    body::read_body,
    nodes,
    state::Server,
    status::{ApiError, ApiResult, json_response},
};

/// Serves GET, POST and DELETE.
pub(crate) async fn serve(server: &Arc<Server>, method: &Method, body: Body) -> ApiResult<Response> {
    let backend = nodes::backend(server, "a fault")?;
    let list = |items: Vec<Done>| serde_json::to_value(List { items }).unwrap_or_default();
    match method.as_str() {
        "GET" | "HEAD" => Ok(json_response(200, &list(backend.faults()))),
        "POST" => {
            let order: Order = parse(&read_body(body).await?)?;
            order.fault.check().map_err(ApiError::bad_request)?;
            let done = backend.fault(order).await.map_err(|error| nodes::backend_error(&error))?;
            Ok(json_response(201, &serde_json::to_value(done).unwrap_or_default()))
        }
        "DELETE" => {
            let which: Undo = parse(&read_body(body).await?)?;
            let undone = backend.undo(which).await.map_err(|error| nodes::backend_error(&error))?;
            Ok(json_response(200, &list(undone)))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("failed to read the fault: {error}")))
}

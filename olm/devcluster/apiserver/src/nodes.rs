//! Subresources that need the node: logs, exec, port forwarding, proxy.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use futures::StreamExt;
use http::request::Parts;
use olm_devcluster_machinery::backend::{BackendError, LogOptions, NodeBackend};
use serde_json::Value;

use super::{
    exec,
    meta::{self, list, text},
    portforward, proxy,
    request::{Info, Query},
    state::Server,
    status::{ApiError, ApiResult, bytes_response},
    store::Key,
};

/// Serves `log`, `exec`, `portforward` and `proxy`; refuses `attach`.
pub(crate) async fn serve(
    server: &Arc<Server>,
    parts: &mut Parts,
    body: Body,
    info: &Info,
    query: &Query,
) -> ApiResult<Response> {
    match (info.resource.as_str(), info.subresource.as_str(), info.verb.as_str()) {
        ("pods", "log", "get") => logs(server, info, query).await,
        ("pods", "exec", "get" | "create") => exec::serve(server, parts, info, query).await,
        ("pods", "portforward", "get" | "create") => portforward::serve(server, parts, info, query).await,
        ("pods" | "services", "proxy", _) => proxy::serve(server, parts, body, info).await,
        ("pods", "log" | "exec" | "portforward", _) => Err(ApiError::method_not_allowed()),
        ("pods", "attach", _) => Err(ApiError::not_implemented(&info.full_resource())),
        _ => Err(ApiError::no_route()),
    }
}

/// The node, or the error for a server without one.
pub(crate) fn backend(server: &Server, what: &str) -> ApiResult<Arc<dyn NodeBackend>> {
    server.backend().ok_or_else(|| {
        ApiError::new(
            501,
            "NotImplemented",
            format!("{what} requires a node agent, but this server runs without one"),
        )
    })
}

pub(crate) fn backend_error(error: &BackendError) -> ApiError {
    match error {
        BackendError::NotFound(message) => ApiError::new(404, "NotFound", message.as_str()),
        BackendError::BadRequest(message) => ApiError::bad_request(message.as_str()),
        BackendError::Internal(message) => ApiError::internal(message),
    }
}

/// The pod of a request, which has to be on a node.
pub(crate) fn assigned_pod(server: &Server, info: &Info) -> ApiResult<Arc<Value>> {
    let pod = find_pod(server, info)?;
    check_assigned(&pod)?;
    Ok(pod)
}

fn find_pod(server: &Server, info: &Info) -> ApiResult<Arc<Value>> {
    let pod = server.store.get(&Key::new("/pods", &info.namespace, &info.name));
    pod.ok_or_else(|| ApiError::not_found("pods", "", &info.name))
}

fn check_assigned(pod: &Value) -> ApiResult<()> {
    if text(pod, "/spec/nodeName").is_empty() {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", meta::name(pod))));
    }
    Ok(())
}

/// The pod of a request and the selected container.
pub(crate) fn pod_and_container(
    server: &Server,
    info: &Info,
    wanted: &str,
) -> ApiResult<(Arc<Value>, String)> {
    let pod = find_pod(server, info)?;
    let containers = list(&pod, "/spec/containers");
    let names = |all: &[Value]| all.iter().map(|c| text(c, "/name").to_owned()).collect::<Vec<_>>();
    let init = names(list(&pod, "/spec/initContainers"));
    let name = match (wanted, containers) {
        ("", [only]) => text(only, "/name").to_owned(),
        ("", _) => {
            let mut message = format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                info.name,
                names(containers).join(" ")
            );
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            return Err(ApiError::bad_request(message));
        }
        (name, _) if names(containers).iter().chain(&init).any(|n| n == name) => name.to_owned(),
        (name, _) => {
            return Err(ApiError::bad_request(format!(
                "container {name} is not valid for pod {}",
                info.name
            )));
        }
    };
    check_assigned(&pod)?;
    Ok((pod, name))
}

async fn logs(server: &Arc<Server>, info: &Info, query: &Query) -> ApiResult<Response> {
    let (_, container) = pod_and_container(server, info, query.get("container"))?;
    let backend = backend(server, "pods/log")?;
    let size = |key: &str| -> ApiResult<Option<usize>> {
        Ok(query.number(key)?.and_then(|n| usize::try_from(n).ok()))
    };
    let since = match (query.number("sinceSeconds")?, query.get("sinceTime")) {
        (Some(seconds), _) => Some(seconds),
        (None, "") => None,
        (None, time) => {
            let time = meta::parse_time(time)
                .ok_or_else(|| ApiError::bad_request(format!("sinceTime: invalid time {time:?}")))?;
            Some((meta::now_unix() - time.as_second()).max(1))
        }
    };
    let options = LogOptions {
        container: Some(container),
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        tail_lines: size("tailLines")?,
        timestamps: query.flag("timestamps"),
        since_seconds: since,
        limit_bytes: size("limitBytes")?,
    };
    let stream = backend.logs(&info.namespace, &info.name, options).await.map_err(|e| backend_error(&e))?;
    // A follower must not block the shutdown of the server.
    let stream = stream.take_until(server.shutdown.clone().cancelled_owned());
    Ok(bytes_response(200, "text/plain", Body::from_stream(stream)))
}

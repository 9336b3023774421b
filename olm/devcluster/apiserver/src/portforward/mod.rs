//! `pods/portforward`: connections from clients to ports of pods.
//!
//! A client chooses one of three forms: SPDY/3.1 after an upgrade of the connection, SPDY/3.1 in the binary
//! messages of a WebSocket (kubectl since 1.31), or channels of a WebSocket (kube-rs and others).

mod channels;
mod forward;
mod frame;
mod headers;
mod session;
#[cfg(test)]
mod tests;
mod tunnel;

use std::sync::Arc;

use axum::{body::Body, response::Response};
use http::{HeaderMap, StatusCode, header, request::Parts};
use hyper_util::rt::TokioIo;

use self::{forward::Target, session::PAIRING};
use super::{
    meta::text,
    nodes,
    request::{Info, Query},
    state::Server,
    status::{ApiError, ApiResult},
    websocket::Upgrade,
};

const PROTOCOL: &str = "portforward.k8s.io";
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const CHANNELS: &str = "v4.channel.k8s.io";
const SPDY: &str = "SPDY/3.1";
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
/// Longest WebSocket message: clients write at most 32 KiB at a time.
const MAX_MESSAGE: usize = 1 << 20;

/// Upgrades the connection and serves it until the client or the server ends it.
pub(crate) async fn serve(
    server: &Arc<Server>,
    parts: &mut Parts,
    info: &Info,
    query: &Query,
) -> ApiResult<Response> {
    let pod = nodes::assigned_pod(server, info)?;
    let target = Arc::new(Target {
        backend: nodes::backend(server, "pods/portforward")?,
        namespace: info.namespace.clone(),
        pod: info.name.clone(),
        uid: text(&pod, "/metadata/uid").to_owned(),
    });
    let upgrade =
        parts.headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if upgrade.eq_ignore_ascii_case("websocket") {
        websocket(server, parts, query, target)
    } else if upgrade.eq_ignore_ascii_case(SPDY) {
        spdy(server, parts, target)
    } else {
        Err(ApiError::bad_request("Upgrade request required"))
    }
}

fn websocket(server: &Server, parts: &mut Parts, query: &Query, target: Arc<Target>) -> ApiResult<Response> {
    let upgrade = Upgrade::of(parts, &[TUNNEL, CHANNELS])?.max_message(MAX_MESSAGE);
    let shutdown = server.shutdown.clone();
    if upgrade.protocol() == TUNNEL {
        return Ok(upgrade.accept(move |socket| async move {
            let session = |bytes| session::serve(bytes, target, PAIRING);
            shutdown.run_until_cancelled(tunnel::serve(socket, session)).await;
        }));
    }
    let ports = channels::ports(query)?;
    Ok(upgrade.accept(move |socket| async move {
        shutdown.run_until_cancelled(channels::serve(socket, ports, target)).await;
    }))
}

fn spdy(server: &Server, parts: &mut Parts, target: Arc<Target>) -> ApiResult<Response> {
    negotiate(&parts.headers)?;
    let upgrade = parts
        .extensions
        .remove::<hyper::upgrade::OnUpgrade>()
        .ok_or_else(|| ApiError::bad_request("unable to upgrade: this connection does not support it"))?;
    let shutdown = server.shutdown.clone();
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                shutdown.run_until_cancelled(session::serve(TokioIo::new(upgraded), target, PAIRING)).await;
            }
            Err(error) => tracing::debug!(%error, "failed to upgrade a connection to SPDY"),
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, SPDY)
        .header(STREAM_PROTOCOL, PROTOCOL)
        .body(Body::empty())
        .map_err(ApiError::internal)
}

/// Checks that the client supports the protocol of port forwarding.
fn negotiate(headers: &HeaderMap) -> ApiResult<()> {
    let offered: Vec<&str> = headers
        .get_all(STREAM_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .collect();
    if offered.is_empty() {
        return Err(ApiError::bad_request(format!(
            "unable to upgrade: header {STREAM_PROTOCOL} does not exist in request"
        )));
    }
    if offered.contains(&PROTOCOL) {
        return Ok(());
    }
    Err(ApiError::new(
        403,
        "Forbidden",
        format!(
            "unable to upgrade: unable to negotiate protocol: client supports {offered:?}, server accepts [{PROTOCOL:?}]"
        ),
    ))
}

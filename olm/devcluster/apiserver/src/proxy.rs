//! `services/[SCHEME:]NAME:PORT/proxy/...` and the same for pods: HTTP into the cluster network. As in
//! Kubernetes, the certificate of an `https` port is not verified.

use std::{net::SocketAddr, sync::Arc};

use axum::{body::Body, response::Response};
use http::{HeaderName, Request, header, request::Parts};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::{
    meta::{list, text},
    nodes,
    outbound::{self, NoService, Port, ServiceTarget, Trust},
    request::Info,
    state::Server,
    status::{ApiError, ApiResult},
    store::Key,
};

/// Hop-by-hop headers and credentials, which are not forwarded.
pub(crate) const OWN_HEADERS: &[HeaderName] = &[
    header::AUTHORIZATION,
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// `[scheme:]name[:port]`.
struct Target<'a> {
    tls: bool,
    name: &'a str,
    port: &'a str,
}

impl<'a> Target<'a> {
    fn parse(text: &'a str) -> ApiResult<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [name] => Ok(Self { tls: false, name, port: "" }),
            [name, port] => Ok(Self { tls: false, name, port }),
            [scheme @ ("http" | "https" | ""), name, port] => {
                Ok(Self { tls: *scheme == "https", name, port })
            }
            _ => Err(ApiError::bad_request(format!("invalid proxy target \"{text}\""))),
        }
    }
}

pub(crate) async fn serve(
    server: &Arc<Server>,
    parts: &Parts,
    body: Body,
    info: &Info,
) -> ApiResult<Response> {
    if parts.headers.contains_key(header::UPGRADE) {
        return Err(ApiError::not_implemented("proxying an upgraded connection"));
    }
    let target = Target::parse(&info.name)?;
    let address = if info.resource == "pods" {
        pod_address(server, &info.namespace, &target)?
    } else {
        service_address(server, &info.namespace, &target)?
    };
    let backend = nodes::backend(server, "a proxy")?;
    let unreachable = |error: &dyn std::fmt::Display| {
        ApiError::unavailable(format!("error trying to reach service: {address}: {error}"))
    };
    let stream = backend.dial(address).await.map_err(|error| unreachable(&error))?;
    let mut sender = if target.tls {
        let tls = outbound::tls_config(&Trust::Unverified, None).map_err(|error| unreachable(&error))?;
        let name = ServerName::from(address.ip());
        let stream = TlsConnector::from(tls).connect(name, stream).await;
        open(stream.map_err(|error| unreachable(&error))?).await
    } else {
        open(stream).await
    }
    .map_err(|error| unreachable(&error))?;
    let path = match parts.uri.query() {
        Some(query) => format!("/{}?{query}", info.tail),
        None => format!("/{}", info.tail),
    };
    let mut request =
        Request::builder().method(parts.method.clone()).uri(path).header(header::HOST, address.to_string());
    for (name, value) in &parts.headers {
        if !OWN_HEADERS.contains(name) && !name.as_str().starts_with("impersonate-") {
            request = request.header(name, value);
        }
    }
    let request = request.body(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
    let (mut head, body) = response.into_parts();
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE] {
        head.headers.remove(name);
    }
    Ok(Response::from_parts(head, Body::new(body)))
}

async fn open<S>(stream: S) -> hyper::Result<SendRequest<Body>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "proxied connection ended");
        }
    });
    Ok(sender)
}

fn socket(ip: &str, port: u64) -> ApiResult<SocketAddr> {
    let (Ok(ip), Ok(port)) = (ip.parse(), u16::try_from(port)) else {
        return Err(ApiError::internal(format!("invalid address {ip}:{port}")));
    };
    Ok(SocketAddr::new(ip, port))
}

fn pod_address(server: &Server, namespace: &str, target: &Target<'_>) -> ApiResult<SocketAddr> {
    let pod = server
        .store
        .get(&Key::new("/pods", namespace, target.name))
        .ok_or_else(|| ApiError::not_found("pods", "", target.name))?;
    let ip = text(&pod, "/status/podIP");
    if ip.is_empty() {
        return Err(ApiError::bad_request(format!("pod {} does not have an address yet", target.name)));
    }
    let ports: Vec<&Value> = list(&pod, "/spec/containers").iter().flat_map(|c| list(c, "/ports")).collect();
    let named = || ports.iter().find(|p| text(p, "/name") == target.port)?["containerPort"].as_u64();
    let port = match target.port {
        "" => ports.first().and_then(|p| p["containerPort"].as_u64()).unwrap_or(80),
        port => port.parse().ok().or_else(named).ok_or_else(|| no_port(target))?,
    };
    socket(ip, port)
}

fn no_port(target: &Target<'_>) -> ApiError {
    ApiError::unavailable(format!(
        "no service port \"{}\" found for service \"{}\"",
        target.port, target.name
    ))
}

/// A ready endpoint of a Service.
fn service_address(server: &Server, namespace: &str, target: &Target<'_>) -> ApiResult<SocketAddr> {
    let port = match (target.port, target.port.parse()) {
        ("", _) => Port::First,
        (_, Ok(number)) => Port::Number(number),
        (name, Err(_)) => Port::Name(name),
    };
    match outbound::find_service(&server.store, namespace, target.name, &port) {
        Ok(ServiceTarget::Address(address)) => Ok(address),
        Ok(ServiceTarget::External(_)) => {
            Err(ApiError::not_implemented("proxying to an ExternalName Service"))
        }
        Err(NoService::Missing(name)) => Err(ApiError::not_found("services", "", &name)),
        Err(NoService::NoPort { .. }) => Err(no_port(target)),
        Err(error @ NoService::NoEndpoints(_)) => Err(ApiError::unavailable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, tls, name, port) in [
            ("a", false, "a", ""),
            ("a:80", false, "a", "80"),
            ("http:a:web", false, "a", "web"),
            (":a:1", false, "a", "1"),
            ("https:a:443", true, "a", "443"),
        ] {
            let target = Target::parse(text).expect("valid");
            assert_eq!((target.tls, target.name, target.port), (tls, name, port));
        }
        assert_eq!(Target::parse("ftp:a:21").err().map(|e| e.code()), Some(400));
    }
}

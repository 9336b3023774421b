//! Probes and lifecycle hooks: exec, HTTP, TCP, gRPC.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    api::core::v1::{
        ContainerPort, ExecAction, GRPCAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use olm_devcluster_machinery::accept_any::AcceptAny;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{decide::Threshold, grpc_health};
use crate::{helper::wire::ProcessSpec, network::Network, sandbox::Process};

/// Period after its start in which a container is probed more often, and the interval.
const EXTRA_PROBES: Duration = Duration::from_secs(10);
const EXTRA_PERIOD: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) kind: ProbeKind,
    /// The cause of a failure.
    pub(crate) failure: Option<String>,
    /// Set when the consecutive results reach the threshold.
    pub(crate) verdict: Option<bool>,
}

/// The subject of a probe or hook.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) network: Network,
    pub(crate) pod_ip: Ipv4Addr,
    pub(crate) process: Process,
    /// How to run a command in the container.
    pub(crate) template: ProcessSpec,
    pub(crate) ports: Vec<ContainerPort>,
}

/// Probes until the task is aborted; a startup probe stops at its verdict.
pub(crate) async fn run(target: Target, probe: Probe, kind: ProbeKind, report: impl Fn(Outcome) + Send) {
    let seconds = |value: Option<i32>, fallback: u64| {
        Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(fallback))
    };
    let period = seconds(probe.period_seconds, 10).max(Duration::from_secs(1));
    let timeout = seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1));
    let mut threshold = Threshold::new(probe.success_threshold, probe.failure_threshold);
    // A container that was just started is probed more often than its period until its first success, so that
    // it serves sooner. A successful extra probe counts, a failed one does not.
    let begin = tokio::time::Instant::now() + seconds(probe.initial_delay_seconds, 0);
    let mut extra_probes = kind != ProbeKind::Liveness && probe.success_threshold.unwrap_or(1) <= 1;
    let mut due = begin;
    tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
    loop {
        let failure = check(&target, &probe, timeout).await.err();
        let now = tokio::time::Instant::now();
        let good = failure.is_none();
        let counts = good || now >= due;
        if counts {
            let verdict = threshold.observe(good);
            report(Outcome { kind, failure, verdict });
            if kind == ProbeKind::Startup && verdict.is_some() {
                return;
            }
            due = now + period;
        }
        extra_probes &= !good && now.duration_since(begin) < EXTRA_PROBES;
        tokio::time::sleep_until(if extra_probes { due.min(now + EXTRA_PERIOD) } else { due }).await;
    }
}

async fn check(target: &Target, probe: &Probe, timeout: Duration) -> Result<(), String> {
    if let Some(action) = &probe.exec {
        exec(target, action, timeout).await
    } else if let Some(action) = &probe.http_get {
        limited(timeout, http_get(target, action)).await
    } else if let Some(action) = &probe.tcp_socket {
        limited(timeout, tcp(target, action)).await
    } else if let Some(action) = &probe.grpc {
        limited(timeout, grpc(target, action)).await
    } else {
        Err("the probe has no action".to_owned())
    }
}

/// Runs a lifecycle hook to completion.
pub(crate) async fn hook(target: &Target, handler: &LifecycleHandler, limit: Duration) -> Result<(), String> {
    if let Some(action) = &handler.exec {
        exec(target, action, limit).await
    } else if let Some(action) = &handler.http_get {
        limited(limit, http_get(target, action)).await
    } else if let Some(action) = &handler.sleep {
        let seconds = Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0));
        tokio::time::sleep(seconds.min(limit)).await;
        Ok(())
    } else {
        Err("the hook has no supported action (exec, httpGet, sleep)".to_owned())
    }
}

async fn limited(limit: Duration, action: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    match tokio::time::timeout(limit, action).await {
        Ok(result) => result,
        Err(_) => Err(format!("timed out after {} s", limit.as_secs())),
    }
}

async fn exec(target: &Target, action: &ExecAction, limit: Duration) -> Result<(), String> {
    let argv = action.command.clone().unwrap_or_default();
    let spec = ProcessSpec { argv, ..target.template.clone() };
    match target.process.run_to_end(spec, limit).await {
        Ok((exit, _)) if exit.code == 0 => Ok(()),
        Ok((_, output)) if !output.is_empty() => Err(output),
        Ok((exit, _)) => Err(format!("command exited with {}", exit.code)),
        Err(error) => Err(error.to_string()),
    }
}

fn port(target: &Target, port: &IntOrString) -> Result<u16, String> {
    match port {
        IntOrString::Int(number) => {
            u16::try_from(*number).map_err(|_| format!("port {number} is out of range"))
        }
        IntOrString::String(name) => {
            let named = target.ports.iter().find(|port| port.name.as_deref() == Some(name));
            let number = named.map(|port| port.container_port).or_else(|| name.parse().ok());
            let number = number.ok_or_else(|| format!("the container has no port named {name:?}"))?;
            u16::try_from(number).map_err(|_| format!("port {number} is out of range"))
        }
    }
}

fn address(target: &Target, host: Option<&String>, number: &IntOrString) -> Result<SocketAddr, String> {
    let ip = match host.filter(|host| !host.is_empty()) {
        Some(host) => {
            host.parse().map_err(|_| format!("host {host:?} must be an IPv4 address in the dev cluster"))?
        }
        None => target.pod_ip,
    };
    Ok(SocketAddr::from((ip, port(target, number)?)))
}

async fn tcp(target: &Target, action: &TCPSocketAction) -> Result<(), String> {
    let address = address(target, action.host.as_ref(), &action.port)?;
    match target.network.dial(address).await {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("dial tcp {address}: {error}")),
    }
}

async fn grpc(target: &Target, action: &GRPCAction) -> Result<(), String> {
    let address = address(target, None, &IntOrString::Int(action.port))?;
    let service = action.service.as_deref().unwrap_or_default();
    let stream = target.network.dial(address).await;
    let stream = stream.map_err(|error| format!("error: failed to connect service {service:?}: {error}"))?;
    grpc_health::check(stream, &address.to_string(), service).await
}

async fn http_get(target: &Target, action: &HTTPGetAction) -> Result<(), String> {
    let address = address(target, action.host.as_ref(), &action.port)?;
    let stream =
        target.network.dial(address).await.map_err(|error| format!("dial tcp {address}: {error}"))?;
    if action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("HTTPS")) {
        let connector = tokio_rustls::TlsConnector::from(trusting_client()?);
        let name = rustls::pki_types::ServerName::from(address.ip());
        let stream =
            connector.connect(name, stream).await.map_err(|error| format!("TLS with {address}: {error}"))?;
        get(stream, address, action).await
    } else {
        get(stream, address, action).await
    }
}

async fn get<S>(stream: S, address: SocketAddr, action: &HTTPGetAction) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let fail = |error: &dyn std::fmt::Display| format!("Get http://{address}: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| fail(&error))?;
    let connection = tokio::spawn(connection);
    let path = action.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut request = http::Request::get(path)
        .header("Host", address.to_string())
        .header("User-Agent", "kube-probe/olm")
        .header("Accept", "*/*");
    for header in action.http_headers.iter().flatten() {
        if let Some(headers) = request.headers_mut() {
            let name = header.name.parse::<http::HeaderName>().map_err(|error| fail(&error))?;
            headers.insert(name, header.value.parse().map_err(|error| fail(&error))?);
        }
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| fail(&error))?;
    let response = sender.send_request(request).await.map_err(|error| fail(&error))?;
    let status = response.status();
    // The start of the body explains the code.
    let body = if status.is_success() || status.is_redirection() {
        None
    } else {
        response.into_body().frame().await.and_then(Result::ok).and_then(|frame| frame.into_data().ok())
    };
    connection.abort();
    if status.is_success() || status.is_redirection() {
        return Ok(());
    }
    let body = body.unwrap_or_default();
    let text = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
    Err(format!("HTTP probe failed with statuscode: {} {text}", status.as_u16()).trim_end().to_owned())
}

/// A probe checks for a response; certificates inside a pod are usually self-signed, so they are not
/// verified.
fn trusting_client() -> Result<Arc<rustls::ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

//! Outgoing calls of the API server over TLS: to webhooks and to extension API servers.
//!
//! A Service is reached through one of its ready endpoints: from inside the cluster network where a node runs
//! the pods, directly from this process otherwise. Connections are not pooled, so that each call reaches a
//! current endpoint.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use olm_devcluster_machinery::{accept_any::AcceptAny, backend::NodeBackend};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{
    meta::{list, text},
    store::{Key, Store},
    trust,
};

/// Size limit of a webhook's response: as large as a list of objects in etcd, and a guard against endless
/// responses.
const MAX_ANSWER: usize = 64 << 20;
/// Default port of a Service.
const HTTPS: u16 = 443;

/// Destination of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Destination {
    Service { namespace: String, name: String, port: u16 },
    Host { host: String, port: u16 },
}

/// Access to Services and pods.
pub(crate) struct Network<'a> {
    pub store: &'a Store,
    /// Connections into the cluster network.
    pub backend: Option<Arc<dyn NodeBackend>>,
}

/// A server to call, with the means to authenticate it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    destination: Destination,
    /// Host and port as in the URL.
    authority: String,
    path: String,
    server_name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

/// Authentication of a server.
pub(crate) enum Trust<'a> {
    /// By these certificate authorities, or by those of the machine when empty.
    Authorities(&'a [u8]),
    /// None (`insecureSkipTLSVerify`).
    Unverified,
}

/// Client certificate and key of the API server.
pub(crate) struct ClientIdentity {
    pub chain: Vec<rustls_pki_types::CertificateDer<'static>>,
    pub key: rustls_pki_types::PrivateKeyDer<'static>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("authority", &self.authority).field("path", &self.path).finish()
    }
}

impl Endpoint {
    /// From the `clientConfig` of a webhook configuration or CRD.
    pub(crate) fn of_client_config(config: &Value) -> Result<Self, String> {
        let bundle = decode_bundle(text(config, "/caBundle"))?;
        let trust = Trust::Authorities(&bundle);
        let Some(service) = config.get("service").filter(|s| s.is_object()) else {
            return Self::of_url(text(config, "/url"), &trust);
        };
        let port = service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(HTTPS);
        let path = text(service, "/path");
        Self::of_service(text(service, "/namespace"), text(service, "/name"), port, path, &trust, None)
    }

    /// A Service in this cluster; its certificate is for `<name>.<namespace>.svc`.
    pub(crate) fn of_service(
        namespace: &str,
        name: &str,
        port: u16,
        path: &str,
        trust: &Trust<'_>,
        identity: Option<&ClientIdentity>,
    ) -> Result<Self, String> {
        let host = format!("{name}.{namespace}.svc");
        Ok(Self {
            destination: Destination::Service {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                port,
            },
            authority: format!("{host}:{port}"),
            path: rooted(path),
            server_name: ServerName::try_from(host.clone())
                .map_err(|_| format!("\"{host}\" is not a DNS name"))?,
            tls: tls_config(trust, identity)?,
        })
    }

    fn of_url(url: &str, trust: &Trust<'_>) -> Result<Self, String> {
        let uri: http::Uri = url.parse().map_err(|error| format!("Unparsable URL: \"{url}\": {error}"))?;
        let authority = uri.authority().ok_or_else(|| format!("Unparsable URL: \"{url}\": no host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self {
            destination: Destination::Host {
                host: host.clone(),
                port: authority.port_u16().unwrap_or(HTTPS),
            },
            authority: authority.as_str().to_owned(),
            path: rooted(uri.path()),
            server_name: ServerName::try_from(host.clone())
                .map_err(|_| format!("\"{host}\" is neither a DNS name nor an address"))?,
            tls: tls_config(trust, None)?,
        })
    }

    /// Posts JSON and reads the JSON response, within a timeout.
    pub(crate) async fn post(
        &self,
        network: &Network<'_>,
        timeout: Duration,
        body: &Value,
    ) -> Result<Value, String> {
        let url = format!("{}?timeout={}s", self.path, timeout.as_secs());
        let shown = format!("https://{}{url}", self.authority);
        let fail = |why: &str| format!("Post \"{shown}\": {why}");
        let bytes = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        let call = async {
            let mut connection = self.connect(network).await?;
            let request = Request::post(url.as_str())
                .header(header::HOST, self.authority.as_str())
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, */*")
                .header(header::USER_AGENT, "kube-apiserver-admission")
                .body(Body::from(bytes))
                .map_err(|error| error.to_string())?;
            let response = connection.send_request(request).await.map_err(|error| go_message(&error))?;
            let code = response.status().as_u16();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| format!("failed to read the response: {error}"))?;
            Ok((code, body.to_bytes()))
        };
        let answered: Result<(u16, Bytes), String> =
            tokio::time::timeout(timeout, call).await.map_err(|_| fail("context deadline exceeded"))?;
        let (code, bytes) = answered.map_err(|why| fail(&why))?;
        parse_response(code, &bytes)
    }

    /// Sends a prepared request and returns the streamed response.
    pub(crate) async fn send(
        &self,
        network: &Network<'_>,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, String> {
        let mut connection = self.connect(network).await?;
        if let Ok(host) = self.authority.parse() {
            request.headers_mut().insert(header::HOST, host);
        }
        connection.send_request(request).await.map_err(|error| go_message(&error))
    }

    async fn connect(&self, network: &Network<'_>) -> Result<SendRequest<Body>, String> {
        let stream = self.dial(network).await?;
        // A small request must not wait for the acknowledgement of the handshake's last packet.
        let _ = stream.set_nodelay(true);
        let tls = TlsConnector::from(self.tls.clone())
            .connect(self.server_name.clone(), stream)
            .await
            .map_err(|error| trust::go_message(&error, &self.server_name))?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
            .await
            .map_err(|error| go_message(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection of the API server was closed");
            }
        });
        Ok(sender)
    }

    async fn dial(&self, network: &Network<'_>) -> Result<TcpStream, String> {
        match &self.destination {
            Destination::Host { host, port } => dial_host(host, *port).await,
            Destination::Service { namespace, name, port } => {
                let wanted = Port::Number(*port);
                match find_service(network.store, namespace, name, &wanted).map_err(|why| why.to_string())? {
                    ServiceTarget::External(host) => dial_host(&host, *port).await,
                    ServiceTarget::Address(address) => match &network.backend {
                        Some(backend) => {
                            backend.dial(address).await.map_err(|error| refused(address, &error.to_string()))
                        }
                        None => dial_address(address).await,
                    },
                }
            }
        }
    }
}

/// Tries the addresses of a name in turn.
async fn dial_host(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let mut why = format!("dial tcp: lookup {host}: no such host");
    for address in found.map_err(|error| format!("dial tcp: lookup {host}: {error}"))? {
        match dial_address(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error,
        }
    }
    Err(why)
}

async fn dial_address(address: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(address).await.map_err(|error| refused(address, &io_message(&error)))
}

fn refused(address: SocketAddr, why: &str) -> String {
    format!("dial tcp {address}: connect: {why}")
}

/// Go's wording of common errors.
fn io_message(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}

fn go_message(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return "EOF".to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn rooted(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// `caBundle`: base64 of PEM.
pub(crate) fn decode_bundle(text: &str) -> Result<Vec<u8>, String> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.decode(text).map_err(|error| format!("caBundle is not base64: {error}"))
}

pub(crate) fn tls_config(
    trust: &Trust<'_>,
    identity: Option<&ClientIdentity>,
) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(trust::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match trust {
        Trust::Unverified => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(trust::provider())))
        }
        Trust::Authorities([]) => builder.with_root_certificates(machine_roots()),
        Trust::Authorities(bundle) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(trust::Bundle::read(bundle)?))
        }
    };
    let mut config = match identity {
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| error.to_string())?,
        None => builder.with_no_client_auth(),
    };
    // As in Kubernetes, one request per connection: HTTP/2 would stay with one pod.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Trusted certificate authorities of the machine, read once.
fn machine_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        let (_, ignored) = roots.add_parsable_certificates(found.certs);
        tracing::debug!(
            ignored,
            errors = found.errors.len(),
            "read the certificate authorities of the system"
        );
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}

/// Interprets a webhook's response, with errors in the wording of Kubernetes' client.
fn parse_response(code: u16, bytes: &[u8]) -> Result<Value, String> {
    const LONGEST: usize = 2048;
    if (200..300).contains(&code) {
        return serde_json::from_slice(bytes)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"));
    }
    if let Ok(status) = serde_json::from_slice::<Value>(bytes)
        && status["kind"] == "Status"
        && !text(&status, "/message").is_empty()
    {
        return Err(text(&status, "/message").to_owned());
    }
    let body: String = String::from_utf8_lossy(bytes).trim_end().chars().take(LONGEST).collect();
    Err(match code {
        404 => "the server could not find the requested resource".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => body,
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => format!("an error on the server ({body:?}) has prevented the request from succeeding"),
        _ => "the server rejected our request for an unknown reason".to_owned(),
    })
}

/// Port of a Service.
pub(crate) enum Port<'a> {
    First,
    Number(u16),
    Name(&'a str),
}

/// Resolved destination of a Service.
pub(crate) enum ServiceTarget {
    Address(SocketAddr),
    /// A name outside of the cluster (`ExternalName`).
    External(String),
}

/// A Service without a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoService {
    #[error("service \"{0}\" not found")]
    Missing(String),
    #[error("no service port {port} found for service \"{name}\"")]
    NoPort { name: String, port: String },
    #[error("no endpoints available for service \"{0}\"")]
    NoEndpoints(String),
}

/// Any ready endpoint of a Service.
pub(crate) fn find_service(
    store: &Store,
    namespace: &str,
    name: &str,
    wanted: &Port<'_>,
) -> Result<ServiceTarget, NoService> {
    let service = store
        .get(&Key::new("/services", namespace, name))
        .ok_or_else(|| NoService::Missing(name.to_owned()))?;
    if text(&service, "/spec/type") == "ExternalName" {
        return Ok(ServiceTarget::External(text(&service, "/spec/externalName").to_owned()));
    }
    let ports = list(&service, "/spec/ports");
    let (port, shown) = match wanted {
        Port::First => (ports.first(), String::from("\"\"")),
        Port::Number(number) => {
            (ports.iter().find(|p| p["port"].as_u64() == Some(u64::from(*number))), number.to_string())
        }
        Port::Name(wanted) => (ports.iter().find(|p| text(p, "/name") == *wanted), format!("{wanted:?}")),
    };
    let port = port.ok_or_else(|| NoService::NoPort { name: name.to_owned(), port: shown })?;
    let found = ready_endpoints(store, namespace, name, text(port, "/name"));
    match found.len() {
        0 => Err(NoService::NoEndpoints(name.to_owned())),
        many => Ok(ServiceTarget::Address(found[rand::random_range(0..many)])),
    }
}

/// The ready endpoints of a named port of a Service.
pub(crate) fn ready_endpoints(store: &Store, namespace: &str, service: &str, port: &str) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for slice in store.list("discovery.k8s.io/endpointslices", namespace).items {
        if text(&slice, "/metadata/labels/kubernetes.io~1service-name") != service {
            continue;
        }
        let number = list(&slice, "/ports").iter().find(|p| text(p, "/name") == port);
        let Some(number) = number.and_then(|p| u16::try_from(p["port"].as_u64()?).ok()) else { continue };
        for endpoint in list(&slice, "/endpoints").iter().filter(|e| e["conditions"]["ready"] != false) {
            if let Some(Ok(ip)) = endpoint["addresses"][0].as_str().map(str::parse) {
                found.push(SocketAddr::new(ip, number));
            }
        }
    }
    found
}

//! An HTTPS server for tests, behind a Service: webhooks and extension API servers.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    response::Response,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};

use super::*;

/// A recorded request.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub method: String,
    pub path: String,
    pub headers: http::HeaderMap,
    pub body: Value,
    /// Whether the caller presented a certificate of the given authority.
    pub certified: bool,
}

/// Responds to a request; `None` never responds.
pub(super) type Answer = dyn Fn(&Seen) -> Option<(u16, Value)> + Send + Sync;

pub(super) struct Outside {
    pub port: u16,
    /// PEM of the authority that signed its certificate, as base64.
    pub ca_bundle: String,
    pub seen: Arc<Mutex<Vec<Seen>>>,
}

impl Outside {
    /// Serves with a certificate for `<service>.default.svc` and `localhost`.
    pub(super) async fn start(
        service: &str,
        answer: impl Fn(&Seen) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        Self::start_with_clients(service, None, answer).await
    }

    /// As `start`, requesting client certificates of an authority (PEM).
    pub(super) async fn start_with_clients(
        service: &str,
        clients: Option<&str>,
        answer: impl Fn(&Seen) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        let (ca_pem, config) = certificate(service, clients);
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (log, answer): (_, Arc<Answer>) = (seen.clone(), Arc::new(answer));
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, log, answer) = (acceptor.clone(), log.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let certified = stream.get_ref().1.peer_certificates().is_some();
                    let router = Router::new().fallback(move |request: Request| {
                        let (log, answer) = (log.clone(), answer.clone());
                        async move { respond(request, certified, &log, &answer).await }
                    });
                    let service = TowerToHyperService::new(router);
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { port, ca_bundle: STANDARD.encode(ca_pem), seen }
    }

    /// Registers the server behind a Service of the namespace `default`.
    pub(super) async fn behind(&self, server: &ApiServer, service: &str) {
        let object = json!({"metadata": {"name": service}, "spec": {"ports": [{"port": 443, "targetPort": self.port}]}});
        let (code, body) = post(server, "/api/v1/namespaces/default/services", object).await;
        assert_eq!(code, 201, "{body}");
        let slice = json!({
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4",
            "ports": [{"port": self.port, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        });
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let (code, body) = post(server, slices, slice).await;
        assert_eq!(code, 201, "{body}");
    }

    /// Returns and clears the recorded requests.
    pub(super) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().expect("no panic under the lock"))
    }

    /// `clientConfig` of a webhook behind a Service.
    pub(super) fn client_config(&self, service: &str, path: &str) -> Value {
        json!({
            "caBundle": self.ca_bundle,
            "service": {"namespace": "default", "name": service, "path": path},
        })
    }
}

async fn respond(
    request: Request,
    certified: bool,
    log: &Mutex<Vec<Seen>>,
    answer: &Arc<Answer>,
) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, 16 << 20).await.expect("a whole body");
    let seen = Seen {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        certified,
    };
    log.lock().expect("no panic under the lock").push(seen.clone());
    let Some((code, value)) = answer(&seen) else { std::future::pending().await };
    let body = match value {
        Value::String(text) => Body::from(text),
        value => Body::from(value.to_string()),
    };
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(body)
        .expect("a valid answer")
}

fn certificate(service: &str, clients: Option<&str>) -> (String, rustls::ServerConfig) {
    let ca_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = params.self_signed(&ca_key).expect("a certificate").pem();
    let issuer = Issuer::from_ca_cert_pem(&ca_pem, ca_key).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let names = vec![format!("{service}.default.svc"), "localhost".to_owned()];
    let leaf = CertificateParams::new(names).expect("names").signed_by(&key, &issuer).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("an authority");
            let verifier =
                rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .allow_unauthenticated()
                    .build()
                    .expect("a verifier");
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    (ca_pem, builder.with_single_cert(vec![leaf.der().clone()], key).expect("a certificate of this key"))
}

//! The servers of an operator: HTTPS at an address of this process, with the certificate issued by the
//! manager.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::server::local_address;

/// Maximum request size; those of scenarios have a few kilobytes.
const LONGEST: usize = 1 << 20;

/// A server for the webhooks and APIs of one operator. Admission is denied for objects that contain
/// `forbidden`, and at the path `/mutate` those with `change-me` get an annotation. Converted objects are
/// marked in `spec.convertedTo`: an API server that converts without a webhook changes only `apiVersion`.
pub struct Endpoint {
    /// Its port, on an address of this machine. A pod whose image has `local` in its name gets that address.
    pub port: u16,
    shown: Shown,
}

/// The content of a Secret.
type Data = BTreeMap<String, ByteString>;

/// The presented certificate.
#[derive(Clone)]
struct Shown {
    secrets: Api<Secret>,
    name: String,
    held: Arc<Mutex<Option<Data>>>,
}

impl Shown {
    async fn read(&self) -> Result<Data> {
        Ok(self.secrets.get(&self.name).await?.data.unwrap_or_default())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Data>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Endpoint {
    /// Listens; each connection uses the certificate in the Secret at that moment, unless it
    /// [holds](Self::hold) one. Ends with the runtime.
    /// # Errors
    /// When no port is available.
    pub async fn start(client: Client, namespace: &str, secret: &str) -> Result<Self> {
        let listener = TcpListener::bind((local_address(), 0)).await?;
        let port = listener.local_addr()?.port();
        let secrets: Api<Secret> = Api::namespaced(client, namespace);
        let shown = Shown { secrets, name: secret.to_owned(), held: Arc::default() };
        let to_show = shown.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shown = to_show.clone();
                // The caller sees the failure.
                tokio::spawn(async move { serve(stream, &shown).await.ok() });
            }
        });
        Ok(Self { port, shown })
    }

    /// From now on it presents the current certificate, like a pod whose volume is behind, or that reads it
    /// only once.
    /// # Errors
    /// When there is none.
    pub async fn hold(&self) -> Result<()> {
        let now = self.shown.read().await?;
        *self.shown.held() = Some(now);
        Ok(())
    }

    /// It presents the Secret's certificate again.
    pub fn release(&self) {
        *self.shown.held() = None;
    }
}

async fn serve(stream: TcpStream, shown: &Shown) -> Result<()> {
    let held = shown.held().clone();
    let data = match held {
        Some(data) => data,
        None => shown.read().await?,
    };
    let part = |key: &str| data.get(key).map(|bytes| bytes.0.clone()).with_context(|| format!("no {key}"));
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&part("tls.crt")?).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&part("tls.key")?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    let mut request = Vec::new();
    let body = loop {
        let mut chunk = [0_u8; 8192];
        let read = stream.read(&mut chunk).await?;
        request.extend_from_slice(&chunk[..read]);
        if let Some(body) = whole(&request) {
            break body;
        }
        anyhow::ensure!(read > 0 && request.len() < LONGEST, "the request is not whole");
    };
    let mutates = request.starts_with(b"POST /mutate");
    let answer = answer(&body, mutates).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

/// The body of a request, when it is complete.
fn whole(request: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(request);
    let end = text.find("\r\n\r\n")? + 4;
    let length = text[..end].lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = &request[end..];
    (body.len() >= length.unwrap_or(0)).then(|| body.to_vec())
}

fn answer(body: &[u8], mutates: bool) -> Value {
    let review: Value = serde_json::from_slice(body).unwrap_or_default();
    let request = &review["request"];
    match review["kind"].as_str() {
        Some("AdmissionReview") => {
            let forbidden = request["object"].to_string().contains("forbidden");
            let mut response = json!({ "uid": request["uid"], "allowed": !forbidden });
            if forbidden {
                response["status"] = json!({ "code": 403, "message": "the operator forbids it" });
            } else if mutates && request["object"].to_string().contains("change-me") {
                let patch =
                    json!([{ "op": "add", "path": "/metadata/annotations", "value": { "changed": "yes" } }]);
                response["patchType"] = "JSONPatch".into();
                response["patch"] = STANDARD.encode(patch.to_string()).into();
            }
            json!({ "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response })
        }
        Some("ConversionReview") => {
            let wanted = &request["desiredAPIVersion"];
            let objects = request["objects"].as_array().cloned().unwrap_or_default().into_iter();
            let converted: Vec<Value> = objects
                .map(|mut object| {
                    object["apiVersion"] = wanted.clone();
                    object["spec"]["convertedTo"] = wanted.clone();
                    object
                })
                .collect();
            json!({ "apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
                "uid": request["uid"], "result": { "status": "Success" }, "convertedObjects": converted } })
        }
        _ => json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "", "resources": [] }),
    }
}

//! A registry in this process: images of catalogs and bundles.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use olm_engine::catalogs::Registries;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::operator::Operator;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

#[derive(Default)]
struct Content {
    blobs: HashMap<String, Vec<u8>>,
    manifests: HashMap<String, Vec<u8>>,
    asked: Vec<String>,
}

/// A registry without TLS or authentication; it ends with its runtime.
#[derive(Clone)]
pub struct Registry {
    content: Arc<Mutex<Content>>,
    address: SocketAddr,
}

impl Registry {
    /// Listens at a port of its own.
    /// # Errors
    /// When none is available.
    pub async fn start() -> Result<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let registry = Self { content: Arc::default(), address: listener.local_addr()? };
        let router = Router::new().fallback(answer).with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(registry)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings for a manager to use it.
    /// # Errors
    /// When the file cannot be written.
    pub fn settings(&self, folder: &Path) -> Result<Registries> {
        let file = folder.join("registries.yaml");
        let text = format!("plainHttp: ['{}']\negress: {{allow: ['127.0.0.0/8']}}\n", self.address);
        std::fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        Ok(Registries { file: Some(file), authorities: None })
    }

    #[must_use]
    pub fn reference(&self, image: &str) -> String {
        format!("{}/{image}", self.address)
    }

    /// Number of requests with this part in their path.
    #[must_use]
    pub fn asked(&self, part: &str) -> usize {
        self.content().asked.iter().filter(|asked| asked.contains(part)).count()
    }

    /// Pushes a catalog, in the directory of its label; returns its digest.
    /// # Errors
    /// When the archive cannot be built.
    pub fn push_catalog(&self, repository: &str, tag: &str, document: &[Value]) -> Result<String> {
        let text: String = document.iter().map(|document| format!("{document}\n")).collect();
        let labels = json!({ "operators.operatorframework.io.index.configs.v1": "/configs" });
        self.push(repository, tag, &labels, &[("configs/catalog.json".to_owned(), text)])
    }

    /// Pushes a bundle image; returns its digest.
    /// # Errors
    /// When the archive cannot be built.
    pub fn push_bundle(&self, repository: &str, tag: &str, operator: &Operator) -> Result<String> {
        let annotations = json!({ "annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": operator.package,
            "operators.operatorframework.io.bundle.channels.v1": "stable",
        } });
        let mut files = vec![("metadata/annotations.yaml".to_owned(), annotations.to_string())];
        let mut csv = operator.manifest("");
        if let Some(metadata) = csv["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        for (number, object) in std::iter::once(&csv).chain(operator.objects()).enumerate() {
            files.push((format!("manifests/{number}.yaml"), object.to_string()));
        }
        self.push(repository, tag, &annotations["annotations"], &files)
    }

    /// Pushes an image with one file; returns its digest.
    /// # Errors
    /// When the archive cannot be built.
    pub fn push_image(&self, repository: &str, tag: &str) -> Result<String> {
        self.push(repository, tag, &json!({}), &[("name".to_owned(), repository.to_owned())])
    }

    /// Signs an image like cosign with a key, in the format of cosign 1 and 2.
    /// # Errors
    /// When the key cannot sign.
    pub fn sign(&self, repository: &str, image: &str, key: &KeyPair) -> Result<()> {
        let payload = json!({ "critical": {
            "identity": { "docker-reference": "" }, "image": { "docker-manifest-digest": image },
            "type": "cosign container image signature",
        } });
        let payload = payload.to_string().into_bytes();
        let signature = BASE64_STANDARD.encode(key.sign(&payload)?);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(b"{}"), "size": 2 },
            "layers": [{
                "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
                "digest": digest(&payload), "size": payload.len(),
                "annotations": { "dev.cosignproject.cosign/signature": signature },
            }],
        });
        let mut content = self.content();
        content.blobs.insert(digest(&payload), payload);
        let tag = format!("{repository}/manifests/{}.sig", image.replace(':', "-"));
        content.manifests.insert(tag, manifest.to_string().into_bytes());
        Ok(())
    }

    fn push(
        &self,
        repository: &str,
        tag: &str,
        labels: &Value,
        files: &[(String, String)],
    ) -> Result<String> {
        let layer = tar(files)?;
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": { "Labels": labels },
            "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
        });
        let config = config.to_string().into_bytes();
        let part = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": part("application/vnd.oci.image.config.v1+json", &config),
            "layers": [part("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let pushed = digest(&manifest);
        let mut content = self.content();
        for name in [tag, &pushed] {
            content.manifests.insert(format!("{repository}/manifests/{name}"), manifest.clone());
        }
        for blob in [layer, config] {
            content.blobs.insert(digest(&blob), blob);
        }
        Ok(pushed)
    }
}

async fn answer(State(registry): State<Registry>, method: Method, uri: Uri) -> Response {
    let path = uri.path().trim_start_matches("/v2/").to_owned();
    let mut content = registry.content();
    content.asked.push(format!("{method} {path}"));
    let blob = path.rsplit('/').next().and_then(|digest| content.blobs.get(digest));
    let (kind, bytes) = match (content.manifests.get(&path), blob) {
        (Some(manifest), _) => (MANIFEST, manifest.clone()),
        (None, Some(blob)) => ("application/octet-stream", blob.clone()),
        (None, None) => return StatusCode::NOT_FOUND.into_response(),
    };
    let head = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_LENGTH, bytes.len().to_string()),
        (header::HeaderName::from_static("docker-content-digest"), digest(&bytes)),
    ];
    let body = if method == Method::HEAD { Body::empty() } else { Body::from(bytes) };
    (head, body).into_response()
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn tar(files: &[(String, String)]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, text.as_bytes())?;
    }
    Ok(archive.into_inner()?)
}

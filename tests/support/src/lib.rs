//! Support for unit tests: a registry in the process with images for it, an API server with a few objects, and tables of
//! documents.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use kube::Client;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What the registry does instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Fine,
    /// 401.
    Denies,
    /// 401 without this `Authorization`.
    Wants(&'static str),
    /// Never answers.
    Hangs,
}

#[derive(Default)]
struct Content {
    blobs: HashMap<String, Vec<u8>>,
    manifests: HashMap<String, Vec<u8>>,
    mood: Option<Mood>,
    asked: Vec<String>,
}

/// A registry; it goes with the test.
#[derive(Clone)]
pub struct Registry {
    content: Arc<Mutex<Content>>,
    pub host: String,
    settings: Arc<tempfile::TempDir>,
}

impl Registry {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let settings = tempfile::tempdir().expect("a folder");
        let text = format!("plainHttp: ['{host}']\negress: {{allow: ['127.0.0.0/8']}}\n");
        std::fs::write(settings.path().join("registries.yaml"), text).expect("a file");
        let registry = Self { content: Arc::default(), host, settings: Arc::new(settings) };
        let router = Router::new().fallback(answer).with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        registry
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn mood(&self, mood: Mood) {
        self.content().mood = Some(mood);
    }

    /// How many requests named this part of a path.
    pub fn asked(&self, part: &str) -> usize {
        self.content().asked.iter().filter(|asked| asked.contains(part)).count()
    }

    /// A `registries.yaml` by which it is reached.
    pub fn settings(&self) -> PathBuf {
        self.settings.path().join("registries.yaml")
    }

    /// A catalog under `cat:latest`; returns the reference.
    pub fn push_catalog(&self, text: &str) -> String {
        let layer = tar(&[("configs/catalog.yaml".to_owned(), text.as_bytes().to_vec())]);
        let labels = json!({ "operators.operatorframework.io.index.configs.v1": "/configs" });
        self.push("cat", &labels, &layer);
        format!("{}/cat:latest", self.host)
    }

    /// A bundle's folder under `bundle:latest`; returns the reference by digest.
    pub fn push_bundle(&self, folder: &Path) -> String {
        let mut files = Vec::new();
        for part in ["manifests", "metadata"] {
            for entry in std::fs::read_dir(folder.join(part)).expect("a bundle").flatten() {
                let name = format!("{part}/{}", entry.file_name().to_string_lossy());
                files.push((name, std::fs::read(entry.path()).expect("a file")));
            }
        }
        let digest = self.push("bundle", &json!({}), &tar(&files));
        format!("{}/bundle@{digest}", self.host)
    }

    /// Signs the catalog `cat:latest` as cosign does with a key.
    pub fn sign_catalog(&self, key: &rcgen::KeyPair) {
        use base64::Engine as _;
        use rcgen::SigningKey as _;
        let digest = sha256(&self.content().manifests["cat/manifests/latest"]);
        let payload = json!({"critical": {
            "identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        }});
        let payload = payload.to_string().into_bytes();
        let signature = key.sign(&payload).expect("a signature");
        let signature = base64::engine::general_purpose::STANDARD.encode(signature);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": sha256(b"{}"), "size": 2 },
            "layers": [{
                "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
                "digest": sha256(&payload), "size": payload.len(),
                "annotations": {"dev.cosignproject.cosign/signature": signature},
            }],
        });
        let mut content = self.content();
        content.blobs.insert(sha256(&payload), payload);
        let tag = format!("cat/manifests/{}.sig", digest.replace(':', "-"));
        content.manifests.insert(tag, manifest.to_string().into_bytes());
    }

    fn push(&self, name: &str, labels: &Value, layer: &[u8]) -> String {
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": { "Labels": labels },
            "rootfs": { "type": "layers", "diff_ids": [sha256(layer)] },
        });
        let config = config.to_string().into_bytes();
        let descriptor = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": sha256(bytes), "size": bytes.len() });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let digest = sha256(&manifest);
        let mut content = self.content();
        content.blobs.insert(sha256(layer), layer.to_vec());
        content.blobs.insert(sha256(&config), config);
        content.manifests.insert(format!("{name}/manifests/latest"), manifest.clone());
        content.manifests.insert(format!("{name}/manifests/{digest}"), manifest);
        digest
    }
}

async fn answer(State(registry): State<Registry>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches("/v2/").to_owned();
    let mood = {
        let mut content = registry.content();
        content.asked.push(format!("{method} {path}"));
        content.mood.unwrap_or(Mood::Fine)
    };
    match mood {
        Mood::Fine => {}
        Mood::Denies => return StatusCode::UNAUTHORIZED.into_response(),
        Mood::Wants(login) if headers.get(header::AUTHORIZATION).is_none_or(|sent| sent != login) => {
            let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=test")];
            return (StatusCode::UNAUTHORIZED, challenge).into_response();
        }
        Mood::Wants(_) => {}
        Mood::Hangs => std::future::pending().await,
    }
    let content = registry.content();
    let blob = path.rsplit('/').next().and_then(|digest| content.blobs.get(digest));
    let (kind, bytes) = match (content.manifests.get(&path), blob) {
        (Some(manifest), _) => (MANIFEST, manifest.clone()),
        (None, Some(blob)) => ("application/octet-stream", blob.clone()),
        (None, None) => return StatusCode::NOT_FOUND.into_response(),
    };
    let response = Response::builder()
        .header(header::CONTENT_TYPE, kind)
        .header(header::CONTENT_LENGTH, bytes.len())
        .header("Docker-Content-Digest", sha256(&bytes));
    let body = if method == Method::HEAD { Body::empty() } else { Body::from(bytes) };
    response.body(body).expect("a response")
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes.as_slice()).expect("an entry");
    }
    archive.into_inner().expect("an archive")
}

/// An API server that has these objects, by the end of their path, and nothing else.
pub fn client(objects: Vec<(&'static str, Value)>) -> Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let path = request.uri().path().to_owned();
        let found = objects.iter().find(|(end, _)| path.ends_with(end)).map(|(_, object)| object.clone());
        let status = if found.is_some() { 200 } else { 404 };
        let body = found.unwrap_or_else(|| {
            json!({ "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 })
        });
        let body = kube::client::Body::from(body.to_string().into_bytes());
        let response = http::Response::builder().status(status).body(body).expect("a response");
        async move { Ok::<_, std::io::Error>(response) }
    });
    Client::new(service, "default")
}

pub fn catalog(package: &str, version: &str) -> String {
    format!(
        "schema: olm.package\nname: {package}\ndefaultChannel: stable\n---\n\
         schema: olm.channel\npackage: {package}\nname: stable\nentries:\n- name: {package}.v{version}\n---\n\
         schema: olm.bundle\npackage: {package}\nname: {package}.v{version}\nimage: example.invalid/{package}:v{version}\n\
         properties:\n- type: olm.package\n  value: {{packageName: {package}, version: {version}}}\n"
    )
}

/// Compares the part of a page of `docs/` between `<!-- NAME -->` and `<!-- end -->` with `wanted`. UPDATE=1 writes it.
pub fn documented(page: &str, name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).expect(page);
    let begin = format!("<!-- {name} -->\n");
    let start = text.find(&begin).expect("the mark") + begin.len();
    let end = start + text[start..].find("<!-- end -->").expect("the end");
    if std::env::var_os("UPDATE").is_some() {
        let new = format!("{}{wanted}{}", &text[..start], &text[end..]);
        std::fs::write(&path, new).expect(page);
        return;
    }
    assert!(text[start..end] == *wanted, "docs/{page} is out of date: run this test alone with UPDATE=1");
}

/// Compares the section "Example" of a page of `docs/` with `wanted`. UPDATE=1 writes it.
pub fn example(page: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).expect(page);
    let (before, rest) = text.split_once("\n## Example\n\n").expect("the section");
    let (shown, after) = rest.split_at(rest.find("\n## ").expect("the next section"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{before}\n## Example\n\n{wanted}{after}")).expect(page);
    } else {
        assert!(
            shown == wanted,
            "docs/{page} is out of date: run this test with UPDATE=1\n{shown}\n{wanted}"
        );
    }
}

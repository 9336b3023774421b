//! `olm catalog mirror`, from a registry in the test.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{CATALOG, folder, olm};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Contents by path below `/v2/`, served to clients with a token.
#[derive(Default)]
pub struct Contents {
    files: BTreeMap<String, (String, Vec<u8>)>,
    asked: AtomicUsize,
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl Contents {
    fn put(&mut self, repository: &str, kind: &str, media_type: &str, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        self.files.insert(format!("{repository}/{kind}/{digest}"), (media_type.to_owned(), bytes.to_vec()));
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// Adds an image for two platforms; returns its digest.
    pub fn image(&mut self, repository: &str, tag: &str) -> String {
        let manifests: Vec<Value> = ["amd64", "arm64"]
            .iter()
            .map(|architecture| {
                let config =
                    json!({"architecture": architecture, "os": "linux", "of": repository}).to_string();
                let config = self.put(
                    repository,
                    "blobs",
                    "application/vnd.oci.image.config.v1+json",
                    config.as_bytes(),
                );
                let layer = self.put(
                    repository,
                    "blobs",
                    "application/vnd.oci.image.layer.v1.tar",
                    architecture.as_bytes(),
                );
                let manifest =
                    json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
                let mut entry = self.put(repository, "manifests", MANIFEST, manifest.to_string().as_bytes());
                entry["platform"] = json!({"architecture": architecture, "os": "linux"});
                entry
            })
            .collect();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).to_string();
        let entry = self.put(repository, "manifests", INDEX, index.as_bytes());
        self.files.insert(format!("{repository}/manifests/{tag}"), (INDEX.to_owned(), index.into_bytes()));
        entry["digest"].as_str().unwrap().to_owned()
    }
}

async fn answer(State(contents): State<Arc<Contents>>, request: Request) -> Response {
    let path = request.uri().path();
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if path == "/token" {
        let query = request.uri().query().unwrap_or_default();
        assert!(query.contains("scope=repository%3A") && query.contains("service=test"), "{query}");
        return json!({"token": "opensesame"}).to_string().into_response();
    }
    if request.headers().get(header::AUTHORIZATION).is_none_or(|value| value != "Bearer opensesame") {
        let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"test\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    contents.asked.fetch_add(1, Ordering::Relaxed);
    match path.strip_prefix("/v2/").and_then(|path| contents.files.get(path)) {
        Some((media_type, bytes)) => {
            ([(header::CONTENT_TYPE, media_type.clone())], Bytes::copy_from_slice(bytes)).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Runs the registry in a thread for the duration of the test.
pub fn serve(contents: Arc<Contents>) -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(listener, Router::new().fallback(answer).with_state(contents)).await.unwrap();
        });
    });
    receiver.recv().unwrap()
}

fn names(layout: &Path) -> Vec<String> {
    let index: Value = serde_json::from_slice(&std::fs::read(layout.join("index.json")).unwrap()).unwrap();
    let manifests = index["manifests"].as_array().unwrap().clone();
    manifests
        .iter()
        .map(|m| m["annotations"]["org.opencontainers.image.ref.name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_catalog_and_its_images_are_copied_as_they_are() {
    // given a catalog whose images are in a registry that requires a token, one of them by digest
    let mut contents = Contents::default();
    contents.image("demo", "v1.0.0");
    contents.image("demo", "v1.1.0");
    let operator = contents.image("operator", "v1.0.0");
    let contents = Arc::new(contents);
    let registry = serve(Arc::clone(&contents)).to_string();
    let catalog = CATALOG
        .replace("registry.example/operator:v1.0.0", &format!("{registry}/operator@{operator}"))
        .replace("registry.example", &registry);
    let dir = folder(&[("catalog.yaml", &catalog)]);
    let (source, layout) = (dir.path().join("catalog.yaml"), dir.path().join("mirror"));
    let to = format!("oci:{}", layout.display());
    let mirror = || {
        olm(&[
            "catalog",
            "mirror",
            source.to_str().unwrap(),
            "--to",
            &to,
            "--plain-http",
            &registry,
            "--mapping",
            "mirror.example/olm",
            "-o",
            "json",
        ])
    };
    // when it is mirrored
    let ran = mirror();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    // then every image is listed with its kind and digest
    let images = report["images"].as_array().unwrap();
    let kinds: Vec<&str> = images.iter().map(|image| image["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["catalog", "bundle", "bundle", "related"]);
    assert_eq!(images[3]["digest"], operator);
    assert_eq!(names(&layout).len(), 4);
    // and every blob of every platform matches its digest
    let mut blobs = 0;
    for entry in std::fs::read_dir(layout.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(
            digest(&std::fs::read(&path).unwrap()),
            format!("sha256:{}", path.file_name().unwrap().to_str().unwrap())
        );
        blobs += 1;
    }
    // Two repositories with two configurations, two manifests and an index each, two shared layers, and three
    // blobs of the catalog.
    assert_eq!(blobs, 2 * 5 + 2 + 3);
    // and the mirrored catalog can be read
    let read = olm(&["catalog", "list", "packages", &format!("{to}:localhost/catalog:latest"), "-o", "name"]);
    assert_eq!(read.out, "demo\n", "{}", read.err);
    // and the mirror sets name the mirrored images
    let sets = std::fs::read_to_string(layout.join("mirror-sets.yaml")).unwrap();
    assert!(sets.contains("ImageDigestMirrorSet") && sets.contains("mirror.example/olm/operator"), "{sets}");
    // when it is mirrored again, then no blob is copied
    let before = contents.asked.load(Ordering::Relaxed);
    assert_eq!(mirror().code, Some(0));
    // An index and two manifests each, and three lookups of signatures.
    assert_eq!(contents.asked.load(Ordering::Relaxed) - before, 3 * (3 + 3));
    // and another tool can read it
    match Command::new("skopeo")
        .args([
            "inspect",
            "--raw",
            &format!("oci:{}:{}", layout.display(), images[1]["image"].as_str().unwrap()),
        ])
        .output()
    {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => println!("skipped: reading the layout with another tool: skopeo is not installed"),
    }
}

#[test]
fn what_cannot_be_copied_is_named_and_the_rest_is() {
    // given a registry that lacks one image and has another whose content does not match its digest
    let mut contents = Contents::default();
    contents.image("demo", "v1.0.0");
    let operator = contents.image("operator", "v1.0.0");
    for (path, (_, bytes)) in &mut contents.files {
        if path.starts_with("operator/blobs") {
            bytes[0] ^= 1;
        }
    }
    let registry = serve(Arc::new(contents)).to_string();
    let catalog = CATALOG
        .replace("registry.example/operator:v1.0.0", &format!("{registry}/operator@{operator}"))
        .replace("registry.example", &registry);
    let dir = folder(&[("catalog.yaml", &catalog)]);
    let (source, layout) = (dir.path().join("catalog.yaml"), dir.path().join("mirror"));
    let (source, to) = (source.to_str().unwrap(), format!("oci:{}", layout.display()));
    // when it is mirrored
    let ran = olm(&["catalog", "mirror", source, "--to", &to, "--plain-http", &registry]);
    // then it fails with the affected images and their causes
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.contains(&format!("the manifest of {registry}/demo:v1.1.0: not found; check the name")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("content has digest sha256:"), "{}", ran.err);
    assert!(ran.err.contains("failed to copy 2 images"), "{}", ran.err);
    // and the other images are copied
    assert_eq!(names(&layout), [format!("{registry}/demo:v1.0.0"), "localhost/catalog:latest".to_owned()]);
    let left: Vec<_> =
        std::fs::read_dir(layout.join("blobs/sha256")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.len() == 64), "{left:?}");
    // when only the list is requested, then that is not an error
    let ran = olm(&["catalog", "mirror", source, "--to", &to, "--images", "list"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 4, "{}", ran.out);
    assert_eq!(olm(&["catalog", "mirror", source, "--to", "dir:x"]).code, Some(2));
    let full = format!("oci:{}", dir.path().display());
    assert_eq!(olm(&["catalog", "mirror", source, "--to", &full]).code, Some(2));
}

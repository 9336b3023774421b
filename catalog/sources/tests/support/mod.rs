//! Test helpers: images in memory, and options for local servers.
#![allow(dead_code)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use olm_catalog_sources::{Options, Proxy, Timeouts};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
pub const ETCD: &str = "{\"schema\":\"olm.package\",\"name\":\"etcd\",\"defaultChannel\":\"stable\"}\n";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

pub fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}

/// An image, blob by blob.
#[derive(Clone)]
pub struct Image {
    pub blobs: BTreeMap<String, Vec<u8>>,
    pub manifest: Vec<u8>,
    pub media_type: String,
    /// The digests of the layers, from below.
    pub layers: Vec<String>,
}

impl Image {
    /// An image of layers that are tar archives, plain or compressed.
    pub fn new(labels: &[(&str, &str)], layers: &[Vec<u8>]) -> Self {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let digests: Vec<String> = layers.iter().map(|layer| sha256(layer)).collect();
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": { "Labels": labels },
            "rootfs": { "type": "layers", "diff_ids": digests },
        })
        .to_string()
        .into_bytes();
        let descriptor = |media_type: &str, bytes: &[u8]| {
            let (digest, size) = (sha256(bytes), bytes.len());
            json!({ "mediaType": media_type, "digest": digest, "size": size })
        };
        let layer_type = |bytes: &[u8]| match bytes {
            [0x1f, 0x8b, ..] => format!("{LAYER}+gzip"),
            [0x28, 0xb5, ..] => format!("{LAYER}+zstd"),
            _ => LAYER.to_owned(),
        };
        let media_type = "application/vnd.oci.image.manifest.v1+json".to_owned();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": layers.iter().map(|l| descriptor(&layer_type(l), l)).collect::<Vec<_>>(),
        });
        let mut blobs: BTreeMap<String, Vec<u8>> =
            layers.iter().map(|layer| (sha256(layer), layer.clone())).collect();
        blobs.insert(sha256(&config), config);
        Self { blobs, manifest: manifest.to_string().into_bytes(), media_type, layers: digests }
    }

    /// A small catalog in one gzip layer.
    pub fn catalog(text: &str) -> Self {
        let layer = gzip(&tar(&[("configs/etcd/catalog.json", text), ("etc/passwd", "root")]));
        Self::new(&[(CONFIGS, "/configs")], &[layer])
    }

    pub fn digest(&self) -> String {
        sha256(&self.manifest)
    }

    pub fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest(), "size": self.manifest.len() })
    }

    /// Writes it as a directory in the OCI layout.
    pub fn write_layout(&self, root: &Path, name: &str) {
        let blobs = root.join("blobs/sha256");
        fs::create_dir_all(&blobs).expect("a folder");
        let manifest = (self.digest(), self.manifest.clone());
        for (digest, bytes) in self.blobs.clone().into_iter().chain([manifest]) {
            fs::write(blobs.join(&digest["sha256:".len()..]), bytes).expect("a blob");
        }
        fs::write(root.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").expect("oci-layout");
        let mut entry = self.descriptor();
        entry["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        fs::write(root.join("index.json"), index.to_string()).expect("index.json");
    }
}

pub fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, path, content.as_bytes()).expect("in memory");
    }
    builder.into_inner().expect("in memory")
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// For a local server: no TLS, no proxy, short delays.
pub fn options(host: &str) -> Options {
    Options {
        plain_http: vec![host.to_owned()],
        proxy: Proxy::Direct,
        timeouts: Timeouts {
            attempts: 3,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(20),
            ..Timeouts::default()
        },
        ..Options::default()
    }
}

/// Every file below a directory.
pub fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("read") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
                found.insert(name, fs::read(&path).expect("read"));
            }
        }
    }
    found
}

pub fn expected(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, content)| ((*name).to_owned(), content.as_bytes().to_vec())).collect()
}

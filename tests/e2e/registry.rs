//! Docker's registry as a program of the machine, and images in it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Result, ensure};
use olm_tests::eventually;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::operator::LIMIT;

/// A registry on the machine's network.
pub struct Registry {
    child: Child,
    /// Address and port, as in references.
    pub host: String,
    folder: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub const CONFIG: &str = "version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: ROOT}\nhttp: {addr: 'ADDRESS'}\n";

impl Registry {
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        fs::create_dir(&data)?;
        let host = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let config = folder.path().join("config.yml");
        fs::write(&config, CONFIG.replace("ROOT", &data.display().to_string()).replace("ADDRESS", &host))?;
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let registry = Self { child, host, folder };
        eventually("the registry to listen", LIMIT, async || {
            Ok(std::net::TcpStream::connect(&registry.host).ok())
        })
        .await?;
        Ok(registry)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Builds an image of a directory with a container configuration, and pushes it with skopeo as `latest`;
    /// returns its digest.
    pub fn push(&self, name: &str, config: Value, content: &Path) -> Result<String> {
        let layout = tempfile::tempdir()?;
        let digest = layout_of(layout.path(), config, content)?;
        let out = Command::new("skopeo")
            .args(["copy", "--insecure-policy", "--dest-tls-verify=false", "--preserve-digests"])
            .arg(format!("oci:{}", layout.path().display()))
            .arg(format!("docker://{}/{name}:latest", self.host))
            .output()?;
        ensure!(out.status.success(), "skopeo: {}", String::from_utf8_lossy(&out.stderr));
        Ok(digest)
    }
}

/// Writes an OCI layout with one image; returns its digest. Links stay links.
pub fn layout_of(layout: &Path, config: Value, content: &Path) -> Result<String> {
    let mut archive = tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    archive.append_dir_all(".", content)?;
    let layer = archive.into_inner()?;
    let blob = |bytes: &[u8], kind: &str| -> Result<Value> {
        let hex: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
        let folder = layout.join("blobs/sha256");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(&hex), bytes)?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{hex}"), "size": bytes.len() }))
    };
    let layer = blob(&layer, "application/vnd.oci.image.layer.v1.tar")?;
    let document = json!({
        "architecture": architecture(), "os": "linux", "config": config,
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    });
    let config = blob(document.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] });
    let manifest = blob(manifest.to_string().as_bytes(), kind)?;
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string())?;
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(manifest["digest"].as_str().unwrap_or_default().to_owned())
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

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

/// The configuration of a registry: its directory, its address, and further settings of its server.
pub fn config(directory: &str, address: &str, server: &str) -> String {
    format!(
        "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {directory}}}\n\
         http: {{addr: '{address}'{server}}}\n"
    )
}

impl Registry {
    pub async fn start() -> Result<Self> {
        let host = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        Self::serve(Command::new("docker-registry"), host, tempfile::tempdir()?, "").await
    }

    /// A registry with TLS in another network, and its self-signed certificate.
    pub async fn start_in(network: &Network) -> Result<(Self, String)> {
        let folder = tempfile::tempdir()?;
        let certified = rcgen::generate_simple_self_signed([network.address()])?;
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        fs::write(&certificate, certified.cert.pem())?;
        fs::write(&key, certified.signing_key.serialize_pem())?;
        let tls = format!(", tls: {{certificate: '{}', key: '{}'}}", certificate.display(), key.display());
        let host = format!("{}:5000", network.address());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &network.name, "docker-registry"]);
        Ok((Self::serve(command, host, folder, &tls).await?, certified.cert.pem()))
    }

    async fn serve(mut command: Command, host: String, folder: tempfile::TempDir, tls: &str) -> Result<Self> {
        let data = folder.path().join("data");
        fs::create_dir(&data)?;
        let file = folder.path().join("config.yml");
        fs::write(&file, config(&data.display().to_string(), &host, tls))?;
        let command = command.arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let registry = Self { child: command.spawn()?, host, folder };
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

/// A network that this machine reaches and the pods of a dev cluster do not, as the networks of other machines.
pub struct Network {
    name: String,
    /// The first three bytes of its addresses.
    subnet: String,
}

impl Network {
    pub fn create() -> Result<Self> {
        let pid = std::process::id();
        // 198.18.0.0/15 is reserved for tests (RFC 2544).
        let network = Self { name: format!("olm-e2e-{pid}"), subnet: format!("198.18.{}", pid % 256) };
        let (name, here, there) = (&network.name, format!("olmh{pid}"), format!("olmt{pid}"));
        let near = format!("{}.1/24", network.subnet);
        let far = format!("{}/24", network.address());
        for arguments in [
            &["netns", "add", name][..],
            &["link", "add", &here, "type", "veth", "peer", "name", &there, "netns", name],
            &["address", "add", &near, "dev", &here],
            &["link", "set", &here, "up"],
            &["-n", name, "address", "add", &far, "dev", &there],
            &["-n", name, "link", "set", &there, "up"],
        ] {
            let out = Command::new("ip").args(arguments).output()?;
            ensure!(out.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(network)
    }

    /// Address of the registry.
    pub fn address(&self) -> String {
        format!("{}.2", self.subnet)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
    }
}

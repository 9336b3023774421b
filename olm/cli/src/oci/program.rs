//! Images that run one program: no shell, no package manager, no root.
//!
//! A static program gets certificate authorities only. One that is linked dynamically, such as every default
//! build on Debian, gets its loader and its shared libraries from this machine too.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use olm_ops::manifests::containerfile::{USER, entrypoint};
use serde_json::{Value, json};

use super::{
    elf::{Architecture, Elf},
    layer::LayerWriter,
    layout::{CONFIG, Descriptor, INDEX, Index, Layout, LayoutError, MANIFEST},
    libraries::{self, Files},
    tree::{Content, Entry, Tree},
};

/// Where Debian, Fedora and Alpine keep the certificate authorities.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// The variable with the folders of programs in an image.
pub const SEARCH_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The time of images without `SOURCE_DATE_EPOCH`. With the time of the build, the same files would give
/// another digest.
pub const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Failure to make an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A program that no image can run.
    #[error("failed to add {}: {reason}", path.display())]
    Program { path: PathBuf, reason: String },
    /// An SBOM that is missing or ambiguous.
    #[error("failed to add {}: {reason}", path.display())]
    Sbom { path: PathBuf, reason: String },
    /// A dynamically linked program whose libraries are not on this machine.
    #[error("failed to add {}: it is linked dynamically, and {reason}", path.display())]
    Libraries { path: PathBuf, reason: String },
    /// Two programs for one architecture.
    #[error("{name}: {} and {} are both for {architecture}", first.display(), second.display())]
    Twice { name: String, architecture: Architecture, first: PathBuf, second: PathBuf },
    #[error("certificate authorities not found in {}", BUNDLES.join(", "))]
    NoCertificates,
    #[error("{}: no certificates, expected a PEM file", path.display())]
    BadCertificates { path: PathBuf },
}

/// A PEM bundle of certificate authorities.
#[derive(Debug, Clone)]
pub struct Certificates(Vec<u8>);

impl Certificates {
    pub(super) fn pem(&self) -> &[u8] {
        &self.0
    }
}

/// Reads the certificate authorities for images: of a file, or of this machine.
pub fn certificates(file: Option<&Path>) -> Result<Certificates, ImageError> {
    let path = match file {
        Some(file) => file.to_owned(),
        None => {
            BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()).ok_or(ImageError::NoCertificates)?
        }
    };
    let bytes =
        fs::read(&path).map_err(|source| LayoutError::Io { what: "read", path: path.clone(), source })?;
    let mark = b"-----BEGIN CERTIFICATE-----";
    if !bytes.windows(mark.len()).any(|part| part == mark) {
        return Err(ImageError::BadCertificates { path });
    }
    Ok(Certificates(bytes))
}

/// A program to make an image of.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    /// Name of the file in the image.
    pub name: &'a str,
    pub version: &'a str,
    pub description: &'a str,
    /// The executables, one for each architecture.
    pub files: &'a [PathBuf],
    /// Folder with SBOMs as `scripts/sbom.sh` writes them.
    pub sboms: Option<&'a Path>,
    /// Names of the image.
    pub names: &'a [String],
    /// Time of the image in its configuration, RFC 3339.
    pub created: &'a str,
}

/// A written image.
#[derive(Debug, Clone)]
pub struct Image {
    pub names: Vec<String>,
    /// Its manifest; an index when there are several platforms.
    pub manifest: Descriptor,
    /// One for each architecture.
    pub platforms: Vec<Platform>,
}

/// An image for one architecture.
#[derive(Debug, Clone)]
pub struct Platform {
    pub architecture: Architecture,
    pub manifest: Descriptor,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    /// Loader and shared libraries that were added, by their path in the image.
    pub libraries: Vec<String>,
}

impl Image {
    /// All blobs of the image, with its manifests.
    pub fn blobs(&self) -> impl Iterator<Item = &Descriptor> {
        let platforms = self.platforms.iter();
        platforms.flat_map(|p| [&p.manifest, &p.config].into_iter().chain(&p.layers)).chain([&self.manifest])
    }

    /// Size of its layers, in bytes.
    pub fn size(&self) -> u64 {
        self.platforms.iter().flat_map(|platform| &platform.layers).map(|layer| layer.size).sum()
    }

    /// The platform that loads where an archive may have only one: that of this machine, or the first.
    pub fn main_platform(&self) -> Option<&Platform> {
        let own = Architecture::own();
        self.platforms.iter().find(|platform| Some(platform.architecture) == own).or(self.platforms.first())
    }
}

impl Layout {
    /// Writes a program as an image. The same files result in the same image.
    pub fn program(
        &mut self,
        program: &Program<'_>,
        certificates: &Certificates,
    ) -> Result<Image, ImageError> {
        let mut by_architecture: BTreeMap<Architecture, (&PathBuf, Elf)> = BTreeMap::new();
        for path in program.files {
            let elf = Elf::read(path).map_err(|reason| ImageError::Program { path: path.clone(), reason })?;
            let architecture = elf.architecture;
            if let Some((first, _)) = by_architecture.insert(architecture, (path, elf)) {
                return Err(ImageError::Twice {
                    name: program.name.to_owned(),
                    architecture,
                    first: first.clone(),
                    second: path.clone(),
                });
            }
        }
        let mut platforms = Vec::new();
        for (architecture, (path, elf)) in by_architecture {
            let libraries = libraries::libraries(&elf, Path::new("/"))
                .map_err(|reason| ImageError::Libraries { path: path.clone(), reason })?;
            platforms.push(self.platform(program, architecture, path, &libraries, certificates)?);
        }
        let manifest = match &platforms[..] {
            [only] => only.manifest.clone(),
            several => {
                let entry = |platform: &Platform| {
                    let mut entry = platform.manifest.clone();
                    let value = json!({ "architecture": platform.architecture.name(), "os": "linux" });
                    entry.other.insert("platform".to_owned(), value);
                    entry
                };
                let index = Index::new(several.iter().map(entry).collect());
                self.write_blob(INDEX, json!(index).to_string().as_bytes())?
            }
        };
        for name in program.names {
            self.name(name, manifest.clone())?;
        }
        Ok(Image { names: program.names.to_vec(), manifest, platforms })
    }

    fn platform(
        &self,
        program: &Program<'_>,
        architecture: Architecture,
        path: &Path,
        libraries: &Files,
        certificates: &Certificates,
    ) -> Result<Platform, ImageError> {
        let sbom = program.sboms.map(|dir| sbom(dir, program.name, architecture)).transpose()?;
        // Separate, so that images of one build share it.
        let system = Tree::system(Some(certificates), libraries);
        let system = self.layer(|layer| write(&system, layer))?;
        let mut own = Tree::default();
        own.program(program.name, path);
        if let Some(sbom) = &sbom {
            own.file(&format!("usr/share/sbom/{}.cdx.json", program.name), 0o644, sbom);
        }
        let own = self.layer(|layer| write(&own, layer))?;
        let history = |comment: &str| json!({ "created": program.created, "created_by": "olm self image", "comment": comment });
        let config = json!({
            "created": program.created,
            "architecture": architecture.name(),
            "os": "linux",
            "config": program.container(),
            "rootfs": { "type": "layers", "diff_ids": [system.diff, own.diff] },
            "history": [history("certificate authorities and shared libraries"), history(program.name)],
        });
        let config = self.write_blob(CONFIG, config.to_string().as_bytes())?;
        let layers = vec![system.blob, own.blob];
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": layers,
            "annotations": program.labels(),
        });
        let manifest = self.write_blob(MANIFEST, manifest.to_string().as_bytes())?;
        let libraries = libraries.keys().cloned().collect();
        Ok(Platform { architecture, manifest, config, layers, libraries })
    }
}

impl Program<'_> {
    /// How its containers run by default.
    pub fn container(&self) -> Value {
        json!({
            // By number, because `runAsNonRoot` can only be checked against a number.
            "User": format!("{USER}:{USER}"),
            "Env": [SEARCH_PATH],
            "Entrypoint": [entrypoint(self.name)],
            "WorkingDir": "/",
            "Labels": self.labels(),
        })
    }

    fn labels(&self) -> Value {
        json!({
            "org.opencontainers.image.title": self.name,
            "org.opencontainers.image.description": self.description,
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.created": self.created,
            "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
        })
    }
}

/// The SBOM of a program for an architecture: `olm-x86_64-unknown-linux-gnu.cdx.json`.
fn sbom(dir: &Path, name: &str, architecture: Architecture) -> Result<PathBuf, ImageError> {
    let start = format!("{name}-{}-", architecture.cpu());
    let entries = fs::read_dir(dir)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .map_err(|source| LayoutError::Io { what: "read", path: dir.to_owned(), source })?;
    let mut found: Vec<PathBuf> = entries
        .iter()
        .filter(|entry| {
            let file = entry.file_name();
            let file = file.to_string_lossy();
            file.starts_with(&start) && file.ends_with(".cdx.json")
        })
        .map(fs::DirEntry::path)
        .collect();
    found.sort();
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => Err(ImageError::Sbom {
            path: dir.join(format!("{start}….cdx.json")),
            reason: "the SBOM does not exist; `make sbom` writes it".to_owned(),
        }),
        [first, ..] => Err(ImageError::Sbom {
            path: first.clone(),
            reason: format!("{} SBOMs of {name} for {architecture}, expected one", found.len()),
        }),
    }
}

fn write(tree: &Tree, layer: &mut LayerWriter) -> Result<(), LayoutError> {
    for Entry { name, mode, content } in tree.entries() {
        match content {
            Content::Folder => layer.folder(name, *mode)?,
            Content::Bytes(bytes) => layer.bytes(name, *mode, bytes)?,
            Content::File(from) => layer.file(name, *mode, from)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Writes a folder in the OCI layout: `oci-layout`, `index.json`, `blobs/sha256/…`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use olm_catalog::hex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::layer::{Layer, LayerWriter};

/// The annotation of `index.json` with the name of an image.
pub const NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation by which containerd names an imported image.
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The label of a catalog image with the path of its files.
const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Content of the file `oci-layout`.
pub const VERSION: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Failure to write a layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("failed to {what} {}: {source}", path.display())]
    Io {
        /// Verb of the failed operation.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The folder contains other files.
    #[error("{} contains files and is not an OCI layout, expected a new or empty folder", path.display())]
    Other {
        /// Root folder of the layout.
        path: PathBuf,
    },
    /// The index is damaged.
    #[error("failed to read {}: {reason}; remove the folder and run the command again", path.display())]
    Index {
        path: PathBuf,
        /// Parse or serialization error.
        reason: String,
    },
}

/// A blob, identified by its digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    /// `sha256:…`
    pub digest: String,
    /// In bytes.
    pub size: u64,
    /// Annotations, among them the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Other fields such as `platform`, retained unchanged.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl Descriptor {
    pub fn new(media_type: &str, digest: String, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            annotations: BTreeMap::new(),
            other: BTreeMap::new(),
        }
    }
}

/// An index: `index.json`, or an image of several platforms.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    pub manifests: Vec<Descriptor>,
}

impl Index {
    pub fn new(manifests: Vec<Descriptor>) -> Self {
        Self { schema_version: 2, media_type: INDEX.to_owned(), manifests }
    }
}

/// A folder in the OCI layout. The index is written last, so an image is complete once it is listed.
#[derive(Debug)]
pub struct Layout {
    root: PathBuf,
    index: Index,
}

impl Layout {
    /// Opens a layout, or creates one.
    pub fn open(root: &Path) -> Result<Self, LayoutError> {
        let path = root.join("index.json");
        let index = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| LayoutError::Index { path, reason: error.to_string() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some())
                    && !root.join("oci-layout").is_file()
                {
                    return Err(LayoutError::Other { path: root.to_owned() });
                }
                Index::new(Vec::new())
            }
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let blobs = root.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(failed("create", &blobs))?;
        let version = root.join("oci-layout");
        fs::write(&version, VERSION).map_err(failed("write", &version))?;
        Ok(Self { root: root.to_owned(), index })
    }

    /// Path of a blob. The caller must have validated the digest.
    pub fn path(&self, digest: &str) -> PathBuf {
        self.root.join("blobs").join(digest.replacen(':', "/", 1))
    }

    #[cfg(test)]
    pub fn find(&self, name: &str) -> Option<&Descriptor> {
        self.index.manifests.iter().find(|entry| entry.annotations.get(NAME).is_some_and(|n| n == name))
    }

    /// Writes a blob from memory.
    pub fn write_blob(&self, media_type: &str, bytes: &[u8]) -> Result<Descriptor, LayoutError> {
        let digest = format!("sha256:{}", hex(&Sha256::digest(bytes)));
        let path = self.path(&digest);
        if !fs::metadata(&path).is_ok_and(|file| file.len() == bytes.len() as u64) {
            write_whole(&path, bytes)?;
        }
        Ok(Descriptor::new(media_type, digest, bytes.len() as u64))
    }

    /// Lists an image under a name, replacing the one with that name.
    pub fn name(&mut self, name: &str, mut manifest: Descriptor) -> Result<(), LayoutError> {
        manifest.annotations = names(name);
        self.index.manifests.retain(|entry| entry.annotations.get(NAME).is_none_or(|n| n != name));
        self.index.manifests.push(manifest);
        self.index.manifests.sort_by(|a, b| a.annotations.get(NAME).cmp(&b.annotations.get(NAME)));
        let path = self.root.join("index.json");
        let text = serde_json::to_vec_pretty(&self.index)
            .map_err(|error| LayoutError::Index { path: path.clone(), reason: error.to_string() })?;
        write_whole(&path, &text)
    }

    /// Writes a catalog as an image with `files` in its folder `/configs`. The same files result in the same
    /// image.
    pub fn catalog(&mut self, name: &str, files: &Path) -> Result<Descriptor, LayoutError> {
        let layer = self.layer(|layer| pack(files, layer))?;
        // A data image runs on any platform, but the field is required.
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": {CONFIGS: "/configs"}},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff]},
        });
        let config = self.write_blob(CONFIG, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer.blob],
        });
        let manifest = self.write_blob(MANIFEST, manifest.to_string().as_bytes())?;
        self.name(name, manifest.clone())?;
        Ok(manifest)
    }

    /// Writes a layer with the files that `fill` adds.
    pub fn layer(
        &self,
        fill: impl FnOnce(&mut LayerWriter) -> Result<(), LayoutError>,
    ) -> Result<Layer, LayoutError> {
        let partial = self.root.join("blobs/sha256").join(format!("layer.partial-{}", std::process::id()));
        let write = || -> Result<Layer, LayoutError> {
            let mut writer = LayerWriter::create(&partial)?;
            fill(&mut writer)?;
            let layer = writer.finish()?;
            let target = self.path(&layer.blob.digest);
            fs::rename(&partial, &target).map_err(failed("write", &target))?;
            Ok(layer)
        };
        write().inspect_err(|_| {
            // The first error is the one to report.
            let _ = fs::remove_file(&partial);
        })
    }
}

/// The annotations that name an image in an index.
pub fn names(name: &str) -> BTreeMap<String, String> {
    [NAME, CONTAINERD_NAME].map(|key| (key.to_owned(), name.to_owned())).into()
}

/// Packs files below `configs/`.
fn pack(files: &Path, layer: &mut LayerWriter) -> Result<(), LayoutError> {
    layer.folder("configs/", 0o755)?;
    for package in sorted(files)? {
        let inside = Path::new("configs").join(package.file_name().unwrap_or_default());
        layer.folder(&inside, 0o755)?;
        for path in sorted(&package)? {
            layer.file(inside.join(path.file_name().unwrap_or_default()), 0o644, &path)?;
        }
    }
    Ok(())
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>, LayoutError> {
    let entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> =
        entries.map_err(failed("read", dir))?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Atomic: a file with the name is always complete.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), LayoutError> {
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(failed("write", path)).inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(&partial);
    })
}

pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LayoutError {
    let path = path.to_owned();
    move |source| LayoutError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(path: &Path) -> String {
        format!("sha256:{}", hex(&Sha256::digest(fs::read(path).unwrap())))
    }

    fn files() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/catalog.json"), "{\"schema\":\"olm.package\",\"name\":\"a\"}\n")
            .unwrap();
        dir
    }

    #[test]
    fn the_same_files_make_the_same_image_and_an_image_is_replaced_by_name() {
        // given a layout with a catalog
        let (root, files) = (tempfile::tempdir().unwrap(), files());
        let mut layout = Layout::open(&root.path().join("new")).unwrap();
        let first = layout.catalog("localhost/catalog:latest", files.path()).unwrap();
        // when it is written again
        let second = layout.catalog("localhost/catalog:latest", files.path()).unwrap();
        // then there is still one image, also after the layout is opened again
        assert_eq!(first.digest, second.digest);
        let again = Layout::open(&root.path().join("new")).unwrap();
        assert_eq!(again.index.manifests.len(), 1);
        assert_eq!(again.find("localhost/catalog:latest").unwrap().digest, first.digest);
        // and every blob matches its digest
        for path in sorted(&root.path().join("new/blobs/sha256")).unwrap() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(digest_of(&path), format!("sha256:{name}"));
        }
    }

    #[test]
    fn a_folder_of_something_else_is_left_alone() {
        let files = files();
        assert!(matches!(Layout::open(files.path()), Err(LayoutError::Other { .. })));
        assert!(!files.path().join("blobs").exists());
    }
}

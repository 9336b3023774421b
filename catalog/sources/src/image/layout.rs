//! Images in directories: the OCI layout (`index.json`, `blobs/sha256/…`) and the format of `docker save`.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    MOST_MANIFESTS,
    manifest::{Descriptor, Document, ImageConfig, Pinned},
};
use crate::{
    content::Content,
    digest::Digest,
    error::{Exceeded, SourceError},
    options::Limits,
    unpack::{Unpacked, decompress},
};

/// Annotations of an index's entries that name an image.
const NAMES: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];

/// A directory in the OCI layout.
#[derive(Clone)]
pub(crate) struct Layout {
    pub root: PathBuf,
}

impl Layout {
    /// Whether a directory is marked as an OCI layout.
    pub fn is_at(root: &Path) -> bool {
        root.join("oci-layout").is_file() && root.join("index.json").is_file()
    }

    /// The manifest of the image with a name or a digest, or of the only one. A multi-platform image counts
    /// as one.
    pub fn resolve(&self, reference: Option<&str>, limits: &Limits) -> Result<Pinned, SourceError> {
        let path = self.root.join("index.json");
        let what = path.display().to_string();
        let index = Pinned::new(&what, read_small(&path, limits)?, None, None)?;
        let Document::Index(entries) = index.parse()? else {
            return Err(SourceError::malformed(what, "found an image, expected an index"));
        };
        let Some(reference) = reference else {
            // Signatures are stored next to their images.
            let images: Vec<Descriptor> = entries
                .into_iter()
                .filter(|entry| !names(entry).iter().any(|name| is_signature(name)))
                .collect();
            return match &images[..] {
                [only] => self.manifest(only, limits),
                [] => Err(SourceError::malformed(what, "no images in the index")),
                several if several.iter().all(|entry| names(entry).is_empty()) => Ok(index),
                several => Err(SourceError::Reference {
                    reference: self.root.display().to_string(),
                    reason: format!("contains several images; specify one of {}", all_names(several)),
                }),
            };
        };
        let digest = reference.trim_start_matches('@').parse::<Digest>().ok();
        let found = entries.iter().find(|entry| {
            digest.as_ref() == Some(&entry.digest) || names(entry).iter().any(|name| name == reference)
        });
        match found {
            Some(entry) => self.manifest(entry, limits),
            None => Err(SourceError::NotFound {
                what: format!("{reference} in {}", self.root.display()),
                detail: format!(": available: {}", all_names(&entries)),
            }),
        }
    }

    /// The manifest with a tag, in any repository.
    pub fn tagged(&self, tag: &str, limits: &Limits) -> Result<Option<Pinned>, SourceError> {
        let path = self.root.join("index.json");
        let what = path.display().to_string();
        let index = Pinned::new(&what, read_small(&path, limits)?, None, None)?;
        let Document::Index(entries) = index.parse()? else { return Ok(None) };
        let end = format!(":{tag}");
        let found = entries.iter().find(|entry| names(entry).iter().any(|name| name.ends_with(&end)));
        found.map(|entry| self.manifest(entry, limits)).transpose()
    }

    pub fn manifest(&self, descriptor: &Descriptor, limits: &Limits) -> Result<Pinned, SourceError> {
        let path = self.path(&descriptor.digest);
        let bytes = read_small(&path, limits)?;
        let media_type = Some(descriptor.media_type.clone()).filter(|text| !text.is_empty());
        Pinned::new(&path.display().to_string(), bytes, media_type, Some(&descriptor.digest))
    }

    /// The manifests of an image, each before those that it lists, and all of its blobs.
    pub fn tree(
        &self,
        digest: &Digest,
        limits: &Limits,
    ) -> Result<(Vec<Pinned>, Vec<Descriptor>), SourceError> {
        let read = |digest: &Digest| {
            let path = self.path(digest);
            let bytes = read_small(&path, limits)?;
            Pinned::new(&path.display().to_string(), bytes, None, Some(digest))
        };
        let mut manifests = vec![read(digest)?];
        let mut blobs: Vec<Descriptor> = Vec::new();
        let mut seen = 0;
        while let Some(manifest) = manifests.get(seen) {
            seen += 1;
            if seen > MOST_MANIFESTS {
                let reason = format!("its indexes list more than {MOST_MANIFESTS} images");
                return Err(SourceError::malformed(digest, reason));
            }
            match manifest.parse()? {
                Document::Index(children) => {
                    for child in children {
                        if manifests.iter().all(|manifest| manifest.digest != child.digest) {
                            manifests.push(read(&child.digest)?);
                        }
                    }
                }
                Document::Image { config, layers } => {
                    for blob in layers.into_iter().chain([config]) {
                        if blobs.iter().all(|known| known.digest != blob.digest) {
                            blobs.push(blob);
                        }
                    }
                }
            }
        }
        Ok((manifests, blobs))
    }

    /// The file of a blob, after a check of its digest.
    pub fn blob(&self, blob: &Descriptor) -> Result<PathBuf, SourceError> {
        let path = self.path(&blob.digest);
        let what = format!("the blob {}", path.display());
        let mut file = File::open(&path).map_err(SourceError::io("open", &path))?;
        let size = file.metadata().map_err(SourceError::io("read", &path))?.len();
        if size != blob.size {
            let reason = format!("{size} bytes, expected {} as in the manifest", blob.size);
            return Err(SourceError::malformed(what, reason));
        }
        let actual = blob.digest.hasher().read_all(&mut file).map_err(SourceError::io("read", &path))?;
        if actual != blob.digest {
            let (expected, actual) = (blob.digest.to_string(), actual.to_string());
            return Err(SourceError::Digest { what, expected, actual });
        }
        Ok(path)
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.algorithm()).join(digest.hex())
    }
}

/// The names of the images in an OCI layout, without those of signatures.
/// # Errors
/// [`SourceError`]
pub fn image_names(layout: &Path, limits: &Limits) -> Result<Vec<String>, SourceError> {
    let path = layout.join("index.json");
    let what = path.display().to_string();
    let Document::Index(entries) = Pinned::new(&what, read_small(&path, limits)?, None, None)?.parse()?
    else {
        return Err(SourceError::malformed(what, "found an image, expected an index"));
    };
    // `docker save` and podman write the whole name beside the tag.
    let named = entries.iter().filter_map(|entry| names(entry).into_iter().max_by_key(String::len));
    Ok(named.filter(|name| !is_signature(name)).collect())
}

fn names(entry: &Descriptor) -> Vec<String> {
    let annotations = entry.annotations.iter().flatten();
    annotations.filter(|(key, _)| NAMES.contains(&key.as_str())).map(|(_, name)| name.clone()).collect()
}

/// Whether a name ends in a tag of cosign signatures: `sha256-….sig`, or `sha256-…` for referrers of an
/// image.
fn is_signature(name: &str) -> bool {
    let tag = name.rsplit(':').next().unwrap_or_default();
    let hex = tag.strip_prefix("sha256-").map(|rest| rest.strip_suffix(".sig").unwrap_or(rest));
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn all_names(entries: &[Descriptor]) -> String {
    let name = |entry: &Descriptor| names(entry).pop().unwrap_or_else(|| entry.digest.to_string());
    entries.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The manifest that `docker save` writes with the layers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Whether a directory is an unpacked `docker save` archive of the format before OCI layouts.
pub(crate) fn is_saved(root: &Path) -> bool {
    root.join("manifest.json").is_file()
        && fs::read(root.join("manifest.json"))
            .is_ok_and(|bytes| serde_json::from_slice::<Vec<Saved>>(&bytes).is_ok())
}

/// Unpacks the layers of an unpacked `docker save` archive into `files`. It has no digests to check; `root`
/// must contain only files and directories, as the output of the unpacker does.
pub(crate) fn read_saved(
    root: &Path,
    content: Content,
    files: &Path,
    limits: &Limits,
) -> Result<(ImageConfig, Unpacked), SourceError> {
    let path = root.join("manifest.json");
    let images: Vec<Saved> = serde_json::from_slice(&read_small(&path, limits)?)
        .map_err(|e| SourceError::malformed("manifest.json", e))?;
    let [image] = &images[..] else {
        let names: Vec<String> = images.iter().filter_map(|i| i.repo_tags.clone()).flatten().collect();
        return Err(SourceError::unsupported(
            "the archive",
            format!("contains {} images ({}); save a single image", images.len(), names.join(", ")),
        ));
    };
    let inside = |name: &str| -> Result<PathBuf, SourceError> {
        let relative = Path::new(name);
        if relative.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            return Ok(root.join(relative));
        }
        Err(SourceError::malformed("manifest.json", format!("{name:?} points outside of the archive")))
    };
    let config = ImageConfig::parse(&image.config, read_small(&inside(&image.config)?, limits)?)?;
    if content == Content::Root {
        config.check_platform("the archive")?;
    }
    let mut unpacker = content.unpacker("the archive", &config.labels, files, limits)?;
    for layer in &image.layers {
        let path = inside(layer)?;
        let file = File::open(&path).map_err(SourceError::io("open", &path))?;
        let size = file.metadata().map_err(SourceError::io("read", &path))?.len();
        let what = format!("the layer {layer}");
        unpacker.layer(&what, decompress(&what, file, size, limits)?)?;
    }
    let unpacked = unpacker.finish()?;
    content.check("the archive", &config.labels, unpacked.files)?;
    Ok((config, unpacked))
}

pub(crate) fn read_small(path: &Path, limits: &Limits) -> Result<Vec<u8>, SourceError> {
    let most = limits.manifest_bytes;
    let file = File::open(path).map_err(SourceError::io("open", path))?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(SourceError::io("read", path))?;
    if bytes.len() as u64 > most {
        return Err(Exceeded::new("it", "manifest_bytes", most).reading(path.display()));
    }
    Ok(bytes)
}

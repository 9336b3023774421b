//! Extracts files from an image, starting at its manifest.

pub(crate) mod layout;
pub(crate) mod manifest;

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
};

pub(crate) use self::manifest::Pinned;
use self::{
    layout::Layout,
    manifest::{Config, Descriptor, Document, check_layer, choose},
};
use crate::{
    content::Content,
    error::{Exceeded, SourceError},
    options::Limits,
    registry::Repository,
    stage::{Stage, blocking},
    unpack::{Unpacker, decompress},
};

/// An index may list an index; deeper nesting is not legitimate.
const DEEPEST_INDEX: usize = 3;

/// Images are built for at most a dozen platforms.
pub(crate) const MOST_MANIFESTS: usize = 1000;

pub(crate) enum ImageLocation<'a> {
    Registry(&'a Repository<'a>),
    Layout(Layout),
}

impl ImageLocation<'_> {
    pub fn name(&self) -> String {
        match self {
            Self::Registry(repository) => repository.name.clone(),
            Self::Layout(layout) => layout.root.display().to_string(),
        }
    }

    pub async fn manifest(&self, descriptor: &Descriptor, limits: &Limits) -> Result<Pinned, SourceError> {
        match self {
            Self::Registry(repository) => {
                repository.manifest(&descriptor.digest.to_string(), Some(&descriptor.digest)).await
            }
            Self::Layout(layout) => layout.manifest(descriptor, limits),
        }
    }

    /// A file with a blob's verified content.
    async fn blob(&self, blob: &Descriptor, scratch: &Path) -> Result<PathBuf, SourceError> {
        match self {
            Self::Registry(repository) => {
                let path = scratch.join(blob.digest.hex());
                repository.blob(blob, &path).await?;
                Ok(path)
            }
            Self::Layout(layout) => {
                let (layout, blob) = (layout.clone(), blob.clone());
                blocking(move || layout.blob(&blob)).await
            }
        }
    }
}

/// Fills the stage with the wanted directories of an image, and returns the image's labels.
pub(crate) async fn pull(
    place: &ImageLocation<'_>,
    mut pinned: Pinned,
    content: Content,
    stage: &Stage,
    limits: &Limits,
) -> Result<BTreeMap<String, String>, SourceError> {
    let name = place.name();
    let mut depth = 0;
    let (config, layers) = loop {
        match pinned.parse()? {
            Document::Image { config, layers } => break (config, layers),
            Document::Index(manifests) => {
                depth += 1;
                if depth > DEEPEST_INDEX {
                    let reason = format!("indexes nested more than {DEEPEST_INDEX} levels deep");
                    return Err(SourceError::malformed(&name, reason));
                }
                pinned = place.manifest(choose(&name, &manifests)?, limits).await?;
            }
        }
    };
    let total = layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.size));
    if total > limits.download_bytes {
        return Err(
            Exceeded::new("the sum of its layers", "download_bytes", limits.download_bytes).reading(name)
        );
    }
    for layer in &layers {
        check_layer(&name, layer)?;
    }
    let labels = labels(place, &config, stage, limits).await?;
    let mut unpacker = Unpacker::new(stage.files(), content.directories(&name, &labels)?, limits);
    for layer in layers {
        let path = place.blob(&layer, stage.scratch()).await?;
        let what = format!("the layer {} of {name}", layer.digest);
        let downloaded = matches!(place, ImageLocation::Registry(_));
        unpacker = stage.blocking(move || unpack(unpacker, &what, &path, downloaded)).await?;
    }
    let unpacked = stage.blocking(move || unpacker.finish()).await?;
    content.check(&name, &labels, unpacked.files)?;
    Ok(labels)
}

async fn labels(
    place: &ImageLocation<'_>,
    config: &Descriptor,
    stage: &Stage,
    limits: &Limits,
) -> Result<BTreeMap<String, String>, SourceError> {
    let what = format!("the configuration {} of {}", config.digest, place.name());
    if config.size > limits.manifest_bytes {
        return Err(Exceeded::new("it", "manifest_bytes", limits.manifest_bytes).reading(what));
    }
    let path = place.blob(config, stage.scratch()).await?;
    let bytes = std::fs::read(&path).map_err(SourceError::io("read", path))?;
    let config: Config = serde_json::from_slice(&bytes)
        .map_err(|e| SourceError::malformed(what, format!("not an image configuration: {e}")))?;
    Ok(config.labels())
}

/// Applies one layer; a downloaded one is deleted afterwards.
fn unpack(
    mut unpacker: Unpacker,
    what: &str,
    path: &Path,
    downloaded: bool,
) -> Result<Unpacker, SourceError> {
    let file = File::open(path).map_err(SourceError::io("open", path))?;
    let size = file.metadata().map_err(SourceError::io("read", path))?.len();
    unpacker.layer(what, decompress(what, file, size, unpacker.limits())?)?;
    if downloaded {
        std::fs::remove_file(path).map_err(SourceError::io("remove", path))?;
    }
    Ok(unpacker)
}

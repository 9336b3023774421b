//! Extracts files from an image, starting at its manifest.

pub(crate) mod layout;
pub(crate) mod manifest;

use std::{
    fs::File,
    path::{Path, PathBuf},
};

pub(crate) use self::manifest::Pinned;
use self::{
    layout::Layout,
    manifest::{Descriptor, Document, check_layer, choose},
};
pub use self::{layout::image_names, manifest::ImageConfig};
use crate::{
    content::Content,
    error::{Exceeded, SourceError},
    options::Limits,
    registry::Repository,
    stage::{Stage, blocking},
    unpack::{Unpacked, Unpacker, decompress},
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

/// Fills the stage with the wanted directories of an image.
pub(crate) async fn pull(
    place: &ImageLocation<'_>,
    mut pinned: Pinned,
    content: Content,
    stage: &Stage,
    limits: &Limits,
) -> Result<(ImageConfig, Unpacked), SourceError> {
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
    let config = configuration(place, &config, stage, limits).await?;
    if content == Content::Root {
        config.check_platform(&name)?;
    }
    let mut unpacker = content.unpacker(&name, &config.labels, stage.files(), limits)?;
    for layer in layers {
        let path = place.blob(&layer, stage.scratch()).await?;
        let what = format!("the layer {} of {name}", layer.digest);
        let downloaded = matches!(place, ImageLocation::Registry(_));
        unpacker = stage.blocking(move || unpack(unpacker, &what, &path, downloaded)).await?;
    }
    let unpacked = stage.blocking(move || unpacker.finish()).await?;
    content.check(&name, &config.labels, unpacked.files)?;
    Ok((config, unpacked))
}

async fn configuration(
    place: &ImageLocation<'_>,
    config: &Descriptor,
    stage: &Stage,
    limits: &Limits,
) -> Result<ImageConfig, SourceError> {
    let what = format!("the configuration {} of {}", config.digest, place.name());
    if config.size > limits.manifest_bytes {
        return Err(Exceeded::new("it", "manifest_bytes", limits.manifest_bytes).reading(what));
    }
    let path = place.blob(config, stage.scratch()).await?;
    let bytes = std::fs::read(&path).map_err(SourceError::io("read", path))?;
    ImageConfig::parse(&what, bytes)
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

//! Copying an image into a layout as it is: every platform, every blob, under its own digest.

use serde::Deserialize;

use super::{
    layout::{Descriptor, Layout},
    registry::{Reference, Registry, is_digest},
};

/// An index may list an index; more than that is a riddle.
const DEEPEST: usize = 3;
/// Real indexes list a dozen platforms, each with what signs it.
const MOST_MANIFESTS: usize = 200;
/// Build tools make at most 127 layers.
const MOST_LAYERS: usize = 512;

/// What was copied.
#[derive(Debug)]
pub struct Copied {
    /// Manifest or index of the image.
    pub manifest: Descriptor,
    /// Bytes that were downloaded: what was there already is not.
    pub bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    media_type: Option<String>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

/// Copies the blobs of an image. It is in the layout once its manifest is listed there under a name.
pub async fn copy(registry: &Registry, layout: &Layout, image: &str) -> Result<Copied, String> {
    let reference = Reference::parse(image)?;
    let mut copying = Copying { registry, layout, reference: &reference, bytes: 0, manifests: 0 };
    let manifest = copying.manifest(&reference.identifier, 0).await?;
    Ok(Copied { manifest, bytes: copying.bytes })
}

struct Copying<'a> {
    registry: &'a Registry,
    layout: &'a Layout,
    reference: &'a Reference,
    bytes: u64,
    manifests: usize,
}

impl Copying<'_> {
    async fn manifest(&mut self, identifier: &str, depth: usize) -> Result<Descriptor, String> {
        self.manifests += 1;
        if depth > DEEPEST || self.manifests > MOST_MANIFESTS {
            return Err(format!(
                "it lists more than {MOST_MANIFESTS} images, or indexes in indexes in indexes"
            ));
        }
        let (sent_as, bytes) = self.registry.manifest(self.reference, identifier).await?;
        let document: Document =
            serde_json::from_slice(&bytes).map_err(|error| format!("its manifest is none: {error}"))?;
        match &document {
            Document { manifests: Some(manifests), config: None, layers: None, .. } => {
                for child in manifests {
                    self.check(child)?;
                    Box::pin(self.manifest(&child.digest, depth + 1)).await?;
                }
            }
            Document { manifests: None, config: Some(config), layers: Some(layers), .. } => {
                if layers.len() > MOST_LAYERS {
                    return Err(format!("it has {} layers, more than {MOST_LAYERS}", layers.len()));
                }
                for blob in std::iter::once(config).chain(layers) {
                    self.blob(blob).await?;
                }
            }
            _ => return Err("its manifest is neither an index nor an image".to_owned()),
        }
        // After everything that it names: a manifest that is there is whole.
        let media_type = document.media_type.unwrap_or(sent_as);
        self.bytes += bytes.len() as u64;
        self.layout.put(&media_type, &bytes).map_err(|error| error.to_string())
    }

    /// Digests become file names.
    fn check(&self, descriptor: &Descriptor) -> Result<(), String> {
        if is_digest(&descriptor.digest) {
            return Ok(());
        }
        Err(format!("it names something by {:?}, which is not sha256: and 64 digits", descriptor.digest))
    }

    async fn blob(&mut self, blob: &Descriptor) -> Result<(), String> {
        self.check(blob)?;
        let path = self.layout.path(&blob.digest);
        // A blob gets its name when it was checked.
        if std::fs::metadata(&path).is_ok_and(|file| file.len() == blob.size) {
            return Ok(());
        }
        self.registry.blob(self.reference, &blob.digest, blob.size, &path).await?;
        self.bytes += blob.size;
        Ok(())
    }
}

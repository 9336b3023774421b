//! Pushes images of an OCI layout to a registry.

use std::path::Path;

use crate::{
    digest::Digest,
    error::SourceError,
    image::layout::Layout,
    net::Http,
    options::Options,
    reference::Reference,
    registry::{Repository, digest_of, places},
};

/// A pushed image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The image by digest, such as `registry.example/olm@sha256:…`.
    pub pinned: String,
    /// Uploaded bytes, without what the registry had.
    pub bytes: u64,
}

/// Pushes an image, with all of its platforms and with its digest unchanged, to the registry of `reference`,
/// under its tag. `digest` identifies the image in the layout. Mirrors do not apply: they are for reading.
///
/// The tag is written last, so an interrupted push changes nothing that others read; it resumes with the blobs
/// that are missing.
/// # Errors
/// [`SourceError`]; that of a registry is [`SourceError::Push`].
pub async fn push_image(
    layout: &Path,
    digest: &str,
    reference: &str,
    options: &Options,
) -> Result<Pushed, SourceError> {
    let target: Reference = reference.parse()?;
    let Some(tag) = target.tag.clone().filter(|_| target.digest.is_none()) else {
        let reason = "expected a tag, not a digest, to push to".to_owned();
        return Err(SourceError::Reference { reference: reference.to_owned(), reason });
    };
    let digest: Digest =
        digest.parse().map_err(|reason| SourceError::Reference { reference: digest.to_owned(), reason })?;
    let http = Http::new(options);
    let pushing = |error| SourceError::Push { what: target.to_string(), error: Box::new(error) };
    let repository = Repository::new(&http, &target)?.for_push();
    let layout = Layout { root: layout.to_owned() };
    let (manifests, blobs) = layout.tree(&digest, &options.limits)?;
    let mut bytes = 0;
    for blob in blobs {
        let path = layout.blob(&blob)?;
        if repository.upload(&blob, &path).await.map_err(pushing)? {
            bytes += blob.size;
        }
    }
    // Images before the index that lists them; the tag is the last.
    for manifest in manifests.iter().rev() {
        let is_root = manifest.digest == digest;
        let identifier = if is_root { tag.clone() } else { manifest.digest.to_string() };
        repository.put_manifest(&identifier, manifest).await.map_err(pushing)?;
        bytes += manifest.bytes().len() as u64;
    }
    Ok(Pushed { pinned: format!("{}@{digest}", target.name()), bytes })
}

/// The image that a reference names now, by digest.
/// # Errors
/// [`SourceError`]
pub async fn pin_image(reference: &str, options: &Options) -> Result<String, SourceError> {
    let reference: Reference = reference.parse()?;
    let digest = digest_of(&Http::new(options), &reference, &places(&reference, options)?).await?;
    Ok(format!("{}@{digest}", reference.name()))
}

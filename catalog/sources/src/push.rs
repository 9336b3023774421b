//! Pushes images of an OCI layout to a registry.

use std::path::Path;

use crate::{
    copy::MOST_MANIFESTS,
    digest::Digest,
    error::SourceError,
    image::{
        Pinned,
        layout::{Layout, read_small},
        manifest::{Descriptor, Document},
    },
    net::Http,
    options::Options,
    reference::Reference,
    registry::{Failures, Repository, places},
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
    let (manifests, blobs) = tree(&layout, &digest, options)?;
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

/// The manifests of an image, each before those that it lists, and all of its blobs.
fn tree(
    layout: &Layout,
    digest: &Digest,
    options: &Options,
) -> Result<(Vec<Pinned>, Vec<Descriptor>), SourceError> {
    let read = |digest: &Digest| {
        let path = layout.path(digest);
        let bytes = read_small(&path, &options.limits)?;
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

/// The image that a reference names now, by digest.
/// # Errors
/// [`SourceError`]
pub async fn pin_image(reference: &str, options: &Options) -> Result<String, SourceError> {
    let parsed: Reference = reference.parse()?;
    let http = Http::new(options);
    let mut failures = Failures::default();
    for place in places(&parsed, options)? {
        match digest_in(&http, &place).await {
            Ok(digest) => return Ok(format!("{}@{digest}", parsed.name())),
            Err(error) => failures.add(&place, error),
        }
    }
    Err(failures.into_error(&parsed))
}

async fn digest_in(http: &Http<'_>, place: &Reference) -> Result<Digest, SourceError> {
    let repository = Repository::new(http, place)?;
    // The manifest is read, not only its digest: a registry may not have what a tag names.
    Ok(repository.manifest(&place.identifier(), place.digest.as_ref()).await?.digest)
}

//! Discovers the signatures of an image where cosign stores them.

use std::fs;

use olm_signatures::{MOST_BYTES, MOST_SIGNATURES, Signature};
use serde::{Deserialize, Serialize};

use crate::{
    digest::Digest,
    error::SourceError,
    image::{
        ImageLocation, Pinned,
        layout::Layout,
        manifest::{Descriptor, Document},
    },
    net::Http,
    options::Options,
    reference::Reference,
    registry::{Failures, Repository, digest_of, places},
    source::Source,
};

/// Media type of a signature in the format of cosign 3.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// Prefix of the media types of all versions of the format.
const BUNDLES: &str = "application/vnd.dev.sigstore.bundle";
/// Artifact type of cosign 3 signatures in registries without a referrers API.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Media type of a signature in the format of cosign 1 and 2.
const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// Maximum size of all signatures of an image, in bytes. Real signatures have 1 to 10 KiB.
const MOST_TOGETHER: u64 = 2 << 20;

/// Discovered signatures of an image. Only digests are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundSignatures {
    /// The image by its digest, whatever its tag means now: `quay.io/org/name@sha256:…`.
    pub image: String,
    /// Its digest. A multi-platform image has the digest of its index.
    pub digest: String,
    /// Of all places, in the order of requests.
    pub signatures: Vec<Signature>,
    /// Unreadable signatures. An image that is unsigned without them may be signed with them.
    pub problems: Vec<String>,
    /// Size of the signatures, annotations included.
    #[serde(default)]
    pub bytes: u64,
}

/// Discovers the signatures of an image, in both formats and in each mirror as well as in the origin.
/// # Errors
/// [`SourceError`], when the image does not exist, or when every place failed. An image without signatures is
/// not an error.
pub async fn signatures(source: &Source, options: &Options) -> Result<FoundSignatures, SourceError> {
    match source {
        Source::Image { reference } => of_image(&reference.parse()?, options).await,
        Source::OciLayout { path, reference } => {
            let layout = Layout { root: path.clone() };
            let image = layout.resolve(reference.as_deref(), &options.limits)?;
            let roots = Roots::in_layout(&layout, &image.digest, options)?;
            let image_name = format!("{}@{}", path.display(), image.digest);
            let mut found = FoundSignatures::of(image_name, &image.digest);
            found.read(&ImageLocation::Layout(layout), roots, options).await?;
            Ok(found)
        }
        other => {
            Err(SourceError::unsupported(other, "signatures require an image in a registry or an OCI layout"))
        }
    }
}

async fn of_image(reference: &Reference, options: &Options) -> Result<FoundSignatures, SourceError> {
    let http = Http::new(options);
    let places = places(reference, options)?;
    // From here on the tag does not matter.
    let digest = digest_of(&http, reference, &places).await?;
    let mut found = FoundSignatures::of(format!("{}@{digest}", reference.name()), &digest);
    let mut failures = Failures::default();
    let mut asked = 0;
    for place in &places {
        let answer = async {
            let repository = Repository::new(&http, place)?;
            let roots = Roots::in_registry(&repository, &digest).await?;
            found.read(&ImageLocation::Registry(&repository), roots, options).await
        };
        match answer.await {
            Ok(()) => asked += 1,
            Err(error) => {
                found.problems.push(error.to_string());
                failures.add(place, error);
            }
        }
    }
    if asked == 0 { Err(failures.into_error(reference)) } else { Ok(found) }
}

/// The tag of signatures in the format of cosign 1 and 2.
pub(crate) fn simple_tag(digest: &Digest) -> String {
    format!("{}-{}.sig", digest.algorithm(), digest.hex())
}

/// The tag of the list of referrers, in registries without a referrers API.
pub(crate) fn referrers_tag(digest: &Digest) -> String {
    format!("{}-{}", digest.algorithm(), digest.hex())
}

/// Manifests that refer to the signatures of an image.
pub(crate) struct Roots {
    /// The image with the tag `sha256-….sig`.
    pub simple: Option<Pinned>,
    /// The referrers that are bundles, or may be.
    pub bundles: Vec<Descriptor>,
}

impl Roots {
    pub async fn in_registry(repository: &Repository<'_>, digest: &Digest) -> Result<Self, SourceError> {
        let simple = repository.tagged(&simple_tag(digest)).await?;
        let index = match repository.referrers(digest, BUNDLE).await? {
            Some(index) => Some(index),
            None => repository.tagged(&referrers_tag(digest)).await?,
        };
        Ok(Self { simple, bundles: bundles(index)? })
    }

    fn in_layout(layout: &Layout, digest: &Digest, options: &Options) -> Result<Self, SourceError> {
        let simple = layout.tagged(&simple_tag(digest), &options.limits)?;
        let index = layout.tagged(&referrers_tag(digest), &options.limits)?;
        Ok(Self { simple, bundles: bundles(index)? })
    }
}

/// Those with the artifact type of bundles first.
fn bundles(index: Option<Pinned>) -> Result<Vec<Descriptor>, SourceError> {
    let Some(index) = index else { return Ok(Vec::new()) };
    let Document::Index(mut entries) = index.parse()? else { return Ok(Vec::new()) };
    let is_bundle =
        |entry: &Descriptor| entry.artifact_type.as_deref().is_some_and(|of| of.starts_with(BUNDLES));
    entries.retain(|entry| is_bundle(entry) || entry.artifact_type.as_deref().is_none_or(|of| of == EMPTY));
    entries.sort_by_key(|entry| !is_bundle(entry));
    entries.truncate(MOST_SIGNATURES);
    Ok(entries)
}

impl FoundSignatures {
    fn of(image: String, digest: &Digest) -> Self {
        Self { image, digest: digest.to_string(), ..Self::default() }
    }

    /// Reads the signatures of one place. An unreadable signature is a problem, and the others are read.
    async fn read(
        &mut self,
        place: &ImageLocation<'_>,
        roots: Roots,
        options: &Options,
    ) -> Result<(), SourceError> {
        if let Some(simple) = roots.simple
            && let Document::Image { layers, .. } = simple.parse()?
        {
            for layer in layers.iter().filter(|layer| layer.media_type == SIMPLE).take(MOST_SIGNATURES) {
                let annotations = layer.annotations.clone().unwrap_or_default();
                let payload = self.small(place, layer).await;
                self.keep(payload.map(|payload| Signature::Simple { payload, annotations }));
            }
        }
        for bundle in roots.bundles {
            let layers =
                match place.manifest(&bundle, &options.limits).await.and_then(|manifest| manifest.parse()) {
                    Ok(Document::Image { layers, .. }) => layers,
                    Ok(Document::Index(_)) => continue,
                    Err(error) => {
                        self.problems.push(error.to_string());
                        continue;
                    }
                };
            // A bundle is the only layer of its manifest.
            if let Some(layer) = layers.iter().find(|layer| layer.media_type.starts_with(BUNDLES)) {
                let json = self.small(place, layer).await;
                self.keep(json.map(|json| Signature::Bundle { json }));
            }
        }
        Ok(())
    }

    /// Mirrors have the same signatures as the origin.
    fn keep(&mut self, signature: Result<Signature, SourceError>) {
        match signature {
            Ok(signature) if self.signatures.contains(&signature) => {}
            Ok(signature) => self.signatures.push(signature),
            Err(error) => self.problems.push(error.to_string()),
        }
    }

    /// The content of a blob within the size limit of a signature.
    async fn small(&mut self, place: &ImageLocation<'_>, blob: &Descriptor) -> Result<Vec<u8>, SourceError> {
        let refuse = |reason: String| {
            let what = format!("the signature {} of {}", blob.digest, place.name());
            Err(SourceError::malformed(what, reason))
        };
        if blob.size > MOST_BYTES as u64 {
            return refuse(format!("{} bytes exceed the limit of {MOST_BYTES}", blob.size));
        }
        let annotations = blob.annotations.iter().flatten().map(|(key, value)| key.len() + value.len());
        let size = blob.size + annotations.sum::<usize>() as u64;
        if self.bytes + size > MOST_TOGETHER {
            return refuse(format!("the signatures of the image exceed {MOST_TOGETHER} bytes"));
        }
        self.bytes += size;
        match place {
            ImageLocation::Registry(repository) => repository.small_blob(blob).await,
            ImageLocation::Layout(layout) => {
                let path = layout.blob(blob)?;
                fs::read(&path).map_err(SourceError::io("read", path))
            }
        }
    }
}

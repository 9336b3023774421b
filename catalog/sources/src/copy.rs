//! Copies images for air-gapped clusters.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};

use crate::{
    digest::Digest,
    error::SourceError,
    image::{
        MOST_MANIFESTS, Pinned,
        layout::{Layout, read_small},
        manifest::{Descriptor, Document},
    },
    net::Http,
    options::Options,
    reference::Reference,
    registry::{Failures, Repository, places},
    signatures::{BUNDLE, Roots, referrers_tag, simple_tag},
    source::Revision,
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The annotation that names an image in a layout.
const NAME: &str = "org.opencontainers.image.ref.name";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub revision: Revision,
    /// Downloaded bytes, without those already present.
    pub bytes: u64,
}

/// Copies an image, with all of its platforms and with its digest unchanged, into a directory in the OCI
/// layout, which is created if missing. It can be read from there as
/// [`Source::OciLayout`](crate::Source::OciLayout) by the same reference.
/// Existing blobs are not downloaded again, so an interrupted copy resumes; an image is listed in the layout
/// once it is complete. One process may copy into a layout at a time, with any number of concurrent images.
/// # Errors
/// [`SourceError`]
pub async fn copy_image(reference: &str, options: &Options, layout: &Path) -> Result<Copied, SourceError> {
    let parsed: Reference = reference.parse()?;
    let http = Http::new(options);
    let mut failures = Failures::default();
    for place in places(&parsed, options)? {
        match copy_from(&http, &place, reference, layout).await {
            Ok(copied) => return Ok(copied),
            Err(error) => failures.add(&place, error),
        }
    }
    Err(failures.into_error(&parsed))
}

async fn copy_from(
    http: &Http<'_>,
    place: &Reference,
    name: &str,
    root: &Path,
) -> Result<Copied, SourceError> {
    let repository = Repository::new(http, place)?;
    let first = repository.manifest(&place.identifier(), place.digest.as_ref()).await?;
    let (revision, entry) = (Revision::of(&first.digest), entry(name, &first)?);
    let bytes = tree(&repository, name, vec![first], root).await?;
    list(root, name, entry, http.options)?;
    Ok(Copied { revision, bytes })
}

/// Copies manifests with all that they list; returns the downloaded bytes.
async fn tree(
    repository: &Repository<'_>,
    name: &str,
    mut manifests: Vec<Pinned>,
    root: &Path,
) -> Result<u64, SourceError> {
    let layout = Layout { root: root.to_owned() };
    let (mut seen, mut bytes) = (0, 0);
    while let Some(manifest) = manifests.pop() {
        seen += 1;
        if seen > MOST_MANIFESTS {
            let reason = format!("its indexes list more than {MOST_MANIFESTS} images");
            return Err(SourceError::malformed(name, reason));
        }
        match manifest.parse()? {
            Document::Index(children) => {
                for child in children {
                    manifests
                        .push(repository.manifest(&child.digest.to_string(), Some(&child.digest)).await?);
                }
            }
            Document::Image { config, layers } => {
                for blob in layers.iter().chain([&config]) {
                    bytes += copy_blob(repository, blob, &layout).await?;
                }
            }
        }
        let path = layout.path(&manifest.digest);
        make_parent(&path)?;
        write(&path, manifest.bytes())?;
        bytes += manifest.bytes().len() as u64;
    }
    Ok(bytes)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedSignatures {
    /// Their tags in the layout.
    pub tags: Vec<String>,
    /// Downloaded bytes.
    pub bytes: u64,
}

/// Copies the signatures of a copied image, by its digest, in both formats. They are stored in the layout
/// under the name of the image with the tags `sha256-….sig` and `sha256-…`, as in a registry without the
/// referrers API.
/// # Errors
/// [`SourceError`]. An image without signatures is not an error.
pub async fn copy_signatures(
    reference: &str,
    digest: &str,
    options: &Options,
    layout: &Path,
) -> Result<CopiedSignatures, SourceError> {
    let parsed: Reference = reference.parse()?;
    let digest: Digest =
        digest.parse().map_err(|reason| SourceError::Reference { reference: digest.to_owned(), reason })?;
    let http = Http::new(options);
    let mut copied = CopiedSignatures::default();
    let mut failures = Failures::default();
    for place in places(&parsed, options)? {
        match signatures_from(&http, &place, &digest, layout, &mut copied).await {
            Ok(()) if copied.tags.is_empty() => {}
            Ok(()) => return Ok(copied),
            Err(error) => failures.add(&place, error),
        }
    }
    if failures.is_empty() { Ok(copied) } else { Err(failures.into_error(&parsed)) }
}

async fn signatures_from(
    http: &Http<'_>,
    place: &Reference,
    digest: &Digest,
    root: &Path,
    copied: &mut CopiedSignatures,
) -> Result<(), SourceError> {
    let repository = Repository::new(http, place)?;
    let roots = Roots::in_registry(&repository, digest).await?;
    let mut keep = async |tag: String, manifests: Vec<Pinned>, index: Pinned| {
        let name = format!("{}:{tag}", place.name());
        let entry = entry(&name, &index)?;
        copied.bytes += tree(&repository, &name, manifests, root).await?;
        let path = Layout { root: root.to_owned() }.path(&index.digest);
        make_parent(&path)?;
        write(&path, index.bytes())?;
        list(root, &name, entry, http.options)?;
        copied.tags.push(tag);
        Ok::<(), SourceError>(())
    };
    if let Some(simple) = roots.simple {
        let again = simple.clone();
        keep(simple_tag(digest), vec![simple], again).await?;
    }
    let bundles = roots.bundles;
    if !bundles.is_empty() {
        let mut manifests = Vec::new();
        for bundle in &bundles {
            manifests.push(repository.manifest(&bundle.digest.to_string(), Some(&bundle.digest)).await?);
        }
        let list: Vec<Value> = manifests
            .iter()
            .map(|manifest| {
                Ok(json!({
                    "mediaType": manifest.media_type()?,
                    "digest": manifest.digest.to_string(),
                    "size": manifest.bytes().len(),
                    "artifactType": BUNDLE,
                }))
            })
            .collect::<Result<_, SourceError>>()?;
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": list }).to_string();
        let index = Pinned::new("the index of signatures", index.into_bytes(), None, None)?;
        keep(referrers_tag(digest), manifests, index).await?;
    }
    Ok(())
}

async fn copy_blob(
    repository: &Repository<'_>,
    blob: &Descriptor,
    layout: &Layout,
) -> Result<u64, SourceError> {
    // An intact existing blob is not downloaded again.
    if layout.blob(blob).is_ok() {
        return Ok(0);
    }
    let path = layout.path(&blob.digest);
    make_parent(&path)?;
    // Another copy may be downloading the same blob.
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let part = Part(path.with_extension(format!("part-{}", PARTS.fetch_add(1, Ordering::Relaxed))));
    repository.blob(blob, &part.0).await?;
    fs::rename(&part.0, &path).map_err(SourceError::io("create", &path))?;
    Ok(blob.size)
}

/// A blob in transfer, deleted when its copy fails or is cancelled.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

fn make_parent(path: &Path) -> Result<(), SourceError> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(SourceError::io("create", parent)),
        None => Ok(()),
    }
}

fn entry(name: &str, manifest: &Pinned) -> Result<Value, SourceError> {
    Ok(json!({
        "mediaType": manifest.media_type()?,
        "digest": manifest.digest.to_string(),
        "size": manifest.bytes().len(),
        "annotations": { NAME: name },
    }))
}

/// Adds an image to `index.json`, in place of an older one of the same name; serialized.
fn list(root: &Path, name: &str, entry: Value, options: &Options) -> Result<(), SourceError> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = root.join("index.json");
    let mut index = match path.exists() {
        true => serde_json::from_slice(&read_small(&path, &options.limits)?)
            .map_err(|e| SourceError::malformed(path.display(), e))?,
        false => json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [],
        }),
    };
    let Some(manifests) = index.get_mut("manifests").and_then(Value::as_array_mut) else {
        return Err(SourceError::malformed(path.display(), "no list of manifests"));
    };
    manifests.retain(|other| other["annotations"][NAME] != name);
    manifests.push(entry);
    // In an order independent of download times.
    manifests.sort_by(|a, b| a["annotations"][NAME].as_str().cmp(&b["annotations"][NAME].as_str()));
    write(&root.join("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}")?;
    write(&path, index.to_string().as_bytes())
}

/// Writes a file atomically.
fn write(path: &Path, bytes: &[u8]) -> Result<(), SourceError> {
    let part = path.with_extension("part");
    fs::write(&part, bytes).map_err(SourceError::io("write", &part))?;
    fs::rename(&part, path).map_err(SourceError::io("create", path))
}

//! Copying images for places without a network.

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
    source::Revision,
};

/// The annotation that names an image in a layout.
const NAME: &str = "org.opencontainers.image.ref.name";

/// Images are made for a dozen platforms.
const MOST_MANIFESTS: usize = 1000;

/// An image that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its digest.
    pub revision: Revision,
    /// How much was downloaded: what was there already was not.
    pub bytes: u64,
}

/// Copies an image, with all of its platforms and with its digest unchanged, into a folder in the OCI layout,
/// which is made where it is missing. It can be read from there as
/// [`Source::OciLayout`](crate::Source::OciLayout) by the same reference.
///
/// What is there already is not downloaded again, so a copy that was cut off goes on where it stopped; an
/// image is listed in the layout once it is whole. One process may copy into a layout at a time, as many images
/// at once as it likes.
///
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
    let layout = Layout { root: root.to_owned() };
    let first = repository.manifest(&place.identifier(), place.digest.as_ref()).await?;
    let (revision, entry) = (Revision::of(&first.digest), entry(name, &first)?);
    let mut manifests = vec![first];
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
                    bytes += copy_blob(&repository, blob, &layout).await?;
                }
            }
        }
        let path = layout.path(&manifest.digest);
        make_parent(&path)?;
        write(&path, manifest.bytes())?;
        bytes += manifest.bytes().len() as u64;
    }
    list(root, name, entry, http.options)?;
    Ok(Copied { revision, bytes })
}

async fn copy_blob(
    repository: &Repository<'_>,
    blob: &Descriptor,
    layout: &Layout,
) -> Result<u64, SourceError> {
    // What is there and right need not come again.
    if layout.blob(blob).is_ok() {
        return Ok(0);
    }
    let path = layout.path(&blob.digest);
    make_parent(&path)?;
    // Another copy may be fetching the same blob.
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let part = Part(path.with_extension(format!("part-{}", PARTS.fetch_add(1, Ordering::Relaxed))));
    repository.blob(blob, &part.0).await?;
    fs::rename(&part.0, &path).map_err(SourceError::io("create", &path))?;
    Ok(blob.size)
}

/// A blob that is on its way. It goes when its copy fails or is given up.
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

/// Puts an image into `index.json`, in place of an older one of the same name; one after the other.
fn list(root: &Path, name: &str, entry: Value, options: &Options) -> Result<(), SourceError> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = root.join("index.json");
    let mut index = match path.exists() {
        true => serde_json::from_slice(&read_small(&path, &options.limits)?)
            .map_err(|e| SourceError::malformed(path.display(), e))?,
        false => json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [],
        }),
    };
    let Some(manifests) = index.get_mut("manifests").and_then(Value::as_array_mut) else {
        return Err(SourceError::malformed(path.display(), "it has no list of manifests"));
    };
    manifests.retain(|other| other["annotations"][NAME] != name);
    manifests.push(entry);
    // In an order that does not depend on which download was the quickest.
    manifests.sort_by(|a, b| a["annotations"][NAME].as_str().cmp(&b["annotations"][NAME].as_str()));
    write(&root.join("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}")?;
    write(&path, index.to_string().as_bytes())
}

/// Writes a file in one step.
fn write(path: &Path, bytes: &[u8]) -> Result<(), SourceError> {
    let part = path.with_extension("part");
    fs::write(&part, bytes).map_err(SourceError::io("write", &part))?;
    fs::rename(&part, path).map_err(SourceError::io("create", path))
}

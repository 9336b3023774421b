//! `olm catalog mirror`.

mod select;
mod sets;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::StreamExt as _;
use olm_catalog::{Catalog, Filter};
use olm_catalog_sources::{Options, Source, copy_image, copy_signatures};
use select::Selection;
use serde::Serialize;
use serde_json::Value;

use crate::{
    args::{Images, MirrorArgs},
    bars::Transfers,
    exit::{Code, Failure},
    oci::{self, Layout},
    output::{Report, Stream, count},
    prose::printable,
    source::{Named, options},
};

/// Number of concurrent copies.
const COPIES: usize = 3;

/// Name of the catalog in the layout when its source has no image name.
const NAME: &str = "localhost/catalog:latest";

/// The role of an image; a bundle's image may also be an operator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Catalog,
    /// A bundle, read at every install.
    Bundle,
    /// An image that operators run.
    Related,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    image: String,
    kind: Kind,
    /// Packages that require the image.
    packages: Vec<String>,
    /// Digest of the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// Tags of its signatures in the layout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Mirrored<'a> {
    layout: String,
    catalog: &'a str,
    digest: &'a str,
    packages: Vec<&'a str>,
    copied: usize,
    /// Number of copied images with a signature.
    signed: usize,
    bytes: u64,
    images: &'a [Image],
}

pub async fn run(args: MirrorArgs) -> Result<(), Failure> {
    let catalog = super::load(&args.source, &args.registry, None).await?;
    let selection = Selection::of(&catalog, &args.packages, &args.channels)?;
    for note in &selection.notes {
        eprintln!("note: {}", printable(note));
    }
    let mut layout = Layout::open(&args.to).map_err(refused)?;
    let files = tempfile::Builder::new().prefix("olm-mirror-").tempdir()?;
    write(&catalog, &selection, files.path())?;
    let name = match Named::parse(&args.source)? {
        Named::Source(Source::Image { reference }) => reference,
        Named::Source(Source::OciLayout { reference: Some(reference), .. }) => reference,
        _ => NAME.to_owned(),
    };
    let manifest = layout.catalog(&name, files.path()).map_err(refused)?;
    let mut images = images(&selection);
    let mut bytes = 0;
    if args.images == Images::Copy {
        bytes = copy(&args, &mut images).await?;
    }
    images.insert(
        0,
        Image {
            image: name.clone(),
            kind: Kind::Catalog,
            packages: selection.packages.keys().cloned().collect(),
            digest: Some(manifest.digest.clone()),
            signatures: Vec::new(),
            error: None,
        },
    );
    if let Some(registry) = &args.mapping {
        let path = args.to.join("mirror-sets.yaml");
        let text = sets::write(registry, images.iter().map(|image| image.image.as_str()))?;
        oci::write_whole(&path, text.as_bytes()).map_err(refused)?;
    }
    let mirrored = Mirrored {
        layout: args.to.display().to_string(),
        catalog: &name,
        digest: &manifest.digest,
        packages: selection.packages.keys().map(String::as_str).collect(),
        copied: images.iter().filter(|image| image.kind != Kind::Catalog && image.digest.is_some()).count(),
        signed: images.iter().filter(|image| !image.signatures.is_empty()).count(),
        bytes,
        images: &images,
    };
    print(&mirrored, &args)
}

fn print(mirrored: &Mirrored<'_>, args: &MirrorArgs) -> Result<(), Failure> {
    if args.output == Report::Text {
        let mut out = Stream::new();
        for image in mirrored.images {
            out.line(&printable(&image.image))?;
        }
        out.end()?;
    } else {
        args.output.print(mirrored, String::new)?;
    }
    let layout = printable(&mirrored.layout);
    eprintln!(
        "{layout}: {}, {} listed, {} copied ({} signed), {:.1} MB downloaded",
        count(mirrored.packages.len(), "package"),
        count(mirrored.images.len(), "image"),
        mirrored.copied,
        mirrored.signed,
        mirrored.bytes as f64 / 1e6,
    );
    if args.mapping.is_some() {
        eprintln!("wrote {layout}/mirror-sets.yaml, the mirror configuration for a cluster");
    }
    let failed: Vec<&Image> = mirrored.images.iter().filter(|image| image.error.is_some()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    for image in &failed {
        let error = image.error.as_deref().unwrap_or_default();
        eprintln!("error: {}: {}", printable(&image.image), printable(error));
    }
    Err(Failure::new(Code::Unexpected, format!("failed to copy {}", count(failed.len(), "image")))
        .hint("run the command again to copy the missing images, or list all images with --images=list"))
}

/// Writes one file per package, with one document per line.
fn write(catalog: &Catalog, selection: &Selection, to: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::new(Code::Unexpected, format!("failed to write {}: {error}", path.display()))
    };
    // Documents outside of packages have the empty name, which no package can have.
    for package in selection.packages.keys().map(String::as_str).chain([""]) {
        let mut text = Vec::new();
        let filter = Filter { package: Some(package.to_owned()), ..Filter::default() };
        for document in catalog.documents(&filter) {
            let document = document.map_err(|error| Failure::new(Code::Unexpected, error.to_string()))?;
            let mut value: Value = serde_json::from_slice(&document).map_err(anyhow::Error::from)?;
            if selection.keeps(package, &mut value) {
                text.extend(value.to_string().into_bytes());
                text.push(b'\n');
            }
        }
        if text.is_empty() {
            continue;
        }
        let folder = to.join(if package.is_empty() { "_" } else { package });
        let path = folder.join("catalog.json");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// Each image once, bundles first.
fn images(selection: &Selection) -> Vec<Image> {
    let mut found: BTreeMap<&str, (Kind, Vec<String>)> = BTreeMap::new();
    let mut note = |image, kind, package: &String| {
        let (known, packages) = found.entry(image).or_insert((kind, Vec::new()));
        *known = kind.min(*known);
        if !packages.contains(package) {
            packages.push(package.clone());
        }
    };
    for (name, chosen) in &selection.packages {
        for bundle in chosen.bundles() {
            if let Some(image) = bundle.image.as_deref().filter(|image| !image.is_empty()) {
                note(image, Kind::Bundle, name);
            }
            for related in bundle.related_images.iter().filter(|related| !related.image.is_empty()) {
                note(&related.image, Kind::Related, name);
            }
        }
    }
    let mut images: Vec<Image> = found
        .into_iter()
        .map(|(image, (kind, packages))| Image {
            image: image.to_owned(),
            kind,
            packages,
            digest: None,
            signatures: Vec::new(),
            error: None,
        })
        .collect();
    images.sort_by(|a, b| (a.kind, &a.image).cmp(&(b.kind, &b.image)));
    images
}

/// Copies every image with its signatures; a failure is recorded with its cause and does not stop the others.
async fn copy(args: &MirrorArgs, images: &mut [Image]) -> Result<u64, Failure> {
    let transfers = Transfers::new();
    let options = Options { observer: transfers.observer(), ..options(&args.registry)? };
    let (all, done) = (count(images.len(), "image"), AtomicUsize::new(0));
    transfers.describe(format!("0 of {all}"));
    let jobs = images.iter_mut().map(|image| async {
        let result = copy_image(&image.image, &options, &args.to).await;
        let bytes = match result {
            Ok(copied) => {
                let digest = copied.revision.digest;
                let mut bytes = copied.bytes;
                match copy_signatures(&image.image, &digest, &options, &args.to).await {
                    Ok(signatures) => {
                        bytes += signatures.bytes;
                        image.signatures = signatures.tags;
                    }
                    Err(error) => image.error = Some(format!("failed to copy its signatures: {error}")),
                }
                transfers.print(&format!("copied {} ({bytes} new bytes)", printable(&image.image)));
                image.digest = Some(digest);
                bytes
            }
            // Failures are reported at the end, where they are visible.
            Err(error) => {
                image.error = Some(error.to_string());
                0
            }
        };
        transfers.describe(format!("{} of {all}", done.fetch_add(1, Ordering::Relaxed) + 1));
        bytes
    });
    let copied: Vec<u64> = futures::stream::iter(jobs).buffer_unordered(COPIES).collect().await;
    Ok(copied.into_iter().sum())
}

fn refused(error: oci::LayoutError) -> Failure {
    let code = match error {
        oci::LayoutError::Other { .. } => Code::Usage,
        _ => Code::Unexpected,
    };
    Failure::new(code, error.to_string())
}

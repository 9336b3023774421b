//! `olm self image`: the product's images, from programs at hand.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use olm_catalog_sources::{Options, push_image};
use serde::Serialize;

use super::registry::Registry;
use crate::{
    args::{ImageContentArgs, SelfImageArgs},
    bars::{Bar, print_above},
    exit::{Code, Failure},
    oci::{self, EPOCH, ImageError, Layout, LayoutError},
    output::{Listing, count},
    product::{self, program_path},
    source::{failure, options},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    /// Name and tag; in the registry after a push.
    image: String,
    /// Of the manifest, or of the index of several platforms.
    digest: String,
    platforms: Vec<String>,
    /// Compressed size of the layers.
    bytes: u64,
    /// Loader and shared libraries that were added.
    libraries: Vec<String>,
}

pub(super) async fn run(args: SelfImageArgs) -> Result<(), Failure> {
    // Invalid flags are reported before the images are built.
    let target = args.push.as_deref().map(Registry::parse).transpose()?;
    let access = options(&args.registry)?;
    let built = build(&args.content, args.layout.as_deref())?;
    if let Some(layout) = &args.layout {
        eprintln!("wrote {} to {}", count(built.images.len(), "image"), layout.display());
    }
    if let Some(file) = &args.archive {
        oci::archive(&built.layout, &built.images, file).map_err(refused)?;
        eprintln!("wrote {} to {}", count(built.images.len(), "image"), file.display());
    }
    if let Some(registry) = &target {
        built.push(registry, &access).await?;
    }
    let mut shown = Vec::new();
    for image in &built.images {
        shown.extend(image.names.iter().map(|name| Shown {
            image: target.as_ref().map_or_else(|| name.clone(), |registry| registry.image(name)),
            digest: image.manifest.digest.clone(),
            platforms: image.platforms.iter().map(|p| format!("linux/{}", p.architecture)).collect(),
            bytes: image.size(),
            libraries: libraries(image),
        }));
    }
    Listing {
        items: &shown,
        columns: &[
            ("IMAGE", |s| s.image.clone()),
            ("PLATFORMS", |s| s.platforms.join(",")),
            ("SIZE", |s| format!("{:.1} MB", s.bytes as f64 / 1e6)),
            ("DIGEST", |s| s.digest.clone()),
        ],
        wide: &[],
        name: |s| s.image.clone(),
        empty: "no images",
    }
    .print(&args.out)
}

/// The product's images in a layout.
pub(super) struct Built {
    layout: Layout,
    root: PathBuf,
    pub images: Vec<oci::Image>,
    /// The layout, where it is needed only by this process.
    _folder: Option<tempfile::TempDir>,
}

/// Writes the product's images into a layout: the given one, or a temporary one.
pub(super) fn build(content: &ImageContentArgs, layout: Option<&Path>) -> Result<Built, Failure> {
    let certificates = oci::certificates(content.certificates.as_deref()).map_err(unmade)?;
    let created = created(env::var("SOURCE_DATE_EPOCH").ok().as_deref())?;
    let own = env::current_exe()?;
    let products = product::images();
    let files = products.iter().map(|image| binaries(image.program, &content.binary, &own));
    let files: Vec<Vec<PathBuf>> = files.collect::<Result<_, _>>()?;
    let (root, folder) = match layout {
        Some(layout) => (layout.to_owned(), None),
        None => {
            let folder = tempfile::Builder::new().prefix("olm-image-").tempdir()?;
            (folder.path().to_owned(), Some(folder))
        }
    };
    let mut layout = Layout::open(&root).map_err(refused)?;
    let mut images = Vec::new();
    let bar = Bar::of_items();
    for (product, files) in products.iter().zip(&files) {
        let program = oci::Program {
            files,
            sboms: content.sbom.as_deref(),
            created: &created,
            ..product.program_image()
        };
        if let Some(bar) = &bar {
            bar.show(
                images.len() as u64,
                products.len() as u64,
                format!("images, building {}", product.program),
            );
        }
        let image = layout.program(&program, &certificates).map_err(unmade)?;
        let added = libraries(&image);
        if !added.is_empty() {
            let note = format!(
                "note: {} is linked dynamically: added its loader and libraries of this machine ({})",
                product.program,
                count(added.len(), "file")
            );
            print_above(bar.as_ref(), &note);
        }
        images.push(image);
    }
    Ok(Built { layout, root, images, _folder: folder })
}

impl Built {
    /// Pushes the images; returns their names in the registry, by digest, by their local names.
    pub(super) async fn push(
        &self,
        registry: &Registry,
        access: &Options,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let mut pinned = BTreeMap::new();
        for image in &self.images {
            for name in &image.names {
                let target = registry.image(name);
                let pushed = push_image(&self.root, &image.manifest.digest, &target, access)
                    .await
                    .map_err(|error| failure(&error))?;
                eprintln!("pushed {target} ({:.1} MB uploaded)", pushed.bytes as f64 / 1e6);
                pinned.insert(name.clone(), pushed.pinned);
            }
        }
        Ok(pinned)
    }
}

fn libraries(image: &oci::Image) -> Vec<String> {
    let mut all: Vec<String> = image.platforms.iter().flat_map(|p| p.libraries.clone()).collect();
    all.sort();
    all.dedup();
    all
}

/// The executables of a program: those that were chosen, or the one of this installation.
fn binaries(name: &str, chosen: &[(String, PathBuf)], own: &Path) -> Result<Vec<PathBuf>, Failure> {
    let chosen: Vec<PathBuf> =
        chosen.iter().filter(|(of, _)| of == name).map(|(_, path)| path.clone()).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let default = program_path(name, own);
    if default.is_file() {
        return Ok(vec![default]);
    }
    let folder = default.parent().unwrap_or(Path::new("/"));
    Err(Failure::new(Code::NotFound, format!("{name} not found in {}", folder.display()))
        .hint(format!("build it with `make build`, or pass --binary {name}=PATH")))
}

/// The time of images, RFC 3339.
fn created(epoch: Option<&str>) -> Result<String, Failure> {
    let Some(text) = epoch.filter(|text| !text.is_empty()) else { return Ok(EPOCH.to_owned()) };
    let time = text.parse().ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map(|time| time.to_string()).ok_or_else(|| {
        Failure::new(
            Code::Usage,
            format!("SOURCE_DATE_EPOCH: {text:?} is not a valid time, expected seconds since 1970"),
        )
    })
}

fn refused(error: LayoutError) -> Failure {
    unmade(error.into())
}

fn unmade(error: ImageError) -> Failure {
    let code = match &error {
        ImageError::Layout(LayoutError::Other { .. })
        | ImageError::Program { .. }
        | ImageError::Sbom { .. }
        | ImageError::BadCertificates { .. }
        | ImageError::Twice { .. } => Code::Usage,
        ImageError::Libraries { .. } => Code::Refused,
        ImageError::NoCertificates => Code::NotFound,
        ImageError::Layout(_) => Code::Unexpected,
    };
    let failure = Failure::new(code, error.to_string());
    match error {
        ImageError::Program { .. } => {
            failure.hint("pass a Linux program for amd64 or arm64 with --binary NAME=PATH")
        }
        ImageError::Twice { .. } => failure.hint("pass --binary once for each architecture"),
        ImageError::BadCertificates { .. } => {
            failure.hint("pass certificate authorities in PEM format with --certificates FILE")
        }
        ImageError::Libraries { .. } => failure
            .hint("pass a static program with --binary, such as one of `cargo zigbuild --target x86_64-unknown-linux-musl`")
            .hint("or run `olm self image` on the machine that built it"),
        ImageError::NoCertificates => {
            failure.hint("install ca-certificates, or pass --certificates FILE")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_fixed_or_that_of_the_source() {
        assert_eq!(created(None).unwrap(), EPOCH);
        assert_eq!(created(Some("1767225600")).unwrap(), "2026-01-01T00:00:00Z");
        assert!(created(Some("today")).unwrap_err().message.starts_with("SOURCE_DATE_EPOCH: \"today\""));
    }

    #[test]
    fn programs_are_those_of_the_installation_unless_they_are_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("olm");
        std::fs::write(&own, "").unwrap();
        assert_eq!(binaries("olm", &[], &own).unwrap(), std::slice::from_ref(&own));
        let missing = binaries("etcd-operator", &[], &own).unwrap_err();
        assert_eq!(missing.message, format!("etcd-operator not found in {}", folder.path().display()));
        let chosen = [("etcd-operator".to_owned(), PathBuf::from("a")), ("olm".to_owned(), "b".into())];
        assert_eq!(binaries("etcd-operator", &chosen, &own).unwrap(), [PathBuf::from("a")]);
    }
}

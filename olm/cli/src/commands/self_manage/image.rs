//! `olm self image`: the product's images, from programs at hand.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use olm_catalog_sources::{Options, push_image};
use olm_ops::manifests::VERSION;
use serde::Serialize;

use super::registry::Registry;
use crate::{
    args::{ImageContentArgs, PROGRAMS, SelfImageArgs},
    exit::{Code, Failure},
    oci::{self, ImageError, Layout, LayoutError},
    output::{Listing, count},
    source::{failure, options},
};

/// The time of images without `SOURCE_DATE_EPOCH`. With the time of the build, the same files would give
/// another digest.
const EPOCH: &str = "1970-01-01T00:00:00Z";

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
    let mut files = BTreeMap::new();
    for name in PROGRAMS {
        files.insert(name, binaries(name, &content.binary, &own)?);
    }
    let (root, folder) = match layout {
        Some(layout) => (layout.to_owned(), None),
        None => {
            let folder = tempfile::Builder::new().prefix("olm-image-").tempdir()?;
            (folder.path().to_owned(), Some(folder))
        }
    };
    let mut layout = Layout::open(&root).map_err(refused)?;
    let mut images = Vec::new();
    for (name, names) in names() {
        let tags = names.iter().filter_map(|name| name.rsplit_once(':'));
        let program = oci::Program {
            name,
            // The newest of the versions that the program is.
            version: tags.map(|(_, tag)| tag).next_back().unwrap_or(VERSION),
            description: match name {
                "olm" => "Installs, upgrades, explains and removes operators from catalogs",
                _ => "Operator of etcd clusters, their backups and restores",
            },
            files: &files[name],
            sboms: content.sbom.as_deref(),
            names: &names,
            created: &created,
        };
        let image = layout.program(&program, &certificates).map_err(unmade)?;
        let added = libraries(&image);
        if !added.is_empty() {
            eprintln!(
                "note: {name} is linked dynamically: added its loader and libraries of this machine ({})",
                count(added.len(), "file")
            );
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

/// The images of the product by their program, with their local names, the oldest tag first. The shipped
/// catalog names those of the etcd operator.
pub(super) fn names() -> [(&'static str, Vec<String>); 2] {
    let own = olm_ops::manifests::ManifestOptions::default().image;
    [("olm", vec![own]), ("etcd-operator", olm_catalog::shipped_images())]
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
    let default = if name == "olm" { own.to_owned() } else { own.with_file_name(name) };
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
    fn the_images_are_those_that_an_installation_and_the_shipped_catalog_name() {
        let [(_, olm), (_, etcd)] = names();
        assert_eq!(olm, [format!("localhost/olm/olm:{VERSION}")]);
        assert_eq!(
            etcd,
            ["0.10.0", "0.10.1", "0.11.0"].map(|tag| format!("localhost/olm/etcd-operator:{tag}"))
        );
    }

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

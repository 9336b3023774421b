//! `olm dev images`: images of programs of this machine, and the images in the store of the dev cluster.

use std::path::{Path, PathBuf};

use olm_catalog_sources::{Fetched, Options, Source, full_name, image_names, unpack_archive, unpack_image};
use olm_devcluster::node::{ImageStore, StoredImage, UnpackedImage};
use serde::Serialize;

use super::{MachineImages, registries::limits};
use crate::{
    args::{ImagesArgs, ImagesCommand, ImagesDirArgs, OutputArgs},
    context,
    exit::{Code, Failure},
    output::{Listing, count},
    source::{blocking, failure},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    image: String,
    /// Digest of an image in the store. That of a program of this machine is made at its first use.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// Bytes of its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Path of the program on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    description: String,
}

pub(super) async fn run(args: ImagesArgs) -> Result<(), Failure> {
    match args.command {
        None => list(&store(&args.content), &args.out),
        Some(ImagesCommand::Load { path, name, content }) => load(&store(&content), &path, name).await,
    }
}

fn store(args: &ImagesDirArgs) -> ImageStore {
    let data = args.data_dir.clone().unwrap_or_else(context::default_data_dir);
    ImageStore::new(data.join("images"))
}

fn list(store: &ImageStore, out: &OutputArgs) -> Result<(), Failure> {
    let stored = store.list();
    let machine = MachineImages::of_this_installation();
    let mut shown: Vec<Shown> = Vec::new();
    for image in machine.list() {
        let made = stored.iter().find(|stored| stored.references.iter().any(|name| image.has_name(name)));
        shown.push(Shown {
            program: image.programs.first().map(|(_, path)| path.display().to_string()),
            digest: made.map(|made| made.digest.clone()),
            bytes: made.map(|made| made.bytes),
            image: image.name,
            description: image.description,
        });
    }
    for image in stored {
        let is_other = |name: &&String| machine.find(name).is_none();
        let names: Vec<&str> = image.references.iter().filter(is_other).map(String::as_str).collect();
        let image_name = match (names.is_empty(), image.references.is_empty()) {
            (false, _) => names.join(", "),
            // Its names were moved to other images.
            (true, true) => image.id(),
            (true, false) => continue,
        };
        shown.push(Shown {
            image: image_name,
            description: "pulled or loaded".to_string(),
            bytes: Some(image.bytes),
            digest: Some(image.digest),
            program: None,
        });
    }
    Listing {
        items: &shown,
        columns: &[
            ("IMAGE", |s| s.image.clone()),
            ("DIGEST", |s| s.digest.iter().flat_map(|digest| digest.chars().take(19)).collect()),
            ("SIZE", |s| s.bytes.map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6)).unwrap_or_default()),
            ("PROGRAM", |s| s.program.clone().unwrap_or_default()),
            ("DESCRIPTION", |s| s.description.clone()),
        ],
        wide: &[],
        name: |s| s.image.clone(),
        empty: "No images.",
    }
    .print(out)
}

/// Loads all images of a file, or its only one under the given name.
async fn load(store: &ImageStore, path: &Path, name: Option<String>) -> Result<(), Failure> {
    let options = Options { limits: limits(), ..Options::default() };
    let failed = |error: std::io::Error| {
        Failure::new(Code::Unexpected, format!("failed to load {}: {error}", path.display()))
    };
    let file = ImageFile::open(path, &options).await?;
    let images = file.images(path, name)?;
    for (name, source) in &images {
        let place = store.prepare().map_err(failed)?;
        let fetched = unpack_image(source, &options, &place.root()).await.map_err(|error| failure(&error))?;
        let Fetched::New { revision, image, bytes, .. } = fetched else { continue };
        let unpacked = UnpackedImage { digest: revision.digest, config: image.document, bytes };
        let stored: StoredImage = place.publish(name, unpacked).map_err(failed)?;
        println!("{}", stored.id());
    }
    eprintln!("loaded {}; pods run them without a registry", count(images.len(), "image"));
    Ok(())
}

/// The images of a file.
struct ImageFile {
    /// In the OCI layout, unless it is an older `docker save`.
    layout: Option<PathBuf>,
    /// Names with a repository or a tag; a tag alone is not a name.
    names: Vec<String>,
    _folder: Option<tempfile::TempDir>,
}

impl ImageFile {
    /// Reads the names. An archive is unpacked once for all its images.
    async fn open(path: &Path, options: &Options) -> Result<Self, Failure> {
        let (folder, layout) = if path.is_dir() {
            (None, path.to_owned())
        } else {
            let folder = tempfile::Builder::new().prefix("olm-images-").tempdir()?;
            let layout = folder.path().join("layout");
            std::fs::create_dir(&layout)?;
            let (archive, to, limits) = (path.to_owned(), layout.clone(), options.limits.clone());
            let unpacked = blocking(move || unpack_archive(&archive, &to, &limits));
            unpacked.await?.map_err(|error| failure(&error))?;
            (Some(folder), layout)
        };
        let layout = Some(layout).filter(|layout| path.is_dir() || layout.join("index.json").is_file());
        let mut names = match &layout {
            Some(layout) => image_names(layout, &options.limits).map_err(|error| failure(&error))?,
            None => Vec::new(),
        };
        names.retain(|name| name.contains(['/', ':']));
        Ok(Self { layout, names, _folder: folder })
    }

    /// The images to load with their names: all, or the only one under the given name.
    fn images(&self, path: &Path, name: Option<String>) -> Result<Vec<(String, Source)>, Failure> {
        let source = |reference: Option<&String>| match &self.layout {
            Some(layout) => Source::OciLayout { path: layout.clone(), reference: reference.cloned() },
            None => Source::Tarball { path: path.to_owned() },
        };
        let usage = |text: String, hint: String| Err(Failure::new(Code::Usage, text).hint(hint));
        let images: Vec<(String, Source)> = match (name, &self.names[..]) {
            (Some(name), [] | [_]) => vec![(name, source(self.names.first()))],
            (None, []) => {
                let text = format!("the image in {} has no name", path.display());
                return usage(text, "set one with --name".to_string());
            }
            (Some(_), several) => {
                let hint = format!("without it, these are loaded: {}", several.join(", "));
                return usage("--name: the file contains several images, expected one".to_string(), hint);
            }
            (None, names) => names.iter().map(|name| (name.clone(), source(Some(name)))).collect(),
        };
        let full = |(name, source): (String, Source)| match full_name(&name) {
            Ok(full) => Ok((full, source)),
            Err(error) => Err(failure(&error).hint("set one with --name if the file contains one image")),
        };
        images.into_iter().map(full).collect()
    }
}

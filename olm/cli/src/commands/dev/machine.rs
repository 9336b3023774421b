//! Images that are made of programs of this machine: those of the product, and the installed etcds.
//!
//! They have the files and the configuration that `olm self image` gives them. The digest is that of the files, so a
//! rebuilt program is another image.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, Permissions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use olm_catalog::hex;
use olm_devcluster::node::UnpackedImage;
use olm_ops::manifests::containerfile::{USER, entrypoint};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::installed::Etcds;
use crate::{
    oci::{self, Architecture, Content, EPOCH, Elf, Entry, Files, SEARCH_PATH, Tree},
    product::{self, ProductImage, program_path},
};

/// The image of the examples of MyApp, which stands for an application of the user.
const SAMPLE: &str = "docker.io/library/myapp";

/// Images of programs of this machine.
pub struct MachineImages {
    /// This program.
    olm: PathBuf,
    products: Vec<(ProductImage, PathBuf)>,
    etcds: Mutex<Etcds>,
    /// Digests of files that were read.
    digests: Mutex<HashMap<PathBuf, (Identity, String)>>,
}

/// An image that can be made.
#[derive(Debug, Clone)]
pub struct MachineImage {
    /// Its full name; `*` in place of registry and path, which do not matter for etcd.
    pub name: String,
    /// Programs in /usr/local/bin: name, and path on this machine.
    pub programs: Vec<(String, PathBuf)>,
    /// One line for display.
    pub description: String,
    /// How its containers run by default.
    container: Value,
}

/// What changes with the content of a file: device, inode, size, time in nanoseconds.
type Identity = (u64, u64, u64, i64, i64);

/// The parts of an image.
struct Parts {
    digest: String,
    config: Value,
    tree: Tree,
}

impl MachineImages {
    /// The images of this program, of the programs in the same folder, and of the installed etcds.
    pub fn of_this_installation() -> Self {
        Self::of(&std::env::current_exe().unwrap_or_else(|_| PathBuf::from("olm")))
    }

    fn of(olm: &Path) -> Self {
        let products = product::images().map(|image| {
            let path = program_path(image.program, olm);
            (image, path)
        });
        Self {
            olm: olm.to_owned(),
            products: products.into(),
            etcds: Mutex::default(),
            digests: Mutex::default(),
        }
    }

    /// The image with a full name. A reference by digest is that of another image.
    pub fn find(&self, full_name: &str) -> Option<MachineImage> {
        if let Some((product, path)) = self.product(full_name) {
            return path.is_file().then(|| product_image(product, full_name, path));
        }
        if is_sample(full_name) {
            return Some(sample_image(full_name, &self.olm));
        }
        let version = etcd_version(full_name)?;
        let programs = lock(&self.etcds).find(version)?;
        Some(etcd_image(version, programs))
    }

    fn product(&self, full_name: &str) -> Option<&(ProductImage, PathBuf)> {
        self.products.iter().find(|(product, _)| product.names.iter().any(|name| name == full_name))
    }

    /// Full names of the product's images whose programs exist. The names of etcd's images vary.
    pub fn names(&self) -> Vec<String> {
        let existing = self.products.iter().filter(|(_, path)| path.is_file());
        existing.flat_map(|(product, _)| product.names.clone()).collect()
    }

    /// Every image that can be made, for display.
    pub fn list(&self) -> Vec<MachineImage> {
        let products = self.names().into_iter().filter_map(|name| self.find(&name));
        let sample = sample_image(&format!("{SAMPLE}:latest"), &self.olm);
        let etcds = lock(&self.etcds).all();
        let etcds = etcds.into_iter().map(|(version, programs)| etcd_image(&version, programs));
        products.chain([sample]).chain(etcds).collect()
    }

    /// The newest installed etcd.
    pub fn newest_etcd(&self) -> Option<String> {
        lock(&self.etcds).all().pop().map(|(version, _)| version)
    }

    /// Why an image of this name cannot be made; `None` for a name that is none of this machine.
    pub fn missing(&self, full_name: &str) -> Option<String> {
        if let Some((product, path)) = self.product(full_name) {
            return Some(format!(
                "image {full_name} is program {}, but {} does not exist; build it first",
                product.program,
                path.display()
            ));
        }
        etcd_version(full_name).map(|_| lock(&self.etcds).missing(full_name))
    }

    /// The digest of an image. Files that did not change are not read again.
    pub fn digest(&self, image: &MachineImage) -> Result<String, String> {
        Ok(self.parts(image)?.digest)
    }

    /// Writes the root file system of an image.
    pub fn unpack(&self, image: &MachineImage, directory: &Path) -> Result<UnpackedImage, String> {
        let Parts { digest, config, tree } = self.parts(image)?;
        let bytes = write(&tree, directory)
            .map_err(|error| format!("failed to make image {}: {error}", image.name))?;
        Ok(UnpackedImage { digest, config: config.to_string().into_bytes(), bytes })
    }

    fn parts(&self, image: &MachineImage) -> Result<Parts, String> {
        let failed = |path: &Path, reason: &dyn std::fmt::Display| {
            format!("failed to make image {} of {}: {reason}", image.name, path.display())
        };
        let mut libraries = Files::new();
        for (_, path) in &image.programs {
            let elf = Elf::read(path).map_err(|reason| failed(path, &reason))?;
            let needed = oci::libraries(&elf, Path::new("/"));
            libraries.extend(needed.map_err(|reason| failed(path, &reason))?);
        }
        // A machine without certificate authorities has none in its containers either.
        let certificates = oci::certificates(None).ok();
        let mut tree = Tree::system(certificates.as_ref(), &libraries);
        for (name, path) in &image.programs {
            tree.program(name, path);
        }
        let mut files = BTreeMap::new();
        for Entry { name, mode, content } in tree.entries() {
            let digest = match content {
                Content::Folder => None,
                Content::Bytes(bytes) => Some(hex(&Sha256::digest(bytes))),
                Content::File(path) => Some(self.file_digest(path).map_err(|error| failed(path, &error))?),
            };
            files.insert(name, (mode, digest));
        }
        let config = json!({
            "created": EPOCH,
            "architecture": Architecture::own().map(Architecture::name),
            "os": "linux",
            "config": image.container,
        });
        let manifest = json!({ "config": config, "files": files }).to_string();
        let digest = format!("sha256:{}", hex(&Sha256::digest(manifest.as_bytes())));
        Ok(Parts { digest, config, tree })
    }

    fn file_digest(&self, path: &Path) -> io::Result<String> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let identity =
            (metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        if let Some((known, digest)) = lock(&self.digests).get(path)
            && *known == identity
        {
            return Ok(digest.clone());
        }
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => hasher.update(&buffer[..length]),
            }
        }
        let digest = hex(&hasher.finalize());
        lock(&self.digests).insert(path.to_owned(), (identity, digest.clone()));
        Ok(digest)
    }
}

impl MachineImage {
    /// Whether a full name is one of this image.
    pub fn has_name(&self, full_name: &str) -> bool {
        match self.name.strip_prefix('*') {
            Some(end) => full_name.ends_with(end),
            None => full_name == self.name,
        }
    }
}

fn product_image(product: &ProductImage, name: &str, path: &Path) -> MachineImage {
    MachineImage {
        name: name.to_owned(),
        programs: vec![(product.program.to_owned(), path.to_owned())],
        description: product.description.to_owned(),
        container: product.program_image().container(),
    }
}

/// Whether a full name is one of the sample application. All its tags are one program, so that a changed tag shows how
/// pods are replaced.
fn is_sample(full_name: &str) -> bool {
    let tag = full_name.strip_prefix(SAMPLE).and_then(|rest| rest.strip_prefix(':'));
    tag.is_some_and(|tag| !tag.contains('@'))
}

/// The web server of `olm staticweb`, which serves a page with the pod's name on port 8080.
fn sample_image(name: &str, olm: &Path) -> MachineImage {
    let program = "olm";
    MachineImage {
        name: name.to_owned(),
        programs: vec![(program.to_owned(), olm.to_owned())],
        description: "Sample application of MyApp: a web server on port 8080".to_owned(),
        container: json!({
            "User": format!("{USER}:{USER}"),
            "Env": [SEARCH_PATH],
            "Entrypoint": [entrypoint(program)],
            "Cmd": ["staticweb"],
            "WorkingDir": "/",
        }),
    }
}

/// As etcd's project configures its image.
fn etcd_image(version: &str, programs: Vec<(String, PathBuf)>) -> MachineImage {
    MachineImage {
        name: format!("*/etcd:v{version}"),
        programs,
        description: format!("etcd {version}"),
        container: json!({
            "Env": [SEARCH_PATH],
            "Cmd": ["/usr/local/bin/etcd"],
            "WorkingDir": "/var/lib/etcd",
        }),
    }
}

/// The version of an image whose name ends in `/etcd`, from its tag.
fn etcd_version(full_name: &str) -> Option<&str> {
    let (name, tag) = full_name.rsplit_once(':').filter(|_| !full_name.contains('@'))?;
    let version = tag.strip_prefix('v').unwrap_or(tag);
    name.ends_with("/etcd").then_some(version)
}

/// Writes files into a new directory; returns their bytes. Programs with debug information are large, so they are
/// linked where that is possible.
fn write(tree: &Tree, directory: &Path) -> io::Result<u64> {
    fs::create_dir(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    let mut bytes = 0;
    for Entry { name, mode, content } in tree.entries() {
        let path = directory.join(name);
        match content {
            Content::Folder => fs::create_dir(&path)?,
            Content::Bytes(content) => {
                fs::write(&path, content)?;
                bytes += content.len() as u64;
            }
            Content::File(from) => {
                let from = fs::canonicalize(from)?;
                let metadata = fs::metadata(&from)?;
                bytes += metadata.len();
                // The mode of a link is that of the program.
                let permitted = metadata.mode() & 0o7000 == 0 && metadata.mode() & mode == *mode;
                if permitted && fs::hard_link(&from, &path).is_ok() {
                    continue;
                }
                fs::copy(&from, &path)?;
            }
        }
        fs::set_permissions(&path, Permissions::from_mode(*mode))?;
    }
    Ok(bytes)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUE: &str = "/bin/true";

    /// An installation with a copy of a small program in place of each of the product's.
    fn installation() -> Option<(tempfile::TempDir, MachineImages)> {
        if let Err(reason) = Elf::read(Path::new(TRUE)) {
            println!("skipped: images of this machine: {TRUE}: {reason}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        for (program, _) in product::PROGRAMS {
            fs::copy(TRUE, folder.path().join(program)).unwrap();
        }
        let images = MachineImages::of(&folder.path().join("olm"));
        Some((folder, images))
    }

    fn own() -> String {
        product::images()[0].names[0].clone()
    }

    /// A plan warns about an image of `localhost/` that no node reports.
    #[test]
    fn images_of_the_shipped_catalog_are_listed_by_their_full_names() {
        let Some((folder, images)) = installation() else { return };
        let listed = images.names();
        for package in ["etcd", "myapp"] {
            let catalog = format!("{}/../../catalog/data/{package}/catalog.yaml", env!("CARGO_MANIFEST_DIR"));
            let catalog = fs::read_to_string(catalog).unwrap();
            let shipped: Vec<&str> =
                catalog.lines().filter_map(|line| line.trim().strip_prefix("image: localhost/")).collect();
            assert!(!shipped.is_empty(), "{package}");
            for image in shipped {
                let image = format!("localhost/{image}");
                assert!(listed.contains(&image), "{image} is not among {listed:?}");
            }
        }
        // An image without its program is not listed, and its error says what to do.
        fs::remove_file(folder.path().join("etcd-operator")).unwrap();
        assert!(images.names().contains(&own()));
        assert!(images.names().iter().all(|name| !name.contains("etcd-operator")), "{:?}", images.names());
        let name = "localhost/olm/etcd-operator:0.11.0";
        assert!(images.find(name).is_none());
        let missing = images.missing(name).unwrap();
        assert!(missing.ends_with("does not exist; build it first"), "{missing}");
        assert_eq!(images.missing("docker.io/library/nginx:1"), None);
    }

    #[test]
    fn the_root_has_the_program_with_its_libraries_and_the_digest_is_that_of_the_content() {
        let Some((folder, images)) = installation() else { return };
        let image = images.find(&own()).unwrap();
        let root = folder.path().join("root");
        let unpacked = images.unpack(&image, &root).unwrap();
        assert_eq!(unpacked.digest, images.digest(&image).unwrap());
        let program = root.join("usr/local/bin/olm");
        assert_eq!(fs::read(&program).unwrap(), fs::read(TRUE).unwrap());
        assert_eq!(fs::metadata(&program).unwrap().mode() & 0o777, 0o755);
        if let Some(loader) = Elf::read(Path::new(TRUE)).unwrap().loader {
            assert!(root.join(&loader[1..]).is_file(), "{loader}");
        }
        let config: Value = serde_json::from_slice(&unpacked.config).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/local/bin/olm"]));
        // The same content in another file is the same image; another content is another one.
        let path = folder.path().join("olm");
        fs::copy(&path, folder.path().join("copy")).unwrap();
        fs::rename(folder.path().join("copy"), &path).unwrap();
        assert_eq!(images.digest(&image).unwrap(), unpacked.digest);
        let mut other = fs::read(&path).unwrap();
        other.push(0);
        fs::remove_file(&path).unwrap();
        fs::write(&path, other).unwrap();
        assert_ne!(images.digest(&image).unwrap(), unpacked.digest);
        // The image that was made is unchanged.
        assert_eq!(fs::read(&program).unwrap(), fs::read(TRUE).unwrap());
    }

    #[test]
    fn the_images_of_all_versions_of_the_operator_are_one() {
        let Some((_folder, images)) = installation() else { return };
        for names in [
            ["etcd-operator:0.10.0", "etcd-operator:0.11.0"],
            ["myapp-operator:0.1.0", "myapp-operator:0.2.0"],
        ] {
            let [old, new] = names
                .map(|name| images.digest(&images.find(&format!("localhost/olm/{name}")).unwrap()).unwrap());
            assert_eq!(old, new);
        }
    }

    /// The image of the examples of the shipped catalog.
    #[test]
    fn the_sample_application_is_this_program_as_a_web_server() {
        let Some((folder, images)) = installation() else { return };
        let image = images.find("docker.io/library/myapp:latest").unwrap();
        assert_eq!(image.programs, [("olm".to_owned(), folder.path().join("olm"))]);
        let container = &image.container;
        assert_eq!(container["Entrypoint"], json!(["/usr/local/bin/olm"]));
        assert_eq!((&container["Cmd"], &container["User"]), (&json!(["staticweb"]), &json!("65532:65532")));
        assert!(images.list().iter().any(|listed| listed.name == image.name));
        // Another tag is the same program, and another name another image.
        let other = images.find("docker.io/library/myapp:v2").unwrap();
        assert_eq!(images.digest(&other).unwrap(), images.digest(&image).unwrap());
        for name in [
            "docker.io/library/myapp",
            "docker.io/library/myapp@sha256:00",
            "docker.io/library/myapp:latest@sha256:00",
            "docker.io/library/myapp2:latest",
            "docker.io/team/myapp:latest",
            "registry.example.com/library/myapp:latest",
        ] {
            assert!(images.find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn an_etcd_is_known_by_the_end_of_its_name_and_its_tag() {
        assert_eq!(etcd_version("quay.io/coreos/etcd:v3.4.23"), Some("3.4.23"));
        assert_eq!(etcd_version("registry.example.com:5000/etcd:3.4.9"), Some("3.4.9"));
        for other in ["quay.io/coreos/etcd:v3.4.23@sha256:00", "quay.io/etcd/web:v3.4.23", "a/myetcd:v3.4.23"]
        {
            assert_eq!(etcd_version(other), None, "{other}");
        }
        let image = etcd_image("3.4.23", Vec::new());
        assert!(
            image.has_name("quay.io/coreos/etcd:v3.4.23") && !image.has_name("quay.io/coreos/etcd:v3.4.2")
        );
    }
}

//! Images on disk: each in its own directory, which describes itself and appears and disappears at once.
//!
//! `ID/root` is the root file system, `ID/image.json` the description; its modification time is that of the last
//! start of a container. There is no index, so an image that another process loads is there at once, and a crash
//! leaves at most an unfinished directory, whose name begins with a dot.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use olm_devcluster_machinery::private;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    UnpackedImage,
    collect::{Entry, UNUSED_BYTES, unneeded},
    machine::split_reference,
};

const DESCRIPTION: &str = "image.json";
const ROOT: &str = "root";
/// Directories of pulls in progress.
const UNFINISHED: &str = ".new-";
/// Locked while names or directories change.
const LOCK: &str = ".lock";
/// A pull that has written nothing for this long has been killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The images of a node, in a directory.
pub struct ImageStore {
    directory: PathBuf,
    /// By directory.
    in_use: Mutex<HashMap<PathBuf, Weak<InUse>>>,
}

/// Held while a container runs an image.
#[derive(Debug)]
pub(crate) struct InUse;

/// An image of a store.
#[derive(Debug, Clone)]
pub struct StoredImage {
    directory: PathBuf,
    /// Names that pods use, each of at most one image of the store.
    pub references: Vec<String>,
    /// Digest of the manifest or the index.
    pub digest: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// The OCI image configuration.
    pub(crate) config: Value,
}

/// The content of `image.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Description {
    references: Vec<String>,
    digest: String,
    bytes: u64,
    config: Value,
}

/// A directory for an image that is being unpacked, removed unless it is published.
pub struct Unfinished<'a> {
    store: &'a ImageStore,
    directory: PathBuf,
}

impl ImageStore {
    /// The store in a directory, which is created with the first image and only this user can read.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, in_use: Mutex::default() }
    }

    /// All images, sorted by their first name.
    pub fn list(&self) -> Vec<StoredImage> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let finished = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let mut images: Vec<StoredImage> =
            finished.filter_map(|entry| StoredImage::read(entry.path())).collect();
        images.sort_by(|a, b| a.references.cmp(&b.references));
        images
    }

    pub(super) fn find(&self, reference: &str) -> Option<StoredImage> {
        match reference.split_once('@') {
            // The name does not matter.
            Some((_, digest)) => self.with_digest(digest),
            None => self.list().into_iter().find(|image| image.has_name(reference)),
        }
    }

    pub(super) fn with_digest(&self, digest: &str) -> Option<StoredImage> {
        self.list().into_iter().find(|image| image.digest == digest)
    }

    /// Adds a name to an image, and removes it from any other.
    pub(super) fn add_name(&self, image: StoredImage, reference: &str) -> io::Result<StoredImage> {
        if image.has_name(reference) {
            return Ok(image);
        }
        let _lock = self.lock()?;
        self.add_name_locked(image, reference)
    }

    fn add_name_locked(&self, image: StoredImage, reference: &str) -> io::Result<StoredImage> {
        // It may have been renamed or removed in the meantime.
        let mut image = StoredImage::read(image.directory)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the image was removed"))?;
        if image.has_name(reference) {
            return Ok(image);
        }
        self.take_name(reference)?;
        image.references.push(reference.to_owned());
        image.write()?;
        Ok(image)
    }

    fn take_name(&self, reference: &str) -> io::Result<()> {
        // A digest always names the same image.
        if reference.contains('@') {
            return Ok(());
        }
        if let Some(mut other) = self.find(reference) {
            let name = canonical(reference);
            other.references.retain(|known| canonical(known) != name);
            other.write()?;
        }
        Ok(())
    }

    /// Excludes other changes, also those of other processes, until the file is closed.
    fn lock(&self) -> io::Result<fs::File> {
        let file = fs::File::options().create(true).append(true).open(self.directory.join(LOCK))?;
        file.lock()?;
        Ok(file)
    }

    /// A new directory for an image.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn prepare(&self) -> io::Result<Unfinished<'_>> {
        private::make_directory(&self.directory)?;
        let directory = self.directory.join(format!("{UNFINISHED}{:032x}", rand::random::<u128>()));
        fs::create_dir(&directory)?;
        Ok(Unfinished { store: self, directory })
    }

    /// Marks an image as running; `None` if it has been removed.
    pub(super) fn hold(&self, image: &StoredImage) -> Option<Arc<InUse>> {
        let mut all = self.in_use();
        let description = fs::File::options().append(true).open(image.directory.join(DESCRIPTION)).ok()?;
        if let Err(error) = description.set_modified(SystemTime::now()) {
            tracing::debug!(%error, image = image.digest, "failed to record the use of an image");
        }
        let known = all.get(&image.directory).and_then(Weak::upgrade);
        let held = known.unwrap_or_else(|| Arc::new(InUse));
        all.insert(image.directory.clone(), Arc::downgrade(&held));
        Some(held)
    }

    fn in_use(&self) -> MutexGuard<'_, HashMap<PathBuf, Weak<InUse>>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes unused images that exceed the limit.
    pub(super) fn collect(&self) {
        let unneeded: Vec<PathBuf> = {
            // Without it (a full disk), an image to which another process adds a name may be removed.
            let _lock = self.lock().ok();
            let images = self.list();
            let mut all = self.in_use();
            all.retain(|_, held| held.strong_count() > 0);
            let entries: Vec<Entry> = images
                .iter()
                .map(|image| Entry {
                    bytes: image.bytes,
                    used: image.used(),
                    in_use: all.contains_key(&image.directory),
                })
                .collect();
            // Renamed under the lock: a container either holds an image or does not find it.
            let unneeded = unneeded(&entries, UNUSED_BYTES).into_iter().map(|index| &images[index]);
            unneeded.filter_map(|image| self.set_aside(&image.directory)).collect()
        };
        unneeded.iter().for_each(|directory| remove(directory));
    }

    /// Hides a directory, whose removal takes a while.
    fn set_aside(&self, directory: &Path) -> Option<PathBuf> {
        let aside = self.directory.join(format!("{UNFINISHED}{:032x}", rand::random::<u128>()));
        match fs::rename(directory, &aside) {
            Ok(()) => Some(aside),
            Err(error) => {
                tracing::warn!(%error, path = %directory.display(), "failed to remove an image");
                None
            }
        }
    }

    /// Removes directories of processes that were killed.
    pub(super) fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            let age = age.ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) && age > ABANDONED {
                remove(&entry.path());
            }
        }
    }
}

impl Unfinished<'_> {
    /// The root file system, which does not exist yet.
    pub fn root(&self) -> PathBuf {
        self.directory.join(ROOT)
    }

    /// Makes the image available under a name. If the store contains the image, only the name is added.
    ///
    /// # Errors
    /// The store cannot be written; nothing has changed then.
    pub fn publish(self, reference: &str, unpacked: UnpackedImage) -> io::Result<StoredImage> {
        let _lock = self.store.lock()?;
        if let Some(present) = self.store.with_digest(&unpacked.digest) {
            return self.store.add_name_locked(present, reference);
        }
        let hex = unpacked.digest.rsplit(':').next().unwrap_or_default();
        let name = format!("{hex:.16}-{:08x}", rand::random::<u32>());
        let mut image = StoredImage {
            directory: self.directory.clone(),
            references: vec![reference.to_owned()],
            digest: unpacked.digest,
            bytes: unpacked.bytes,
            config: serde_json::from_slice(&unpacked.config)?,
        };
        image.write()?;
        self.store.take_name(reference)?;
        let published = self.store.directory.join(name);
        fs::rename(&self.directory, &published)?;
        image.directory = published;
        Ok(image)
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.directory.exists() {
            remove(&self.directory);
        }
    }
}

impl StoredImage {
    fn read(directory: PathBuf) -> Option<Self> {
        let path = directory.join(DESCRIPTION);
        let read = || -> io::Result<Description> { Ok(serde_json::from_slice(&fs::read(&path)?)?) };
        match read() {
            Ok(Description { references, digest, bytes, config }) => {
                Some(Self { directory, references, digest, bytes, config })
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "ignoring a malformed image");
                None
            }
        }
    }

    fn write(&self) -> io::Result<()> {
        let Self { directory: _, references, digest, bytes, config } = self.clone();
        let document = serde_json::to_vec(&Description { references, digest, bytes, config })?;
        private::write(&self.directory.join(DESCRIPTION), &document)
    }

    fn has_name(&self, reference: &str) -> bool {
        let name = canonical(reference);
        self.references.iter().any(|known| canonical(known) == name)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.directory.join(ROOT)
    }

    /// The image by digest, as in the status of a pod.
    pub fn id(&self) -> String {
        match self.references.first() {
            Some(reference) => format!("{}@{}", split_reference(reference).0, self.digest),
            None => self.digest.clone(),
        }
    }

    /// By digest and by tag, as the status of a node lists it.
    pub(super) fn names(&self) -> Vec<String> {
        let id = self.id();
        let tags = self.references.iter().filter(|reference| **reference != id).cloned();
        std::iter::once(id.clone()).chain(tags).collect()
    }

    fn used(&self) -> SystemTime {
        let metadata = fs::metadata(self.directory.join(DESCRIPTION));
        metadata.and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// The same text for all forms of a name: `nginx` is `docker.io/library/nginx:latest`.
fn canonical(reference: &str) -> String {
    if reference.contains('@') {
        return reference.to_owned();
    }
    let (name, tag) = split_reference(reference);
    let (registry, path) = match name.split_once('/') {
        Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => (first, path),
        _ => ("docker.io", name),
    };
    let library = if registry == "docker.io" && !path.contains('/') { "library/" } else { "" };
    format!("{registry}/{library}{path}:{}", tag.unwrap_or("latest"))
}

fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory) {
        tracing::warn!(%error, path = %directory.display(), "failed to remove an image");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(digest: &str, bytes: u64) -> UnpackedImage {
        UnpackedImage { digest: digest.to_owned(), config: b"{}".to_vec(), bytes }
    }

    fn add(store: &ImageStore, reference: &str, digest: &str, bytes: u64) -> StoredImage {
        let place = store.prepare().unwrap();
        fs::create_dir(place.root()).unwrap();
        place.publish(reference, unpacked(digest, bytes)).unwrap()
    }

    fn store() -> (tempfile::TempDir, ImageStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = ImageStore::new(directory.path().join("images"));
        assert!(store.list().is_empty() && !directory.path().join("images").exists());
        (directory, store)
    }

    #[test]
    fn a_tag_that_moves_names_the_new_image_only() {
        let (_directory, store) = store();
        add(&store, "registry/a:1", "sha256:aa", 1);
        let second = add(&store, "registry/a:1", "sha256:bb", 1);
        assert_eq!(store.find("registry/a:1").unwrap().digest, "sha256:bb");
        assert_eq!(second.names(), ["registry/a@sha256:bb", "registry/a:1"]);
        // The old image is there until it is collected.
        assert_eq!(store.with_digest("sha256:aa").unwrap().names(), ["sha256:aa"]);
        // The same image under another name is stored once.
        let third = add(&store, "mirror/a:2", "sha256:bb", 1);
        assert_eq!(third.references, ["registry/a:1", "mirror/a:2"]);
        assert_eq!(store.list().len(), 2);
    }

    #[test]
    fn all_forms_of_a_name_name_the_same_image() {
        for (short, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("acme/web:1", "docker.io/acme/web:1"),
            ("localhost/web", "localhost/web:latest"),
            ("localhost:5000/web:1", "localhost:5000/web:1"),
        ] {
            assert_eq!(canonical(short), full);
        }
        // given an image that was loaded under its full name
        let (_directory, store) = store();
        let loaded = add(&store, "docker.io/library/nginx:latest", "sha256:aa", 1);
        // then it is found by the short one and by its digest
        assert_eq!(store.find("nginx").unwrap().digest, "sha256:aa");
        assert_eq!(store.find("other.example.com/nginx@sha256:aa").unwrap().digest, "sha256:aa");
        assert!(store.find("nginx:1").is_none() && store.find("nginx@sha256:bb").is_none());
        // and a name by digest is not its latest tag
        let pinned = store.add_name(loaded, "web@sha256:aa").unwrap();
        assert_eq!(pinned.references.len(), 2);
        assert!(store.find("web").is_none());
        // and the short name moves to another image
        add(&store, "nginx", "sha256:bb", 1);
        assert_eq!(store.with_digest("sha256:aa").unwrap().references, ["web@sha256:aa"]);
    }

    #[test]
    fn concurrently_added_names_are_all_retained() {
        let (directory, store) = store();
        let image = add(&store, "a:1", "sha256:aa", 1);
        let path = directory.path().join("images");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (image, path) = (image.clone(), &path);
                // Each with its own store, as in another process.
                scope.spawn(move || {
                    let store = ImageStore::new(path.clone());
                    store.add_name(image, &format!("b:{number}")).unwrap();
                });
            }
        });
        assert_eq!(store.with_digest("sha256:aa").unwrap().references.len(), 9);
    }

    #[test]
    fn an_unfinished_image_is_not_listed_and_leaves_nothing() {
        let (directory, store) = store();
        let place = store.prepare().unwrap();
        fs::create_dir(place.root()).unwrap();
        assert!(store.list().is_empty());
        drop(place);
        assert_eq!(fs::read_dir(directory.path().join("images")).unwrap().count(), 0);
        // A killed process cannot remove its directory: the next start does, once it is old.
        let killed = store.prepare().unwrap();
        let path = killed.directory.clone();
        std::mem::forget(killed);
        store.remove_leftovers();
        assert!(path.exists());
        let old = SystemTime::now() - ABANDONED - Duration::from_secs(1);
        fs::File::open(&path).unwrap().set_modified(old).unwrap();
        store.remove_leftovers();
        assert!(!path.exists());
    }

    #[test]
    fn images_of_containers_are_not_collected() {
        let (_directory, store) = store();
        let running = add(&store, "a:1", "sha256:aa", 8 << 30);
        let held = store.hold(&running).unwrap();
        let unused = add(&store, "b:1", "sha256:bb", 11 << 30);
        store.collect();
        assert_eq!(store.list().len(), 1);
        assert!(store.hold(&unused).is_none(), "a removed image was held");
        store.collect();
        assert!(store.find("a:1").is_some());
        drop(held);
        add(&store, "c:1", "sha256:cc", 3 << 30);
        store.collect();
        assert_eq!(store.find("a:1").map(|image| image.digest), None);
        assert!(store.find("c:1").is_some());
    }

    #[test]
    fn a_malformed_description_hides_only_its_image() {
        let (_directory, store) = store();
        let broken = add(&store, "a:1", "sha256:aa", 1);
        add(&store, "b:1", "sha256:bb", 1);
        fs::write(broken.directory.join(DESCRIPTION), "{").unwrap();
        assert_eq!(store.list().len(), 1);
    }
}

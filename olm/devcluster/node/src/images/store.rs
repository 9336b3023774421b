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
    time::SystemTime,
};

use olm_devcluster_machinery::private;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    UnpackedImage,
    collect::{Entry, UNUSED_BYTES, unneeded},
};

const DESCRIPTION: &str = "image.json";
const ROOT: &str = "root";
/// Directories of pulls in progress, each locked by its process, and of images that are being removed.
const UNFINISHED: &str = ".new-";
/// Locked while names or directories change.
const LOCK: &str = ".lock";

/// The images of a node, in a directory.
pub struct ImageStore {
    directory: PathBuf,
    /// By directory.
    in_use: Mutex<HashMap<PathBuf, Weak<InUse>>>,
}

/// Held while a container runs an image.
#[derive(Debug)]
pub(crate) struct InUse;

/// An image of a store; its description in `image.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredImage {
    #[serde(skip)]
    directory: PathBuf,
    /// Names in their full form, each of at most one image of the store.
    pub references: Vec<String>,
    /// Digest of the manifest or the index.
    pub digest: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// The OCI image configuration.
    pub(crate) config: Value,
}

/// A directory for an image that is being unpacked, removed unless it is published.
pub struct Unfinished<'a> {
    store: &'a ImageStore,
    directory: PathBuf,
    /// Locked, however this process ends: an unlocked directory can be removed.
    _locked: fs::File,
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
            other.references.retain(|known| known != reference);
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
        let _lock = self.lock()?;
        let directory = self.unfinished();
        fs::create_dir(&directory)?;
        let locked = fs::File::open(&directory)?;
        locked.lock()?;
        Ok(Unfinished { store: self, directory, _locked: locked })
    }

    fn unfinished(&self) -> PathBuf {
        self.directory.join(format!("{UNFINISHED}{:032x}", rand::random::<u128>()))
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

    /// Removes unused images that have no name or exceed the limit.
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
                    named: !image.references.is_empty(),
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
        let aside = self.unfinished();
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
        // No process is between the creation and the lock of a directory.
        let Ok(_lock) = self.lock() else { return };
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let is_abandoned = || fs::File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) && is_abandoned() {
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
        let read = || -> io::Result<Self> { Ok(serde_json::from_slice(&fs::read(&path)?)?) };
        match read() {
            Ok(image) => Some(Self { directory, ..image }),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "ignoring a malformed image");
                None
            }
        }
    }

    fn write(&self) -> io::Result<()> {
        private::write(&self.directory.join(DESCRIPTION), &serde_json::to_vec(self)?)
    }

    fn has_name(&self, reference: &str) -> bool {
        self.references.iter().any(|known| known == reference)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.directory.join(ROOT)
    }

    /// The image by digest, as in the status of a pod.
    pub fn id(&self) -> String {
        match self.references.first() {
            Some(reference) => format!("{}@{}", repository(reference), self.digest),
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

/// A reference without tag and digest. A port in the host name is not a tag.
fn repository(reference: &str) -> &str {
    let reference = reference.split('@').next().unwrap_or(reference);
    match reference.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => reference,
    }
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
    fn a_port_is_not_a_tag() {
        assert_eq!(repository("host:5000/store"), "host:5000/store");
        assert_eq!(repository("host:5000/store:v1@sha256:00"), "host:5000/store");
    }

    #[test]
    fn an_image_that_lost_its_name_is_removed_when_no_container_runs_it() {
        let (_directory, store) = store();
        let held = store.hold(&add(&store, "local/a:1", "sha256:aa", 1)).unwrap();
        add(&store, "local/a:1", "sha256:bb", 1);
        store.collect();
        assert!(store.with_digest("sha256:aa").is_some());
        drop(held);
        store.collect();
        assert!(store.with_digest("sha256:aa").is_none());
        assert!(store.find("local/a:1").is_some());
    }

    #[test]
    fn an_image_is_found_by_its_digest_under_any_name() {
        let (_directory, store) = store();
        let image = add(&store, "registry/a:1", "sha256:aa", 1);
        assert_eq!(store.find("other/b@sha256:aa").unwrap().digest, "sha256:aa");
        assert!(store.find("registry/a@sha256:bb").is_none());
        // A name by digest is no tag, and stays when a tag moves.
        store.add_name(image, "web@sha256:aa").unwrap();
        assert!(store.find("web").is_none());
        add(&store, "registry/a:1", "sha256:bb", 1);
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
        let unfinished = || {
            let entries = fs::read_dir(directory.path().join("images")).unwrap();
            entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.file_name() != LOCK)).count()
        };
        assert_eq!(unfinished(), 0);
        // A killed process cannot remove its directory: the next start does, and leaves those of others.
        let running = store.prepare().unwrap();
        fs::create_dir_all(store.unfinished().join(ROOT)).unwrap();
        assert_eq!(unfinished(), 2);
        store.remove_leftovers();
        assert!(running.directory.exists());
        assert_eq!(unfinished(), 1);
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

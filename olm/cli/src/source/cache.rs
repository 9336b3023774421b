//! Catalogs that were read before, in the user's cache folder.
//!
//! ```text
//! catalogs/HASH/            one folder for each source
//! catalogs/HASH/record.json the state of the source that was read; written last, by renaming
//! catalogs/HASH/...         the catalog, in the form of [`olm_catalog::Store`]
//! ```
//!
//! A source on this machine is unchanged if the sizes and times of all its files are; an image by digest never
//! changes; registries and web servers report the current revision. A cache that is damaged, or that another
//! user could have written, is ignored and replaced. Without a usable cache, catalogs are read into memory.

use std::{
    fs::{self, Metadata},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use olm_catalog::{Catalog, Problem, Store, hex};
use olm_catalog_sources::{Options, Revision, Source};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Named, Opened, blocking};
use crate::exit::Failure;

/// Smaller sources on this machine are read faster than the cache is written.
const SMALLEST: u64 = 256 << 10;

/// Sources of more files are not cached.
const MOST_FILES: usize = 50_000;

/// Maximum depth of folders: deeper ones indicate a loop of links.
const DEEPEST: usize = 32;

/// Maximum number of cached sources; beyond it, the one that was written first is removed.
const MOST_SOURCES: usize = 6;

/// A file that changed within this time may change again without a new time of change.
const SETTLED: Duration = Duration::from_secs(2);

/// The catalog's key in the store of its folder.
const KEY: &str = "catalog";

/// `$XDG_CACHE_HOME/olm`, or `~/.cache/olm`.
pub fn folder() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A home folder is not created for the cache alone.
    let home = || var("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache"));
    let root = var("XDG_CACHE_HOME").or_else(home)?;
    Some(root.join("olm"))
}

/// Creates a folder of the cache, and those above it, without access for other users.
pub fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Reads a catalog with its content.
pub async fn load(named: &Named, options: &Options) -> Result<Catalog, Failure> {
    let Some(entry) = folder().and_then(|root| Entry::of(&root.join("catalogs"), named, options)) else {
        return Opened::open(named, options).await?.load().await;
    };
    let looked_up = entry.clone();
    let found = blocking(move || Some((looked_up.state()?, looked_up.open()))).await?;
    let Some((state, cached)) = found else { return Opened::open(named, options).await?.load().await };
    let opened = match (named, cached) {
        (_, Some((record, catalog))) if state.text.is_some() && record.state == state.text => {
            return Ok(catalog);
        }
        (Named::Source(source), Some((Record { revision: Some(revision), .. }, catalog)))
            if state.text.is_none() =>
        {
            match Opened::fetched(source, options, Some(&revision)).await? {
                Some(opened) => opened,
                None => return Ok(catalog),
            }
        }
        _ => Opened::open(named, options).await?,
    };
    let (opened, stored) = blocking(move || {
        let stored = entry.write(&opened, &state);
        (opened, stored)
    })
    .await?;
    match stored {
        Some(catalog) => Ok(catalog),
        None => opened.load().await,
    }
}

/// The state of a source.
#[derive(Debug)]
struct State {
    /// Equal for equal content; `None` where only the server of the source has it.
    text: Option<String>,
    /// Whether a later change would change the text.
    settled: bool,
}

/// What a catalog in the cache was read from.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The version of olm that read it.
    program: String,
    state: Option<String>,
    revision: Option<Revision>,
    /// Digest of the catalog.
    digest: String,
    problems: Vec<Problem>,
}

/// The folder of a source in the cache.
#[derive(Debug, Clone)]
struct Entry {
    root: PathBuf,
    folder: PathBuf,
    source: Cacheable,
}

#[derive(Debug, Clone)]
enum Cacheable {
    /// A file or a folder of this machine.
    Path(PathBuf),
    /// An image by digest.
    Digest(String),
    /// A registry or a web server has the current revision.
    Server,
}

impl Entry {
    fn of(root: &Path, named: &Named, options: &Options) -> Option<Self> {
        let (source, name) = match named {
            Named::Folder(path) | Named::File(path) | Named::Source(Source::Tarball { path }) => {
                let path = path.canonicalize().ok()?;
                (Cacheable::Path(path.clone()), path.into_os_string().into_encoded_bytes())
            }
            Named::Source(Source::OciLayout { path, reference }) => {
                let path = path.canonicalize().ok()?;
                let mut name = path.clone().into_os_string().into_encoded_bytes();
                name.push(0);
                name.extend(reference.as_deref().unwrap_or_default().bytes());
                (Cacheable::Path(path), name)
            }
            Named::Source(Source::Image { reference }) => match reference.split_once('@') {
                Some((_, digest)) => (Cacheable::Digest(digest.to_owned()), reference.clone().into_bytes()),
                None => (Cacheable::Server, reference.clone().into_bytes()),
            },
            // An unverified server could set the revision that the verified one reports later. The revision of
            // an image is the digest of its content.
            Named::Source(Source::Http { url }) if options.skip_tls_verify.is_empty() => {
                (Cacheable::Server, url.clone().into_bytes())
            }
            Named::Stdin | Named::Source(_) => return None,
        };
        // Messages name a source as the user did.
        let hash = Sha256::new().chain_update(named.shown()).chain_update([0]).chain_update(name).finalize();
        Some(Self { root: root.to_owned(), folder: root.join(&hex(&hash)[..32]), source })
    }

    /// `None` for a source that is not cached.
    fn state(&self) -> Option<State> {
        match &self.source {
            Cacheable::Path(path) => State::of_path(path, SystemTime::now()),
            Cacheable::Digest(digest) => Some(State { text: Some(digest.clone()), settled: true }),
            Cacheable::Server => Some(State { text: None, settled: true }),
        }
    }

    /// Whether other users can neither change nor replace the folder of the cache.
    fn is_protected(&self) -> bool {
        // `olm`, and the user's cache folder.
        let mut parents = self.root.ancestors().skip(1).take(2);
        is_private_folder(&self.root) && parents.all(keeps_entries)
    }

    fn record(&self) -> PathBuf {
        self.folder.join("record.json")
    }

    /// The catalog as it was read last.
    fn open(&self) -> Option<(Record, Catalog)> {
        if !self.is_protected() || !is_private(&self.folder) {
            return None;
        }
        let record: Record = serde_json::from_slice(&fs::read(self.record()).ok()?).ok()?;
        let catalog = Store::open_shared(&self.folder).ok()??.get_whole(KEY).ok()??;
        let mut catalog = Arc::into_inner(catalog)?;
        if record.program != env!("CARGO_PKG_VERSION") || record.digest != catalog.digest {
            return None;
        }
        catalog.problems.clone_from(&record.problems);
        Some((record, catalog))
    }

    /// Writes a catalog, and returns it; `None` where it was not written as a whole.
    fn write(&self, opened: &Opened, state: &State) -> Option<Catalog> {
        if !state.settled || (state.text.is_none() && opened.revision.is_none()) {
            return None;
        }
        create_folder(&self.root).ok()?;
        if !self.is_protected() {
            return None;
        }
        if fs::symlink_metadata(&self.folder).is_ok() && !is_private(&self.folder) {
            fs::remove_dir_all(&self.folder).or_else(|_| fs::remove_file(&self.folder)).ok()?;
        }
        create_folder(&self.folder).ok()?;
        let store = Store::open(&self.folder).ok()?;
        let Ok(refreshed) = store.refresh_path(KEY, &opened.origin, &opened.path) else {
            // A full disk gets its space back, and a damaged store is replaced next time.
            _ = fs::remove_dir_all(&self.folder);
            return None;
        };
        let catalog = opened.named(Arc::into_inner(refreshed.catalog)?);
        // A source that changed while it was read is read again next time.
        if self.state().is_some_and(|now| now.text == state.text) {
            let record = Record {
                program: env!("CARGO_PKG_VERSION").to_owned(),
                state: state.text.clone(),
                revision: opened.revision.clone(),
                digest: catalog.digest.clone(),
                problems: catalog.problems.clone(),
            };
            // Without a record the catalog is read again, too.
            _ = write_record(&self.record(), &record);
        }
        self.evict();
        Some(catalog)
    }

    /// Removes the sources that were written first, except those in use.
    fn evict(&self) {
        let Ok(folders) = fs::read_dir(&self.root) else { return };
        let written =
            |path: &Path| fs::metadata(path.join("record.json")).and_then(|file| file.modified()).ok();
        let mut others: Vec<(Option<SystemTime>, PathBuf)> = folders
            .filter_map(|found| Some(found.ok()?.path()))
            .filter(|path| *path != self.folder)
            .map(|path| (written(&path), path))
            .collect();
        others.sort();
        let surplus = (others.len() + 1).saturating_sub(MOST_SOURCES);
        for (_, path) in others.into_iter().take(surplus) {
            // Locked until it is removed.
            if let Ok(_store) = Store::open(&path) {
                _ = fs::remove_dir_all(&path);
            }
        }
    }
}

fn write_record(path: &Path, record: &Record) -> io::Result<()> {
    // A temporary file is private to its owner.
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.persist(path)?;
    Ok(())
}

fn is_own(found: &Metadata) -> bool {
    found.uid() == nix::unistd::geteuid().as_raw() && found.mode() & 0o077 == 0
}

fn is_private_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && is_own(&found))
}

/// Whether only this user and root can rename or remove the entries of this user in a folder.
fn keeps_entries(folder: &Path) -> bool {
    let (others_write, sticky) = (0o022, 0o1000);
    let owners = [0, nix::unistd::geteuid().as_raw()];
    fs::metadata(folder).is_ok_and(|found| {
        owners.contains(&found.uid()) && (found.mode() & others_write == 0 || found.mode() & sticky != 0)
    })
}

/// Whether only this user can have written the folder and everything in it.
fn is_private(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let is_private = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => is_private(&entry.path()),
        Ok(found) => found.is_file() && is_own(&found),
        // Another process writes the cache and renamed a file.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    is_private_folder(folder) && entries.into_iter().all(|entry| entry.is_ok_and(is_private))
}

impl State {
    /// The state of a file, or of all files of a folder; `None` where a cache would not help.
    fn of_path(path: &Path, now: SystemTime) -> Option<Self> {
        let mut walk = Walk::default();
        walk.visit(path, 0)?;
        let since = now.duration_since(UNIX_EPOCH).ok()?;
        let changed = Duration::new(u64::try_from(walk.changed.0).ok()?, u32::try_from(walk.changed.1).ok()?);
        let settled = since.checked_sub(changed).is_some_and(|age| age >= SETTLED);
        (walk.bytes >= SMALLEST).then(|| Self { text: Some(hex(&walk.hash.finalize())), settled })
    }
}

#[derive(Default)]
struct Walk {
    hash: Sha256,
    files: usize,
    bytes: u64,
    /// The last change of a file: seconds and nanoseconds.
    changed: (i64, i64),
}

impl Walk {
    fn visit(&mut self, path: &Path, depth: usize) -> Option<()> {
        self.files += 1;
        if self.files > MOST_FILES || depth > DEEPEST {
            return None;
        }
        self.hash.update(path.as_os_str().as_encoded_bytes());
        let Ok(found) = fs::metadata(path) else {
            self.hash.update([0]);
            return Some(());
        };
        if found.is_dir() {
            let mut paths: Vec<PathBuf> =
                fs::read_dir(path).ok()?.map(|entry| Some(entry.ok()?.path())).collect::<Option<_>>()?;
            paths.sort();
            return paths.iter().try_for_each(|path| self.visit(path, depth + 1));
        }
        let changed = (found.ctime(), found.ctime_nsec());
        for number in [found.mtime(), found.mtime_nsec(), changed.0, changed.1] {
            self.hash.update(number.to_le_bytes());
        }
        for number in [found.len(), found.ino(), found.dev()] {
            self.hash.update(number.to_le_bytes());
        }
        self.bytes += found.len();
        self.changed = self.changed.max(changed);
        Some(())
    }
}

#[cfg(test)]
mod tests;

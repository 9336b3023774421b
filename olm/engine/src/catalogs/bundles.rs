//! Bundles that are images: pulled once, cached as documents of a catalog, and served.
//!
//! ```text
//! refs/HASH        the document of an image, per CatalogSource: pull rights are not shared
//! documents/HASH   the documents, by the digest of their bytes
//! work/            pulls in progress
//! ```
//!
//! The least recently used documents are evicted first.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use futures::{FutureExt as _, future::BoxFuture, future::Shared};
use olm_bundle::Bundle;
use olm_catalog_sources::{Limits, Options, Source, SourceError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::Instant};

use super::{CatalogRef, access::Access, document, hex};

/// Concurrent pulls. Bundles are small; more pulls would only slow the manager's other work.
const PULLS: usize = 4;
/// How long a caller waits for a bundle. The pull continues, and the next read finds the result.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time limit of a pull.
const DEADLINE: Duration = Duration::from_secs(300);
/// How long the document of an image named by a tag alone is used before the tag is read again.
const TAG_CACHED: Duration = Duration::from_secs(15 * 60);
/// After a failure, doubled with each further one up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// All documents together. The largest real bundle has 7 MB, a typical one 50 kB.
const MOST_BYTES: u64 = 256 << 20;
/// A bundle has at most a few megabytes; its image may contain an operating system.
const UNPACKED_BYTES: u64 = 64 << 20;
const DOWNLOAD_BYTES: u64 = 1 << 30;
/// Maximum number of images whose failures are cached.
const FAILURES: usize = 1000;

/// The image of a bundle is unreadable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to read its image {image}: {text}")]
pub struct BundleImageError {
    pub image: String,
    /// A stable word for the cause.
    pub code: &'static str,
    /// The problem and its fix.
    pub text: String,
    /// When a retry may succeed.
    pub retry: Duration,
}

/// Values of [`BundleImageError::code`]. The first may be temporary, the others require a fix.
const UNREACHABLE: &str = "BundleImageUnreachable";
const PULLING: &str = "BundleImagePulling";
const DENIED: &str = "BundleImageDenied";
const NOT_FOUND: &str = "BundleImageNotFound";
const INVALID: &str = "BundleImageInvalid";

impl BundleImageError {
    fn new(image: &str, code: &'static str, text: impl Into<String>) -> Self {
        Self { image: image.to_owned(), code, text: text.into(), retry: FIRST_WAIT }
    }

    fn of(image: &str, error: &SourceError, text: String) -> Self {
        let code = match error {
            SourceError::Denied { .. } => DENIED,
            SourceError::NotFound { .. } => NOT_FOUND,
            error if error.is_transient() => UNREACHABLE,
            SourceError::Everywhere { .. }
            | SourceError::Untrusted { .. }
            | SourceError::WithoutTls { .. } => UNREACHABLE,
            _ => INVALID,
        };
        Self::new(image, code, text)
    }

    /// As another process reported it.
    pub(super) fn reported(image: &str, code: &str, text: &str) -> Self {
        let known = [UNREACHABLE, PULLING, DENIED, NOT_FOUND].into_iter().find(|known| *known == code);
        Self::new(image, known.unwrap_or(INVALID), text)
    }
}

/// A bundle as its catalog names it.
#[derive(Debug, Clone)]
pub struct BundleRequest {
    pub catalog: CatalogRef,
    pub package: String,
    pub bundle: String,
    pub image: String,
}

impl BundleRequest {
    fn name(&self) -> String {
        let Self { catalog, package, bundle, image } = self;
        hex(&Sha256::digest(format!("{catalog}\0{package}\0{bundle}\0{image}").as_bytes()))
    }

    fn is_pinned(&self) -> bool {
        self.image.contains('@')
    }
}

type Pull = Shared<BoxFuture<'static, Result<Arc<[u8]>, BundleImageError>>>;

pub struct BundleImages {
    folder: PathBuf,
    most_bytes: u64,
    slots: Semaphore,
    /// Shared by all callers that need the same image.
    pulls: Mutex<HashMap<String, Pull>>,
    failures: Mutex<HashMap<String, Failed>>,
    /// Held while files are added and removed.
    files: Mutex<()>,
}

struct Failed {
    count: u32,
    until: Instant,
    error: BundleImageError,
}

#[derive(Serialize, Deserialize)]
struct Reference {
    image: String,
    document: String,
    pulled: jiff::Timestamp,
}

struct CachedBundle {
    document: Arc<[u8]>,
    fresh: bool,
}

impl std::fmt::Debug for BundleImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BundleImages").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BundleImages {
    pub fn new(folder: PathBuf) -> Arc<Self> {
        Self::bounded(folder, MOST_BYTES)
    }

    fn bounded(folder: PathBuf, most_bytes: u64) -> Arc<Self> {
        // Unfinished pulls of a killed process.
        let _ = fs::remove_dir_all(folder.join("work"));
        Arc::new(Self {
            folder,
            most_bytes,
            slots: Semaphore::new(PULLS),
            pulls: Mutex::default(),
            failures: Mutex::default(),
            files: Mutex::default(),
        })
    }

    /// The bundle's document, cached or pulled now. Concurrent callers share one pull. After a failure, no
    /// call starts a pull before the retry time.
    pub async fn document(
        self: &Arc<Self>,
        request: &BundleRequest,
        access: &Access,
    ) -> Result<Arc<[u8]>, BundleImageError> {
        let name = request.name();
        let cached = self.cached(&name, request);
        if let Some(cached) = cached.as_ref().filter(|cached| cached.fresh) {
            return Ok(Arc::clone(&cached.document));
        }
        let result = match self.remembered_failure(&name) {
            Some(error) => Err(error),
            None => match tokio::time::timeout(PATIENCE, self.join(&name, request, access)).await {
                Ok(result) => result,
                Err(_) => {
                    let text = format!("it is still being pulled after {} s", PATIENCE.as_secs());
                    Err(BundleImageError::new(&request.image, PULLING, text))
                }
            },
        };
        match (result, cached) {
            // While the registry is unreachable, the cached document stays in use.
            (Err(error), Some(cached)) if error.code != INVALID => Ok(cached.document),
            (result, _) => result,
        }
    }

    fn join(self: &Arc<Self>, name: &str, request: &BundleRequest, access: &Access) -> Pull {
        let mut pulls = lock(&self.pulls);
        if let Some(pull) = pulls.get(name) {
            return pull.clone();
        }
        let (images, access, request, name) =
            (Arc::clone(self), access.clone(), request.clone(), name.to_owned());
        let image = request.image.clone();
        // In a task of its own, so that the pull continues after the caller has timed out.
        let task = tokio::spawn({
            let name = name.clone();
            async move {
                let result = images.pull(&name, &request, &access).await;
                images.remember(&name, &result);
                lock(&images.pulls).remove(&name);
                result
            }
        });
        let ended = move |error: tokio::task::JoinError| {
            Err(BundleImageError::new(&image, UNREACHABLE, format!("the pull was interrupted: {error}")))
        };
        let pull = task.map(|joined| joined.unwrap_or_else(ended)).boxed().shared();
        pulls.insert(name, pull.clone());
        pull
    }

    async fn pull(
        &self,
        name: &str,
        request: &BundleRequest,
        access: &Access,
    ) -> Result<Arc<[u8]>, BundleImageError> {
        let image = request.image.as_str();
        let failed = |code, text: String| BundleImageError::new(image, code, text);
        let io = |error: io::Error| {
            let folder = self.folder.display();
            failed(UNREACHABLE, format!("failed to write cache {folder}: {error}"))
        };
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await.map_err(|error| failed(UNREACHABLE, error.to_string()))?;
        let granted = access.options().await.map_err(|error| failed(UNREACHABLE, error))?;
        let work = self.folder.join("work");
        fs::create_dir_all(&work).map_err(io)?;
        let work = tempfile::tempdir_in(work).map_err(io)?;
        let dest = work.path().join("bundle");
        let source = Source::Image { reference: image.to_owned() };
        let limits =
            Limits { unpacked_bytes: UNPACKED_BYTES, download_bytes: DOWNLOAD_BYTES, ..Limits::default() };
        let options = Options { limits, ..granted.options.clone() };
        tracing::info!(image, catalog = %request.catalog, "pulling a bundle");
        let pulled = olm_catalog_sources::bundle(&source, &options, &dest);
        match tokio::time::timeout(DEADLINE, pulled).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                return Err(BundleImageError::of(image, &error, granted.explain(&error)));
            }
            Err(_) => {
                let text = format!("the pull timed out after {} s", DEADLINE.as_secs());
                return Err(failed(UNREACHABLE, granted.with_missing(&text)));
            }
        }
        let read = tokio::task::spawn_blocking({
            let request = request.clone();
            move || {
                let bundle = Bundle::from_dir(&dest).map_err(|error| error.to_string())?;
                drop(work);
                document::of(&bundle, &request.bundle, &request.package, &request.image)
            }
        });
        let read =
            read.await.map_err(|error| failed(INVALID, format!("the read was interrupted: {error}")))?;
        let document = read.map_err(|text| failed(INVALID, text))?;
        // A bundle that fails to be cached is still usable.
        if let Err(error) = self.keep(name, request, &document) {
            tracing::warn!(image, %error, "failed to cache a bundle");
        }
        Ok(document.into())
    }

    fn remember(&self, name: &str, result: &Result<Arc<[u8]>, BundleImageError>) {
        let mut failures = lock(&self.failures);
        let Err(error) = result else {
            failures.remove(name);
            return;
        };
        let now = Instant::now();
        if failures.len() >= FAILURES {
            failures.retain(|_, failed| failed.until > now);
        }
        let count = failures.get(name).map_or(0, |failed| failed.count);
        let wait = FIRST_WAIT.saturating_mul(1 << count.min(10)).min(LONGEST_WAIT);
        let error = BundleImageError { retry: wait, ..error.clone() };
        failures.insert(name.to_owned(), Failed { count: count + 1, until: now + wait, error });
    }

    fn remembered_failure(&self, name: &str) -> Option<BundleImageError> {
        let failures = lock(&self.failures);
        let failed = failures.get(name)?;
        let left = failed.until.checked_duration_since(Instant::now())?;
        Some(BundleImageError { retry: left.max(Duration::from_secs(1)), ..failed.error.clone() })
    }

    fn reference(&self, name: &str) -> PathBuf {
        self.folder.join("refs").join(name)
    }

    fn document_path(&self, digest: &str) -> PathBuf {
        self.folder.join("documents").join(digest)
    }

    fn cached(&self, name: &str, request: &BundleRequest) -> Option<CachedBundle> {
        let _guard = lock(&self.files);
        let path = self.reference(name);
        let reference: Reference = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        // The value names a file: only what `keep` wrote is accepted.
        if !reference.document.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let document = fs::read(self.document_path(&reference.document)).ok()?;
        if hex(&Sha256::digest(&document)) != reference.document {
            // Damaged on disk: it is pulled again.
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(self.document_path(&reference.document));
            return None;
        }
        // The modification time orders the eviction.
        if let Ok(file) = fs::File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        let age = jiff::Timestamp::now().duration_since(reference.pulled).unsigned_abs();
        Some(CachedBundle { document: document.into(), fresh: request.is_pinned() || age < TAG_CACHED })
    }

    fn keep(&self, name: &str, request: &BundleRequest, document: &[u8]) -> io::Result<()> {
        let _guard = lock(&self.files);
        for folder in ["refs", "documents"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        let digest = hex(&Sha256::digest(document));
        write(&self.folder, &self.document_path(&digest), document)?;
        let reference =
            Reference { image: request.image.clone(), document: digest, pulled: jiff::Timestamp::now() };
        write(&self.folder, &self.reference(name), &serde_json::to_vec(&reference)?)?;
        self.make_room()
    }

    /// Evicts the least recently used documents until the rest is within bounds, and documents without a
    /// reference.
    fn make_room(&self) -> io::Result<()> {
        let mut references = Vec::new();
        for entry in fs::read_dir(self.folder.join("refs"))?.flatten() {
            let used = entry.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            let read = fs::read(entry.path()).ok();
            match read.and_then(|text| serde_json::from_slice::<Reference>(&text).ok()) {
                Some(reference) => references.push((used, entry.path(), reference.document)),
                None => fs::remove_file(entry.path())?,
            }
        }
        references.sort_by(|a, b| b.cmp(a));
        let mut sizes: HashMap<String, u64> = HashMap::new();
        for entry in fs::read_dir(self.folder.join("documents"))?.flatten() {
            sizes.insert(entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len());
        }
        let mut total = 0;
        let mut needed: HashSet<&str> = HashSet::new();
        for (_, path, document) in &references {
            let size = if needed.contains(document.as_str()) {
                0
            } else {
                sizes.get(document).copied().unwrap_or_default()
            };
            // The newest document stays whatever its size.
            if total > 0 && total + size > self.most_bytes {
                fs::remove_file(path)?;
                continue;
            }
            total += size;
            needed.insert(document);
        }
        for document in sizes.keys().filter(|document| !needed.contains(document.as_str())) {
            fs::remove_file(self.document_path(document))?;
        }
        Ok(())
    }
}

/// Atomic: through a temporary file and a rename.
fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests;

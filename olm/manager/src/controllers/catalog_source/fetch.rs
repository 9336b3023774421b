//! Fetches a source into the catalog cache.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Api, Client, ResourceExt};
use olm_api::catalog_source::ConfigMapReference;
use olm_catalog::{Catalog, StoreError, build};
use olm_catalog_sources::{Fetched, Revision, Source, SourceError};
use olm_engine::catalogs::{Access, CacheDir, Key, Problem, hex, store_key};
use olm_signatures::{Requirement, Verifier};
use sha2::{Digest, Sha256};

use super::source::RequestedSource;

/// Time limit of a fetch, for a registry that sends a byte now and then. The largest catalogs take a minute
/// or two on a slow line.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// One read of a source.
pub(super) struct Job {
    pub(super) requested: RequestedSource,
    pub(super) key: Key,
    pub(super) run: u64,
    pub(super) client: Client,
    pub(super) access: Access,
    pub(super) cache_dir: Arc<CacheDir>,
    /// The last revision; `None` reads the source in any case.
    pub(super) previous: Option<Revision>,
}

/// The result of reading a source.
#[derive(Debug, Default)]
pub(super) struct FetchResult {
    /// `None` when nothing changed.
    pub(super) catalog: Option<Arc<Catalog>>,
    pub(super) revision: Option<Revision>,
    /// The exact source that was read, for display.
    pub(super) resolved: Option<String>,
    pub(super) config_map: Option<ConfigMapReference>,
    /// The signer, where a signature is required.
    pub(super) signer: Option<String>,
    /// Parts of the source that are not in the catalog.
    pub(super) notes: Vec<String>,
    /// Size of the files that were read.
    pub(super) bytes: u64,
}

impl Job {
    /// Reads the source. Cancellation-safe: when dropped, it leaves nothing behind and the catalog cache unchanged.
    pub(super) async fn run(&self) -> Result<FetchResult, Problem> {
        match tokio::time::timeout(DEADLINE, self.read()).await {
            Ok(result) => result,
            Err(_) => {
                let text = format!("timed out after {} minutes", DEADLINE.as_secs() / 60);
                Err(self.failed("DeadlineExceeded", text))
            }
        }
    }

    fn failed(&self, code: &'static str, message: impl Into<String>) -> Problem {
        Problem::new(self.requested.failure_reason(), code, message)
    }

    async fn read(&self) -> Result<FetchResult, Problem> {
        match &self.requested {
            // It is at hand and never changes.
            RequestedSource::Shipped => Ok(FetchResult::default()),
            RequestedSource::Directory(path) => self.directory(path).await,
            RequestedSource::ConfigMap(name) => self.config_map(name).await,
            RequestedSource::Image(reference) => {
                let mut got = self.fetch(&Source::Image { reference: reference.clone() }).await?;
                got.resolved = got.revision.as_ref().map(|revision| pinned(reference, &revision.digest));
                Ok(got)
            }
            RequestedSource::Signed { image, by } => self.signed(image, by).await,
            RequestedSource::Address(address) => self.fetch(&Source::Grpc { address: address.clone() }).await,
            RequestedSource::Http(url) => self.fetch(&Source::Http { url: url.clone() }).await,
        }
    }

    /// Verifies an image, and reads it by the verified digest: the tag may move meanwhile.
    async fn signed(&self, reference: &str, by: &Requirement) -> Result<FetchResult, Problem> {
        let granted = self.access.options().await.map_err(|error| self.failed("InvalidOptions", error))?;
        let source = Source::Image { reference: reference.to_owned() };
        let found = olm_catalog_sources::signatures(&source, &granted.options)
            .await
            .map_err(|error| self.failed(error.code(), granted.explain(&error)))?;
        let verifier =
            Verifier::new(by).map_err(|wrong| self.failed("SpecInvalidError", wrong.to_string()))?;
        let verified = verifier.verify(&found.digest, &found.signatures).map_err(|refused| {
            let unread = found.problems.first().map(|problem| format!("; {problem}")).unwrap_or_default();
            let hint = refused.reason.hint();
            self.failed(refused.reason.name(), format!("{}: {refused}{unread}; hint: {hint}", found.image))
        })?;
        let mut got = self.fetch(&Source::Image { reference: found.image }).await?;
        got.resolved = Some(pinned(reference, &found.digest));
        got.signer = Some(verified.signer.to_string());
        Ok(got)
    }

    async fn config_map(&self, name: &str) -> Result<FetchResult, Problem> {
        let namespace = &self.key.0;
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let map = match api.get_opt(name).await {
            Ok(Some(map)) => map,
            Ok(None) => {
                let text = format!(
                    "failed to get catalog config map {name}: there is none in namespace {namespace}"
                );
                return Err(self.failed("ConfigMapMissing", text));
            }
            Err(error) => {
                return Err(self.failed(
                    "ConfigMapUnreadable",
                    format!("failed to get catalog config map {name}: {error}"),
                ));
            }
        };
        let reference = ConfigMapReference {
            name: name.to_owned(),
            namespace: namespace.clone(),
            uid: map.uid(),
            resource_version: map.resource_version(),
            last_update_time: Some(Time(Timestamp::now())),
        };
        let data = map.data.unwrap_or_default();
        let mut got = self.fetch(&Source::ConfigMap { name: name.to_owned(), data }).await?;
        got.config_map = Some(reference);
        Ok(got)
    }

    /// Changes of a folder are detected by its files' names, sizes and times, which is cheap. It is then
    /// copied, so that the content is of one moment.
    async fn directory(&self, path: &Path) -> Result<FetchResult, Problem> {
        let read = {
            let path = path.to_owned();
            tokio::task::spawn_blocking(move || fingerprint(&path)).await
        };
        let (kind, fingerprint) =
            read.map_err(|error| self.failed("FileSystem", error.to_string()))?.map_err(|error| {
                self.failed("FileSystem", format!("failed to read {}: {error}", path.display()))
            })?;
        let revision = Revision { digest: fingerprint, etag: None };
        if self.previous.as_ref() == Some(&revision) {
            return Ok(FetchResult { revision: Some(revision), ..FetchResult::default() });
        }
        let source = match kind {
            Kind::File => Source::Tarball { path: path.to_owned() },
            Kind::Layout => Source::OciLayout { path: path.to_owned(), reference: None },
            Kind::Folder => Source::Directory { path: path.to_owned() },
        };
        // The fingerprint has changed, so it is read regardless of its digest.
        let mut got = self.fetch_from(&source, None).await?;
        got.revision = Some(revision);
        Ok(got)
    }

    async fn fetch(&self, source: &Source) -> Result<FetchResult, Problem> {
        self.fetch_from(source, self.previous.as_ref()).await
    }

    async fn fetch_from(&self, source: &Source, previous: Option<&Revision>) -> Result<FetchResult, Problem> {
        let granted = self.access.options().await.map_err(|error| self.failed("InvalidOptions", error))?;
        let work = Work(self.cache_dir.work(&self.key, self.run));
        let failed = |error: SourceError| self.failed(error.code(), granted.explain(&error));
        match olm_catalog_sources::fetch(source, &granted.options, previous, &work.0).await.map_err(failed)? {
            Fetched::Unchanged { revision } => {
                let resolved = Some(revision.digest.clone());
                Ok(FetchResult { revision: Some(revision), resolved, ..FetchResult::default() })
            }
            Fetched::New { revision, problems, .. } => {
                let stored = self.store(source, work).await?;
                Ok(FetchResult {
                    catalog: Some(stored.catalog),
                    resolved: Some(revision.digest.clone()),
                    revision: Some(revision),
                    notes: problems.iter().chain(&stored.problems).map(ToString::to_string).collect(),
                    bytes: stored.bytes,
                    ..FetchResult::default()
                })
            }
        }
    }

    async fn store(&self, source: &Source, work: Work) -> Result<Stored, Problem> {
        let (cache_dir, key, origin) =
            (Arc::clone(&self.cache_dir), store_key(&self.key), source.to_string());
        // Images declare their content by their labels; in other sources, a folder of bundles counts as a
        // catalog.
        let may_be_bundles =
            matches!(self.requested, RequestedSource::Directory(_) | RequestedSource::Http(_));
        let stored = tokio::task::spawn_blocking(move || {
            let bytes = size_of(&work.0).map_err(|error| ("FileSystem", error.to_string()))?;
            let (folder, problems) = match may_be_bundles {
                true => catalog_of(&work.0).map_err(|error| ("FileSystem", error))?,
                false => (work.0.clone(), Vec::new()),
            };
            let refreshed = cache_dir.store().refresh_dir(&key, &origin, &folder).map_err(|error| {
                let reason =
                    if matches!(error, StoreError::Unusable { .. }) { "NoPackage" } else { "FileSystem" };
                (reason, error.to_string())
            })?;
            Ok(Stored { catalog: refreshed.catalog, problems, bytes })
        });
        let stored = stored.await.map_err(|error| self.failed("FileSystem", error.to_string()))?;
        let stored = stored.map_err(|(reason, error)| self.failed(reason, error))?;
        if stored.catalog.is_empty() {
            let mut problems = stored.problems.iter().chain(&stored.catalog.problems);
            let problem = problems.next().map_or_else(String::new, |problem| format!("; {problem}"));
            return Err(self.failed("NoPackage", format!("{source} contains no usable package{problem}")));
        }
        Ok(stored)
    }
}

/// The result of storing a catalog.
struct Stored {
    catalog: Arc<Catalog>,
    /// Parts that are not in the catalog.
    problems: Vec<olm_catalog::Problem>,
    bytes: u64,
}

/// The folder that a source is fetched to; it is removed with the fetch.
struct Work(PathBuf);

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.display(), %error, "failed to remove fetched files");
        }
    }
}

/// A folder of bundles gets a generated catalog in addition.
fn catalog_of(folder: &Path) -> Result<(PathBuf, Vec<olm_catalog::Problem>), String> {
    match build::Layout::detect(folder).map_err(|error| error.to_string())? {
        build::Layout::Catalog => Ok((folder.to_owned(), Vec::new())),
        build::Layout::Packages(_) | build::Layout::Bundle(_) => {
            let out = folder.join(".built");
            let options = build::Options::default();
            let problems = build::write_bundle_repository(folder, &options, &out, build::Format::Json)
                .map_err(|error| error.to_string())?;
            Ok((out, problems))
        }
    }
}

/// The type of a path on disk.
enum Kind {
    File,
    Layout,
    Folder,
}

/// The type of a path, and a fingerprint of names, sizes and times of all files, which differs after any
/// write.
fn fingerprint(path: &Path) -> io::Result<(Kind, String)> {
    let kind = match fs::metadata(path)? {
        metadata if metadata.is_file() => Kind::File,
        _ if path.join("oci-layout").is_file() => Kind::Layout,
        _ => Kind::Folder,
    };
    let mut files = Vec::new();
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        // The copy follows links, once each; here their own time is enough.
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path)? {
                paths.push(entry?.path());
            }
        } else if metadata.is_symlink() {
            let target = fs::metadata(&path).ok();
            files.push((
                path,
                target.as_ref().map_or(0, fs::Metadata::len),
                target.and_then(|t| t.modified().ok()),
            ));
        } else {
            files.push((path, metadata.len(), metadata.modified().ok()));
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for (path, size, modified) in files {
        hash.update(format!("{}\0{size}\0{modified:?}\n", path.display()));
    }
    // The path is part of the fingerprint: two empty folders are different sources.
    Ok((kind, format!("{}:{}", path.display(), hex(&hash.finalize()))))
}

fn size_of(folder: &Path) -> io::Result<u64> {
    let mut size = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                size += metadata.len();
            }
        }
    }
    Ok(size)
}

/// A reference with its digest; the tag is kept for display.
fn pinned(reference: &str, digest: &str) -> String {
    let name = reference.split('@').next().unwrap_or(reference);
    format!("{name}@{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_again_only_when_a_file_in_it_changed() {
        // given a folder with a catalog
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.yaml");
        fs::write(&file, "schema: olm.package\nname: a\ndefaultChannel: stable\n").unwrap();
        let fingerprint = || fingerprint(folder.path()).unwrap().1;
        let before = fingerprint();
        // when nothing happens, then nothing changes
        assert_eq!(fingerprint(), before);
        // when a file grows
        fs::write(&file, "schema: olm.package\nname: a\ndefaultChannel: stable\n---\n").unwrap();
        assert_ne!(fingerprint(), before);
    }

    #[test]
    fn an_image_is_named_by_tag_and_digest() {
        assert_eq!(pinned("quay.io/x/cat:v1", "sha256:1"), "quay.io/x/cat:v1@sha256:1");
        assert_eq!(pinned("quay.io/x/cat@sha256:1", "sha256:1"), "quay.io/x/cat@sha256:1");
    }
}

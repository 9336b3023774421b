//! A directory of the operator. Files appear atomically: they are written under a temporary name, synced and
//! renamed. A second file holds what other stores keep as metadata of an object.

use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};

use super::store::{Labels, Stored};

/// Suffix of the file with the labels.
const LABELS: &str = ".meta";
/// Read size.
const CHUNK: usize = 1 << 20;

/// The directory of one namespace and bucket.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Keys were checked for `..`: they stay below the directory.
    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// A hidden file that no key can address; the same for every attempt of one object, so that attempts
    /// leave at most one.
    fn partial(&self, key: &str, owner: &str) -> PathBuf {
        let path = self.path(key);
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let owner: String = owner.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        folder.join(format!(".partial-{owner}"))
    }

    pub(super) async fn begin(&self, key: &str, owner: &str) -> io::Result<String> {
        let partial = self.partial(key, owner);
        blocking(move || {
            if let Some(folder) = partial.parent() {
                std::fs::create_dir_all(folder)?;
            }
            // A snapshot contains all keys, and the hashes of users' passwords.
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
            Ok(partial.to_string_lossy().into_owned())
        })
        .await
    }

    pub(super) async fn put_part(&self, id: String, offset: u64, bytes: Bytes) -> io::Result<()> {
        let path = self.own(id)?;
        blocking(move || {
            let file = std::fs::OpenOptions::new().write(true).open(path)?;
            file.write_all_at(&bytes, offset)
        })
        .await
    }

    pub(super) async fn complete(&self, key: &str, id: String, labels: &Labels) -> io::Result<()> {
        let (path, partial) = (self.path(key), self.own(id)?);
        let text = serde_json::to_vec(labels)?;
        blocking(move || {
            std::fs::File::open(&partial)?.sync_all()?;
            // Labels first, then the file: one without an owner would never be deleted.
            std::fs::write(with_ending(&path), text)?;
            std::fs::rename(&partial, &path)?;
            path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
        })
        .await
    }

    pub(super) async fn abort(&self, id: String) -> io::Result<()> {
        let path = self.own(id)?;
        blocking(move || absent_is_fine(std::fs::remove_file(path))).await
    }

    /// The id comes from a status, which others may write.
    fn own(&self, id: String) -> io::Result<PathBuf> {
        let path = PathBuf::from(id);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        if plain && path.starts_with(&self.root) && name.starts_with(".partial-") {
            return Ok(path);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not an upload of this directory"))
    }

    pub(super) async fn head(&self, key: &str) -> io::Result<Option<Stored>> {
        let path = self.path(key);
        blocking(move || {
            let size = match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() => meta.len(),
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let labels = std::fs::read(with_ending(&path)).ok();
            let labels = labels.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
            Ok(Some(Stored { size, labels }))
        })
        .await
    }

    pub(super) async fn get(&self, key: &str) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
        let file = tokio::fs::File::open(self.path(key)).await?;
        Ok(tokio_util::io::ReaderStream::with_capacity(file, CHUNK).boxed())
    }

    /// Names of files in the directory of `key` with this prefix.
    pub(super) async fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        let (folder, begin) = prefix.rsplit_once('/').map_or(("", prefix), |(folder, begin)| (folder, begin));
        let (path, folder, begin) = (self.path(folder), folder.to_owned(), begin.to_owned());
        blocking(move || {
            let entries = match std::fs::read_dir(path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let mut keys = Vec::new();
            for entry in entries {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name.starts_with(&begin) && !name.ends_with(LABELS) {
                    keys.push(if folder.is_empty() { name } else { format!("{folder}/{name}") });
                }
            }
            Ok(keys)
        })
        .await
    }

    pub(super) async fn delete(&self, key: &str) -> io::Result<()> {
        let path = self.path(key);
        blocking(move || {
            absent_is_fine(std::fs::remove_file(&path))?;
            absent_is_fine(std::fs::remove_file(with_ending(&path)))
        })
        .await
    }
}

fn with_ending(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(LABELS);
    name.into()
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

//! Fills a directory so that it appears atomically.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;

use crate::error::SourceError;

/// A directory next to the destination, on the same file system, deleted when its last user is gone: also
/// when a fetch is cancelled while it unpacks.
pub(crate) struct Stage {
    folder: Arc<TempDir>,
    files: PathBuf,
    scratch: PathBuf,
    dest: PathBuf,
}

impl Stage {
    /// Prepares to fill `dest`, which must not exist or be empty. Leftovers of a killed process are removed,
    /// so only one fetch for a destination may run at a time.
    pub fn beside(dest: &Path) -> Result<Self, SourceError> {
        match fs::read_dir(dest) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    let source = io::Error::new(io::ErrorKind::DirectoryNotEmpty, "not empty");
                    return Err(SourceError::Io { what: "fill", path: dest.to_owned(), source });
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(SourceError::io("fill", dest)(e)),
        }
        let name = dest.file_name().ok_or_else(|| {
            SourceError::io("fill", dest)(io::Error::new(io::ErrorKind::InvalidInput, "path has no name"))
        })?;
        let parent = dest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(SourceError::io("create", parent))?;
        let prefix = format!(".{}.fetch-", name.to_string_lossy());
        for entry in fs::read_dir(parent).map_err(SourceError::io("read", parent))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                fs::remove_dir_all(entry.path()).map_err(SourceError::io("remove", entry.path()))?;
            }
        }
        let folder = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(parent)
            .map_err(SourceError::io("create a directory in", parent))?;
        let (files, scratch) = (folder.path().join("files"), folder.path().join("scratch"));
        let stage = Self { folder: Arc::new(folder), files, scratch, dest: dest.to_owned() };
        stage.clear()?;
        Ok(stage)
    }

    /// The future destination.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Temporary files.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Deletes all files.
    pub fn clear(&self) -> Result<(), SourceError> {
        for folder in [&self.files, &self.scratch] {
            match fs::remove_dir_all(folder) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(SourceError::io("remove", folder)(e));
                }
                _ => fs::create_dir(folder).map_err(SourceError::io("create", folder))?,
            }
        }
        Ok(())
    }

    /// Runs blocking file work; the directory stays until it completes even if the caller is cancelled.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let folder = Arc::clone(&self.folder);
        blocking(move || {
            let _folder = folder;
            work()
        })
        .await
    }

    /// Renames the files to the destination.
    pub fn publish(self) -> Result<(), SourceError> {
        fs::rename(&self.files, &self.dest).map_err(SourceError::io("create", &self.dest))
    }
}

/// Runs blocking file work outside of the async executor.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(SourceError::malformed("the source", "the program is shutting down")),
        },
    }
}

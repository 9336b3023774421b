//! The files of a bundle, on disk or in memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Error, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use crate::error::BundleError;

/// Maximum file size: the largest real bundle has 6.8 MB in all.
pub(crate) const LARGEST_FILE: u64 = 16 << 20;
/// Maximum size of all files of a bundle together.
pub(crate) const LARGEST_BUNDLE: u64 = 64 << 20;
/// Maximum number of files in one directory; real bundles have up to 158.
const MOST_FILES: usize = 2_000;

/// Content of a directory, by name, without hidden files.
#[derive(Default)]
pub(super) struct Listing {
    pub files: Vec<String>,
    pub folders: Vec<String>,
}

pub(super) enum Tree<'a> {
    Disk {
        root: PathBuf,
        /// The canonical root: paths that lead out of it are not part of the bundle.
        real: PathBuf,
    },
    Memory {
        origin: String,
        files: BTreeMap<String, Cow<'a, [u8]>>,
    },
}

impl<'a> Tree<'a> {
    pub fn on_disk(root: &Path) -> Result<Self, BundleError> {
        let real =
            fs::canonicalize(root).map_err(|source| BundleError::Read { path: root.to_owned(), source })?;
        Ok(Self::Disk { root: root.to_owned(), real })
    }

    /// Paths are relative, with `/`; a leading `./` or `/` is ignored. Paths that lead upwards are left out.
    pub fn in_memory(origin: &str, files: impl IntoIterator<Item = (String, Cow<'a, [u8]>)>) -> Self {
        let files = files.into_iter().filter_map(|(path, content)| Some((normal(&path)?, content)));
        Self::Memory { origin: origin.to_owned(), files: files.collect() }
    }

    pub fn root(&self) -> PathBuf {
        match self {
            Self::Disk { root, .. } => root.clone(),
            Self::Memory { origin, .. } => PathBuf::from(origin),
        }
    }

    /// A file's name in messages.
    pub fn shown(&self, path: &str) -> String {
        match self {
            Self::Disk { root, .. } => root.join(path).display().to_string(),
            Self::Memory { .. } => path.to_owned(),
        }
    }

    pub fn is_folder(&self, path: &str) -> bool {
        match self {
            Self::Disk { root, .. } => root.join(path).is_dir(),
            Self::Memory { files, .. } => {
                let prefix = format!("{path}/");
                files.range(prefix.clone()..).next().is_some_and(|(file, _)| file.starts_with(&prefix))
            }
        }
    }

    pub fn list(&self, folder: &str) -> Result<Listing, BundleError> {
        let mut listing = Listing::default();
        match self {
            Self::Disk { root, .. } => {
                let dir = root.join(folder);
                let unreadable = |source| BundleError::Read { path: dir.clone(), source };
                for entry in fs::read_dir(&dir).map_err(unreadable)? {
                    let entry = entry.map_err(unreadable)?;
                    // A name that is not text cannot be printed; Kubernetes tools write none.
                    let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
                    let path = entry.path();
                    if name.starts_with('.') {
                        continue;
                    } else if path.is_dir() {
                        listing.folders.push(name);
                    } else if path.is_file() || entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                        listing.files.push(name);
                    }
                    if listing.files.len() > MOST_FILES {
                        let text = format!("it has more than {MOST_FILES} files");
                        return Err(unreadable(Error::new(ErrorKind::FileTooLarge, text)));
                    }
                }
            }
            Self::Memory { files, .. } => {
                let prefix = format!("{folder}/");
                let mut folders = BTreeSet::new();
                for (file, _) in files.range(prefix.clone()..) {
                    let Some(name) = file.strip_prefix(&prefix) else { break };
                    match name.split_once('/') {
                        _ if name.starts_with('.') => {}
                        Some((folder, _)) => {
                            folders.insert(folder.to_owned());
                        }
                        None => listing.files.push(name.to_owned()),
                    }
                }
                listing.folders = folders.into_iter().collect();
            }
        }
        listing.files.sort();
        listing.folders.sort();
        Ok(listing)
    }

    /// A file's content; never more than the limit is read.
    pub fn read(&self, path: &str) -> Result<Cow<'_, [u8]>, BundleError> {
        let too_large = || {
            let text = format!("it has more than {LARGEST_FILE} bytes, the maximum for a file");
            Error::new(ErrorKind::FileTooLarge, text)
        };
        match self {
            Self::Disk { root, real } => {
                let path = root.join(path);
                let failed = |source| BundleError::Read { path: path.clone(), source };
                let target = fs::canonicalize(&path).map_err(failed)?;
                if !target.starts_with(real) {
                    let text = "it is a link to a path outside of the bundle; replace it with the file";
                    return Err(failed(Error::new(ErrorKind::PermissionDenied, text)));
                }
                // Reading a pipe would block.
                if !target.is_file() {
                    return Err(failed(Error::new(ErrorKind::InvalidInput, "not a regular file")));
                }
                let mut content = Vec::new();
                let file = fs::File::open(&target).map_err(failed)?;
                // The size reported by the file system may be wrong, as for a device or a growing file.
                file.take(LARGEST_FILE + 1).read_to_end(&mut content).map_err(failed)?;
                if content.len() as u64 > LARGEST_FILE {
                    return Err(failed(too_large()));
                }
                Ok(Cow::Owned(content))
            }
            Self::Memory { files, .. } => {
                let content = files.get(path).map(Cow::as_ref).unwrap_or_default();
                if content.len() as u64 > LARGEST_FILE {
                    return Err(BundleError::Read { path: PathBuf::from(path), source: too_large() });
                }
                Ok(Cow::Borrowed(content))
            }
        }
    }
}

/// A relative path with `/` and without `.`; `None` when it leads upwards.
pub(super) fn normal(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

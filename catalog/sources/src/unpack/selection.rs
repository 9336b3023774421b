//! Selects directories of an archive.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// The directories of an archive to keep, with their targets.
#[derive(Clone, Debug, Default)]
pub struct DirectorySelection {
    folders: Vec<Folder>,
}

#[derive(Clone, Debug)]
struct Folder {
    from: Vec<Vec<u8>>,
    to: PathBuf,
}

impl DirectorySelection {
    /// Keeps nothing; start of a list of [`folder`](Self::folder)s.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn everything() -> Self {
        Self { folders: vec![Folder { from: Vec::new(), to: PathBuf::new() }] }
    }

    /// Keeps the directory `from`, counted from the root of the archive, as `to` in the destination. Of
    /// nested directories, the inner one counts.
    /// # Errors
    /// A message, where one of the two leads out of its root.
    pub fn folder(mut self, from: &str, to: &str) -> Result<Self, String> {
        let parts = |text: &str| -> Result<Vec<Vec<u8>>, String> {
            let parts = text.split('/').filter(|part| !matches!(*part, "" | "."));
            let parts: Vec<Vec<u8>> = parts.map(|part| part.as_bytes().to_vec()).collect();
            if parts.iter().any(|part| part == b".." || part.contains(&0)) {
                return Err(format!("directory {text:?} outside of the archive"));
            }
            Ok(parts)
        };
        let to = parts(to)?.iter().map(|part| OsStr::from_bytes(part)).collect();
        self.folders.push(Folder { from: parts(from)?, to });
        Ok(self)
    }

    /// The target of a path of the archive, if it is kept.
    pub(super) fn place(&self, path: &[&[u8]]) -> Option<PathBuf> {
        let inside = self.folders.iter().filter(|f| starts_with(path, &f.from));
        let folder = inside.max_by_key(|folder| folder.from.len())?;
        let rest = &path[folder.from.len()..];
        Some(rest.iter().fold(folder.to.clone(), |to, part| to.join(Path::new(OsStr::from_bytes(part)))))
    }

    /// Whether a path is one of the directories or above one, so that it must be a directory itself.
    pub(super) fn leads_to(&self, path: &[&[u8]]) -> bool {
        self.folders.iter().any(|folder| {
            folder.from.len() >= path.len() && folder.from.iter().zip(path).all(|(a, b)| a == b)
        })
    }
}

fn starts_with(path: &[&[u8]], start: &[Vec<u8>]) -> bool {
    path.len() >= start.len() && start.iter().zip(path).all(|(a, b)| a == b)
}

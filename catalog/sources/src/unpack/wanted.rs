//! Which folders of an archive to keep.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Which folders of an archive to keep, and where to put them.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    folders: Vec<Folder>,
}

#[derive(Clone, Debug)]
struct Folder {
    from: Vec<Vec<u8>>,
    to: PathBuf,
}

impl Wanted {
    /// Keeps nothing; start of a list of [`folder`](Self::folder)s.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Keeps the whole archive.
    #[must_use]
    pub fn everything() -> Self {
        Self { folders: vec![Folder { from: Vec::new(), to: PathBuf::new() }] }
    }

    /// Keeps the folder `from`, counted from the root of the archive, as `to` in the destination. Where
    /// folders lie in one another, the inner one counts.
    ///
    /// # Errors
    /// A sentence, where one of the two leads out of where it starts.
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

    /// Where a path of the archive goes to in the destination, if anywhere.
    pub(super) fn place(&self, path: &[&[u8]]) -> Option<PathBuf> {
        let inside = self.folders.iter().filter(|f| starts_with(path, &f.from));
        let folder = inside.max_by_key(|folder| folder.from.len())?;
        let rest = &path[folder.from.len()..];
        Some(rest.iter().fold(folder.to.clone(), |to, part| to.join(Path::new(OsStr::from_bytes(part)))))
    }

    /// Whether a path is one of the folders or above one, so that it has to be a folder itself.
    pub(super) fn leads_to(&self, path: &[&[u8]]) -> bool {
        self.folders.iter().any(|folder| {
            folder.from.len() >= path.len() && folder.from.iter().zip(path).all(|(a, b)| a == b)
        })
    }
}

fn starts_with(path: &[&[u8]], start: &[Vec<u8>]) -> bool {
    path.len() >= start.len() && start.iter().zip(path).all(|(a, b)| a == b)
}

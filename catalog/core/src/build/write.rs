//! Writes a catalog to files.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{BuildError, BuiltPackage};

/// File format of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `catalog.yaml`: for users and Git.
    #[default]
    Yaml,
    /// `catalog.json`, a document a line: for programs, several times faster to load.
    Json,
}

impl Format {
    fn file(self) -> &'static str {
        match self {
            Self::Yaml => "catalog.yaml",
            Self::Json => "catalog.json",
        }
    }

    /// The file of the other format, which would duplicate the package.
    fn other(self) -> &'static str {
        match self {
            Self::Yaml => Self::Json.file(),
            Self::Json => Self::Yaml.file(),
        }
    }
}

impl BuiltPackage {
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        let documents = self.documents.iter();
        match format {
            Format::Json => documents.map(|document| format!("{document}\n")).collect(),
            Format::Yaml => documents.map(|document| format!("---\n{}", yaml(document))).collect(),
        }
    }

    /// Writes `PACKAGE/catalog.yaml` or `PACKAGE/catalog.json` below a directory, replacing both.
    /// # Errors
    /// [`BuildError::Write`]
    pub fn write(&self, dir: &Path, format: Format) -> Result<(), BuildError> {
        self.write_text(&self.text(format), dir, format)
    }

    /// [`Self::write`] with an existing text.
    pub(super) fn write_text(&self, text: &str, dir: &Path, format: Format) -> Result<(), BuildError> {
        let folder = dir.join(&self.name);
        let path = folder.join(format.file());
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .and_then(|()| remove(&folder.join(format.other())));
        written.map_err(|source| BuildError::Write { path, source })
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Prefix of the directory in which a catalog is built before it is moved into place.
const STAGING: &str = ".olm-building-";

/// A directory for packages before they are moved into place, deleted on drop.
pub(super) struct Staging(TempDir);

impl Staging {
    /// Inside of the target directory, so that packages can be renamed. Leftovers of an interrupted build are
    /// removed.
    pub fn below(out: &Path) -> Result<Self, BuildError> {
        let failed = |source| BuildError::Write { path: out.to_owned(), source };
        fs::create_dir_all(out).map_err(failed)?;
        for entry in fs::read_dir(out).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(STAGING) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        tempfile::Builder::new().prefix(STAGING).tempdir_in(out).map(Self).map_err(failed)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Moves every package into place.
    pub fn move_to(self, out: &Path, format: Format) -> Result<(), BuildError> {
        let failed = |source| BuildError::Write { path: out.to_owned(), source };
        for entry in fs::read_dir(self.path()).map_err(failed)? {
            let made = entry.map_err(failed)?;
            let folder = out.join(made.file_name());
            let path = folder.join(format.file());
            let moved = fs::create_dir_all(&folder)
                .and_then(|()| fs::rename(made.path().join(format.file()), &path))
                .and_then(|()| remove(&folder.join(format.other())));
            moved.map_err(|source| BuildError::Write { path, source })?;
        }
        Ok(())
    }
}

fn yaml(document: &Value) -> String {
    // Every JSON document is valid YAML: the fallback always works.
    serde_yaml::to_string(document).unwrap_or_else(|_| format!("{document}\n"))
}

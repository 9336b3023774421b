//! Provides the files of a source.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use olm_catalog::{
    Catalog, Problem,
    build::{self, Format, Layout},
};
use olm_catalog_sources::{Fetched, Options, Revision, Source, bundle, fetch};
use tempfile::TempDir;

use super::{Named, registry::failure};
use crate::exit::{Code, Failure};

/// A local file-based catalog from any source. Temporary files are removed with it.
#[derive(Debug)]
pub struct Opened {
    /// The source as named by the user.
    pub origin: String,
    /// A file, or a folder of files.
    pub path: PathBuf,
    /// Problems of the sources that the catalog was built from.
    problems: Vec<Problem>,
    /// Prefix to strip from the paths of problems.
    prefix: Option<PathBuf>,
    /// The revision that a registry or web server reports.
    pub revision: Option<Revision>,
    /// Temporary folders.
    _temporary: Vec<TempDir>,
}

impl Opened {
    /// Fetches, unpacks or builds the catalog. A bundle is treated as a repository of one.
    pub async fn open(named: &Named, options: &Options) -> Result<Self, Failure> {
        let origin = named.shown();
        match named {
            Named::File(path) => {
                // Checked here for a clear message and the right exit code.
                File::open(path).map_err(|error| unreadable(path, &error))?;
                Ok(Self::of(origin, path.clone()))
            }
            Named::Folder(path) => Self::of(origin, path.clone()).made().await,
            Named::Stdin => {
                let folder = temporary()?;
                let path = folder.path().join("standard-input");
                let copied = copy_stdin(path.clone()).await;
                copied.map_err(|error| {
                    Failure::new(Code::Unexpected, format!("failed to read standard input: {error}"))
                })?;
                let prefix = Some(folder.path().to_owned());
                Ok(Self { prefix, _temporary: vec![folder], ..Self::of(origin, path) })
            }
            Named::Source(source) => Self::fetched(source, options, None)
                .await?
                .map_or_else(|| Err(Failure::new(Code::Unexpected, format!("{origin} was not read"))), Ok),
        }
    }

    /// Fetches a source; `None` if it is unchanged.
    pub async fn fetched(
        source: &Source,
        options: &Options,
        previous: Option<&Revision>,
    ) -> Result<Option<Self>, Failure> {
        let folder = temporary()?;
        let path = folder.path().join("files");
        let (revision, problems) = match fetch(source, options, previous, &path).await {
            Ok(Fetched::New { revision, problems, .. }) => (revision, problems),
            Ok(Fetched::Unchanged { .. }) => return Ok(None),
            Err(error) => return Err(failure(&error)),
        };
        let opened = Self {
            problems,
            prefix: Some(path.clone()),
            revision: Some(revision),
            _temporary: vec![folder],
            ..Self::of(source.to_string(), path)
        };
        opened.made().await.map(Some)
    }

    fn of(origin: String, path: PathBuf) -> Self {
        Self { origin, path, problems: Vec::new(), prefix: None, revision: None, _temporary: Vec::new() }
    }

    /// Builds a catalog from bundles, one package at a time, with inline manifests.
    async fn made(mut self) -> Result<Self, Failure> {
        let from = self.path.clone();
        let made = blocking(move || -> Result<_, Failure> {
            match Layout::detect(&from).map_err(|error| unread(&error))? {
                Layout::Catalog => Ok(None),
                Layout::Packages(_) | Layout::Bundle(_) => {
                    let folder = temporary()?;
                    let options = build::Options::default();
                    let problems =
                        build::write_bundle_repository(&from, &options, folder.path(), Format::Json);
                    Ok(Some((folder, problems.map_err(|error| unread(&error))?)))
                }
            }
        });
        if let Some((folder, problems)) = made.await?? {
            self.problems
                .extend(problems.into_iter().map(|problem| self.placed(problem)).collect::<Vec<_>>());
            self.path = folder.path().to_owned();
            self.prefix = Some(self.path.clone());
            self._temporary.push(folder);
        }
        Ok(self)
    }

    /// Reads only the problems, with little memory.
    pub async fn check(&self) -> Result<Catalog, Failure> {
        self.read(Catalog::check).await
    }

    /// Reads the content into memory.
    pub async fn load(&self) -> Result<Catalog, Failure> {
        self.read(|path| if path.is_file() { Catalog::load_file(path) } else { Catalog::load_dir(path) })
            .await
    }

    async fn read(&self, read: fn(&Path) -> Catalog) -> Result<Catalog, Failure> {
        let path = self.path.clone();
        let catalog = blocking(move || read(&path)).await?;
        Ok(self.named(catalog))
    }

    /// The catalog of [`Self::path`] with the name of the source, and with the problems of its build.
    pub fn named(&self, mut catalog: Catalog) -> Catalog {
        let found = std::mem::take(&mut catalog.problems);
        catalog.problems.clone_from(&self.problems);
        catalog.problems.extend(found.into_iter().map(|problem| self.placed(problem)));
        catalog.origin.clone_from(&self.origin);
        catalog
    }

    /// Replaces the path of a temporary folder in a problem, which the user does not know.
    pub fn placed(&self, mut problem: Problem) -> Problem {
        let Some(prefix) = &self.prefix else { return problem };
        let path = Path::new(&problem.place.path);
        if let Ok(inside) = path.strip_prefix(prefix) {
            problem.place.path = if inside.as_os_str().is_empty() {
                self.origin.clone()
            } else {
                inside.display().to_string()
            };
        }
        problem
    }
}

/// The folder of a bundle from any source.
#[derive(Debug)]
pub struct OpenedBundle {
    /// The source as named by the user.
    pub origin: String,
    pub path: PathBuf,
    /// The image that it was pulled from.
    pub image: Option<String>,
    _temporary: Option<TempDir>,
}

impl OpenedBundle {
    /// Fetches and unpacks a bundle, unless it is a folder.
    pub async fn open(named: &Named, options: &Options) -> Result<Self, Failure> {
        let origin = named.shown();
        let source = match named {
            Named::Folder(path) => {
                return Ok(Self { origin, path: path.clone(), image: None, _temporary: None });
            }
            Named::File(path) => {
                return Err(Failure::new(Code::Usage, format!("{} is a file, not a bundle", path.display()))
                    .hint("use the folder that contains manifests/ and metadata/"));
            }
            Named::Stdin => {
                return Err(Failure::new(Code::Usage, "standard input is not supported for bundles"));
            }
            Named::Source(source) => source,
        };
        let folder = temporary()?;
        let path = folder.path().join("bundle");
        bundle(source, options, &path).await.map_err(|error| failure(&error))?;
        let image = match source {
            Source::Image { reference } => Some(reference.clone()),
            Source::OciLayout { reference, .. } => reference.clone(),
            _ => None,
        };
        Ok(Self { origin, path, image, _temporary: Some(folder) })
    }
}

/// Runs file operations on a blocking thread, so that Ctrl-C takes effect immediately.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::new(Code::Unexpected, format!("internal error: {error}")))
}

/// The failure of a build.
pub fn unread(error: &build::BuildError) -> Failure {
    let code = match error {
        build::BuildError::Problems(_) => Code::Refused,
        build::BuildError::Nothing { .. } => Code::NotFound,
        build::BuildError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Code::NotFound,
        _ => Code::Unexpected,
    };
    Failure::new(code, error.to_string())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::Unexpected, format!("failed to read {}: {error}", path.display()))
}

fn temporary() -> Result<TempDir, Failure> {
    tempfile::Builder::new().prefix("olm-").tempdir().map_err(|error| {
        let text = format!("failed to create a folder in {}: {error}", std::env::temp_dir().display());
        Failure::new(Code::Unexpected, text).hint("set TMPDIR to another folder")
    })
}

async fn copy_stdin(to: PathBuf) -> io::Result<()> {
    let mut file = tokio::fs::File::create(to).await?;
    tokio::io::copy(&mut tokio::io::stdin(), &mut file).await?;
    tokio::io::AsyncWriteExt::flush(&mut file).await
}

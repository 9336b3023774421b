//! Repositories of bundles.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::layout::Layout;
use super::workers::{self, DirectoryResult, Progress};
use super::{BuildError, Built, Format, Options, problem, write};
use crate::catalog::Catalog;
use crate::problem::{Problem, Severity};

/// Builds a catalog from a directory of bundles, in memory.
/// The directory is a checkout with `operators/NAME/VERSION/{manifests,metadata}`, its directory `operators`,
/// the directory of a single operator, or a single bundle. The graphs equal those of upstream's tools for the
/// same bundles; see [`super::Mode`].
/// # Errors
/// [`BuildError::Read`] and [`BuildError::Nothing`] for any other directory; with [`Options::strict`],
/// [`BuildError::Problems`] for any problem.
pub fn from_bundle_repository(dir: &Path, options: &Options) -> Result<Built, BuildError> {
    let (packages, problems) = each(dir, options, &|_| {}, |_, package| Ok(package))?;
    Ok(Built { origin: dir.display().to_string(), packages, problems })
}

/// [`from_bundle_repository`] from directory to directory: `out/NAME/catalog.json` or `catalog.yaml`, a few
/// packages in memory at a time. The problems are returned. `out` changes only after everything is built;
/// existing packages that are not built stay.
/// # Errors
/// As [`from_bundle_repository`], and [`BuildError::Write`].
pub fn write_bundle_repository(
    dir: &Path,
    options: &Options,
    out: &Path,
    format: Format,
) -> Result<Vec<Problem>, BuildError> {
    write_bundle_repository_with_progress(dir, options, out, format, &|_| {})
}

/// [`write_bundle_repository`] with progress reports: several threads call `progress`, after every bundle.
/// # Errors
/// As [`write_bundle_repository`].
pub fn write_bundle_repository_with_progress(
    dir: &Path,
    options: &Options,
    out: &Path,
    format: Format,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Problem>, BuildError> {
    let staging = write::Staging::below(out)?;
    // Of two directories with one package the first one counts, whichever completes first.
    let written: Mutex<BTreeMap<String, usize>> = Mutex::default();
    let (_, problems) = each(dir, options, progress, |folder, package| {
        let text = package.text(format);
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get(&package.name).is_some_and(|first| *first < folder) {
            return Ok(());
        }
        package.write_text(&text, staging.path(), format)?;
        written.insert(package.name, folder);
        Ok(())
    })?;
    staging.move_to(out, format)?;
    Ok(problems)
}

/// The catalog in a directory of any layout: a file-based catalog unchanged, bundles with their manifests
/// inline.
/// # Errors
/// [`BuildError::Read`] when the directory cannot be listed.
pub fn load(dir: &Path) -> Result<Catalog, BuildError> {
    match Layout::detect(dir)? {
        Layout::Catalog => Ok(Catalog::load_dir(dir)),
        Layout::Packages(_) | Layout::Bundle(_) => {
            Ok(from_bundle_repository(dir, &Options::default())?.catalog())
        }
    }
}

/// Results for the packages of all directories, in the order of the directories, and all problems. `take`
/// gets each package with the index of its directory.
fn each<R: Send>(
    dir: &Path,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
    take: impl Fn(usize, super::BuiltPackage) -> Result<R, BuildError> + Sync,
) -> Result<(Vec<R>, Vec<Problem>), BuildError> {
    let folders = match Layout::detect(dir)? {
        Layout::Packages(folders) => folders,
        Layout::Bundle(bundle) => vec![bundle],
        Layout::Catalog => return Err(BuildError::Nothing { path: dir.to_owned() }),
    };
    let mut problems = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut taken = Vec::new();
    for (path, finished) in folders.iter().zip(workers::run(&folders, options, progress, &take)) {
        let DirectoryResult { packages, problems: found } = finished;
        problems.extend(found);
        for package in packages {
            if names.contains(&package.name) {
                let text = format!("package {} is in two directories; this one is omitted", package.name);
                let fix = "move all versions of a package into one directory";
                let (path, name) = (path.display().to_string(), &package.name);
                problems.push(problem(Severity::Error, &path, name, "package-duplicate", text, fix));
                continue;
            }
            problems.extend(package.problems);
            taken.push(package.taken?);
            names.push(package.name);
        }
    }
    if options.strict && problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(BuildError::Problems(problems));
    }
    Ok((taken, problems))
}

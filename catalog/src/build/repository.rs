//! Repositories of bundles.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use olm_bundle::Bundle;

use super::ci::Ci;
use super::folder::{self, Listing};
use super::graph::{Node, graph};
use super::layout::{self, Layout};
use super::native::Native;
use super::source::Source;
use super::{BuildError, Built, BuiltPackage, Format, Options, check, manifests, package, problem, write};
use crate::model::Catalog;
use crate::problem::{Problem, Severity};

/// Makes a catalog of a folder of bundles, in memory.
///
/// The folder is a checkout with `operators/NAME/VERSION/{manifests,metadata}`, or the folder `operators`
/// itself, or the one of a single operator, or a single bundle. The graphs are those that upstream's tools
/// make of the same bundles; see [`super::Mode`].
///
/// # Errors
/// [`BuildError::Read`] and [`BuildError::Nothing`] for a folder that is none of that; with
/// [`Options::strict`], [`BuildError::Problems`] when anything is wrong.
pub fn from_bundle_repository(dir: &Path, options: &Options) -> Result<Built, BuildError> {
    let mut built = Built { origin: dir.display().to_string(), ..Built::default() };
    built.problems = each(dir, options, |package| {
        built.packages.push(package);
        Ok(())
    })?;
    Ok(built)
}

/// [`from_bundle_repository`] from folder to folder: `out/NAME/catalog.json` or `catalog.yaml`, a few packages
/// in memory at a time. The problems are returned. Nothing in `out` changes before everything is made;
/// packages that were there and are not made stay.
///
/// # Errors
/// As [`from_bundle_repository`], and [`BuildError::Write`].
pub fn write_bundle_repository(
    dir: &Path,
    options: &Options,
    out: &Path,
    format: Format,
) -> Result<Vec<Problem>, BuildError> {
    let staging = write::Staging::below(out)?;
    let problems = each(dir, options, |package| package.write(staging.path(), format))?;
    staging.put(out, format)?;
    Ok(problems)
}

/// The catalog in a folder, whatever its layout is: a file-based catalog as it stands, bundles with their
/// manifests inline.
///
/// # Errors
/// [`BuildError::Read`] when the folder cannot be listed.
pub fn load(dir: &Path) -> Result<Catalog, BuildError> {
    match Layout::detect(dir)? {
        Layout::Catalog => Ok(Catalog::load_dir(dir)),
        Layout::Packages(_) | Layout::Bundle(_) => {
            Ok(from_bundle_repository(dir, &Options::default())?.catalog())
        }
    }
}

/// Hands out the packages in the order of their folders, read by as many threads as there are cores.
fn each(
    dir: &Path,
    options: &Options,
    mut take: impl FnMut(BuiltPackage) -> Result<(), BuildError>,
) -> Result<Vec<Problem>, BuildError> {
    let folders = match Layout::detect(dir)? {
        Layout::Packages(folders) => folders,
        Layout::Bundle(bundle) => vec![bundle],
        Layout::Catalog => return Err(BuildError::Nothing { path: dir.to_owned() }),
    };
    let mut problems = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    for batch in folders.chunks(threads) {
        let made = thread::scope(|scope| {
            let workers: Vec<_> = batch.iter().map(|path| scope.spawn(|| operator(path, options))).collect();
            let finished = workers.into_iter().zip(batch);
            finished.map(|(worker, path)| worker.join().unwrap_or_else(|_| crashed(path))).collect::<Vec<_>>()
        });
        for (path, Made { packages, problems: found }) in batch.iter().zip(made) {
            problems.extend(found);
            for package in packages {
                if names.contains(&package.name) {
                    let text = format!("package {} is in two folders; this one is left out", package.name);
                    let fix = "keep all versions of a package in one folder";
                    let path = path.display().to_string();
                    problems.push(problem(
                        Severity::Error,
                        &path,
                        &package.name,
                        "package-duplicate",
                        text,
                        fix,
                    ));
                    continue;
                }
                names.push(package.name.clone());
                if options.strict {
                    problems.extend(check(&package, &path.display().to_string()));
                }
                take(package)?;
            }
        }
    }
    if options.strict && problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(BuildError::Problems(problems));
    }
    Ok(problems)
}

/// What came of one folder.
#[derive(Default)]
pub(super) struct Made {
    pub packages: Vec<BuiltPackage>,
    pub problems: Vec<Problem>,
}

/// A parser that panics costs its own package alone.
fn crashed(path: &Path) -> Made {
    let text = "reading this folder failed unexpectedly; it is left out".to_owned();
    let fix = "report it with the folder attached";
    let problems =
        vec![problem(Severity::Error, &path.display().to_string(), "", "package-crashed", text, fix)];
    Made { packages: Vec::new(), problems }
}

fn operator(dir: &Path, options: &Options) -> Made {
    let path = dir.display().to_string();
    let failed = |error: &BuildError| Made {
        packages: Vec::new(),
        problems: vec![problem(
            Severity::Error,
            &path,
            "",
            "package-unreadable",
            format!("{error}; the package is left out"),
            "make the folder readable",
        )],
    };
    if layout::is_bundle(dir) {
        return bundles(dir, &[dir.to_owned()], options);
    }
    let listing = match folder::list(dir) {
        Ok(listing) => listing,
        Err(error) => return failed(&error),
    };
    if manifests::is_package(&listing) {
        return manifests::operator(dir, &listing, options);
    }
    let Listing { folders, .. } = listing;
    let versions: Vec<PathBuf> = folders.into_iter().filter(|path| layout::is_bundle(path)).collect();
    bundles(dir, &versions, options)
}

fn bundles(dir: &Path, versions: &[PathBuf], options: &Options) -> Made {
    let mut made = Made::default();
    let path = dir.display().to_string();
    let ci = Ci::read(dir, &mut made.problems);
    let native = Native::read(dir, &ci, options, &mut made.problems);
    let mut sources: Vec<Source> = Vec::new();
    for at in versions {
        match Bundle::from_dir(at) {
            Ok(bundle) => {
                let image = native.as_ref().and_then(|native| native.image_of(&bundle, at));
                sources.extend(Source::of(&bundle, at, image, options, &mut made.problems));
            }
            Err(error) => {
                let (at, text) = (at.display().to_string(), format!("{error}; the bundle is left out"));
                let fix = "correct the bundle";
                made.problems.push(problem(Severity::Error, &at, "", "bundle-unreadable", text, fix));
            }
        }
    }
    let Some(name) = package_name(dir, &sources) else {
        if made.problems.is_empty() {
            let text = "there is no bundle in this folder; the package is left out".to_owned();
            let fix = "add VERSION/manifests and VERSION/metadata";
            made.problems.push(problem(
                Severity::Warning,
                &path,
                &folder::name(dir),
                "package-empty",
                text,
                fix,
            ));
        }
        return made;
    };
    sources.retain(|source| {
        let belongs = source.package == name;
        if !belongs {
            made.problems.push(misplaced(source, &name));
        }
        belongs
    });
    let package = match native {
        Some(native) => native.assemble(&name, &path, sources, &mut made.problems),
        None => {
            let nodes: Vec<Node> = sources.iter().map(|source| source.node.clone()).collect();
            let graph = graph(ci.mode, &nodes, options.bridge_gaps);
            package::assemble(&name, &path, sources, graph, &mut made.problems)
        }
    };
    made.packages.extend(package);
    made
}

/// The folder's name where any bundle says it, else what the first bundle says.
fn package_name(dir: &Path, sources: &[Source]) -> Option<String> {
    let folder = folder::name(dir);
    let mut named = sources.iter().map(|source| &source.package);
    if named.clone().any(|name| *name == folder) { Some(folder) } else { named.next().cloned() }
}

fn misplaced(source: &Source, package: &str) -> Problem {
    let Source { node, package: said, path, .. } = source;
    let text = format!(
        "{} is left out: metadata/annotations.yaml says package {said}, its folder is package {package}",
        node.name
    );
    problem(Severity::Error, path, package, "package-mismatch", text, "keep one package to a folder")
}

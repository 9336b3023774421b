//! Package directories read by all cores: the work is distributed bundle by bundle.
//!
//! The bundles of a package follow each other, so that at most as many packages are in memory as there are
//! threads. The largest ones come first, to keep every thread busy until the end. The result does not depend
//! on either.

use std::cmp::Reverse;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use olm_bundle::Bundle;

use super::ci::Ci;
use super::folder::{self, Listing};
use super::graph::{Node, graph};
use super::layout;
use super::native::Native;
use super::source::Source;
use super::{BuildError, Built, BuiltPackage, Options, check, manifests, package, problem};
use crate::parallel;
use crate::problem::{Problem, Severity};

/// Progress of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Completed package directories, and all.
    pub packages: (usize, usize),
    /// Read bundles, and all.
    pub bundles: (usize, usize),
}

/// Result of one directory.
pub(super) struct DirectoryResult<R> {
    pub packages: Vec<PackageResult<R>>,
    pub problems: Vec<Problem>,
}

/// Result for a package.
pub(super) struct PackageResult<R> {
    pub name: String,
    /// Errors of the loader for it; only checked with [`Options::strict`].
    pub problems: Vec<Problem>,
    pub taken: Result<R, BuildError>,
}

/// Builds the packages of all directories; the results are in the order of the directories.
pub(super) fn run<R: Send>(
    folders: &[PathBuf],
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
    take: &(impl Fn(usize, BuiltPackage) -> Result<R, BuildError> + Sync),
) -> Vec<DirectoryResult<R>> {
    let operators: Vec<Operator<'_>> = folders.iter().map(|dir| Operator::list(dir)).collect();
    let mut order: Vec<usize> = (0..operators.len()).collect();
    order.sort_by_key(|index| Reverse(operators[*index].tasks()));
    let tasks: Vec<(usize, usize)> = order
        .into_iter()
        .flat_map(|index| (0..operators[index].tasks()).map(move |version| (index, version)))
        .collect();
    let (packages, bundles) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut finished = parallel::map(threads, &tasks, |(index, version)| {
        let operator = &operators[*index];
        let last = operator.read(*version, options);
        let finished = last.then(|| {
            let finished = finish(operator, *index, options, take);
            packages.fetch_add(1, Ordering::AcqRel);
            (*index, finished)
        });
        let read = bundles.fetch_add(1, Ordering::AcqRel) + 1;
        progress(Progress {
            packages: (packages.load(Ordering::Acquire), operators.len()),
            bundles: (read, tasks.len()),
        });
        finished
    });
    finished.sort_by_key(|finished| finished.as_ref().map(|(index, _)| *index));
    finished.into_iter().flatten().map(|(_, finished)| finished).collect()
}

fn finish<R>(
    operator: &Operator<'_>,
    index: usize,
    options: &Options,
    take: &(impl Fn(usize, BuiltPackage) -> Result<R, BuildError> + Sync),
) -> DirectoryResult<R> {
    let Built { packages, problems, .. } = catch_panic(operator.dir, || operator.made(options))
        .unwrap_or_else(|crashed| Built { problems: vec![*crashed], ..Built::default() });
    let origin = operator.dir.display().to_string();
    let take = |package: BuiltPackage| PackageResult {
        name: package.name.clone(),
        problems: if options.strict { check(&package, &origin) } else { Vec::new() },
        taken: take(index, package),
    };
    DirectoryResult { packages: packages.into_iter().map(take).collect(), problems }
}

/// A panic in a parser only affects the directory being read.
fn catch_panic<T>(dir: &Path, work: impl FnOnce() -> T) -> Result<T, Box<Problem>> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let text = "unexpected failure while reading this directory; it is omitted".to_owned();
        let fix = "report this with the directory attached";
        Box::new(problem(Severity::Error, &dir.display().to_string(), "", "package-crashed", text, fix))
    })
}

/// The directory of a package.
struct Operator<'a> {
    dir: &'a Path,
    form: Form,
    /// Computed once for all bundles.
    setup: OnceLock<Setup>,
    /// The read bundles.
    read: Mutex<Vec<Option<Read>>>,
    left: AtomicUsize,
}

enum Form {
    /// The directories of its bundles.
    Bundles(Vec<PathBuf>),
    /// Package manifests, which are read as one.
    Manifests(Listing),
    /// Listing failed.
    Unreadable(String),
}

struct Setup {
    ci: Ci,
    native: Option<Native>,
    problems: Vec<Problem>,
}

#[derive(Default)]
struct Read {
    source: Option<Source>,
    problems: Vec<Problem>,
}

impl<'a> Operator<'a> {
    fn list(dir: &'a Path) -> Self {
        let form = if layout::is_bundle(dir) {
            Form::Bundles(vec![dir.to_owned()])
        } else {
            match folder::list(dir) {
                Err(error) => Form::Unreadable(error.to_string()),
                Ok(listing) if manifests::is_package(&listing) => Form::Manifests(listing),
                Ok(Listing { folders, .. }) => {
                    Form::Bundles(folders.into_iter().filter(|path| layout::is_bundle(path)).collect())
                }
            }
        };
        let tasks = form.tasks();
        let read = Mutex::new(std::iter::repeat_with(|| None).take(tasks).collect());
        Self { dir, form, setup: OnceLock::new(), read, left: AtomicUsize::new(tasks) }
    }

    fn tasks(&self) -> usize {
        self.form.tasks()
    }

    /// Reads a bundle; true for the last one.
    fn read(&self, version: usize, options: &Options) -> bool {
        if let Form::Bundles(versions) = &self.form
            && let Some(at) = versions.get(version)
        {
            let read = catch_panic(at, || self.bundle(at, options))
                .unwrap_or_else(|crashed| Read { source: None, problems: vec![*crashed] });
            self.read.lock().unwrap_or_else(PoisonError::into_inner)[version] = Some(read);
        }
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn setup(&self, options: &Options) -> &Setup {
        self.setup.get_or_init(|| {
            let mut problems = Vec::new();
            let ci = Ci::read(self.dir, &mut problems);
            let native = Native::read(self.dir, &ci, options, &mut problems);
            Setup { ci, native, problems }
        })
    }

    fn bundle(&self, at: &Path, options: &Options) -> Read {
        let mut read = Read::default();
        let native = self.setup(options).native.as_ref();
        match Bundle::from_dir(at) {
            Ok(bundle) => {
                let image = native.and_then(|native| native.image_of(&bundle, at));
                read.source = Source::of(&bundle, at, image, options, &mut read.problems);
            }
            Err(error) => {
                let (at, text) = (at.display().to_string(), format!("{error}; the bundle is omitted"));
                let fix = "correct the bundle";
                read.problems.push(problem(Severity::Error, &at, "", "bundle-unreadable", text, fix));
            }
        }
        read
    }

    /// Assembles the package from the read bundles.
    fn made(&self, options: &Options) -> Built {
        match &self.form {
            Form::Bundles(_) => self.assembled(options),
            Form::Manifests(listing) => manifests::operator(self.dir, listing, options),
            Form::Unreadable(error) => {
                let path = self.dir.display().to_string();
                let text = format!("{error}; the package is omitted");
                let fix = "make the directory readable";
                let problem = problem(Severity::Error, &path, "", "package-unreadable", text, fix);
                Built { problems: vec![problem], ..Built::default() }
            }
        }
    }

    fn assembled(&self, options: &Options) -> Built {
        let setup = self.setup(options);
        let mut made = Built { problems: setup.problems.clone(), ..Built::default() };
        let mut sources: Vec<Source> = Vec::new();
        let read = std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner));
        for Read { source, problems } in read.into_iter().flatten() {
            sources.extend(source);
            made.problems.extend(problems);
        }
        let path = self.dir.display().to_string();
        let Some(name) = package_name(self.dir, &sources) else {
            if made.problems.is_empty() {
                let text = "no bundle in this directory; the package is omitted".to_owned();
                let (fix, folder) = ("add VERSION/manifests and VERSION/metadata", folder::name(self.dir));
                let empty = problem(Severity::Warning, &path, &folder, "package-empty", text, fix);
                made.problems.push(empty);
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
        let package = match &setup.native {
            Some(native) => native.assemble(&name, &path, sources, &mut made.problems),
            None => {
                let nodes: Vec<Node> = sources.iter().map(|source| source.node.clone()).collect();
                let graph = graph(setup.ci.mode, &nodes, options.bridge_gaps);
                package::assemble(&name, &path, sources, graph, &mut made.problems)
            }
        };
        made.packages.extend(package);
        made
    }
}

impl Form {
    /// At least one, so that a task completes every directory.
    fn tasks(&self) -> usize {
        match self {
            Self::Bundles(versions) => versions.len().max(1),
            Self::Manifests(_) | Self::Unreadable(_) => 1,
        }
    }
}

/// The directory's name if any bundle names that package, otherwise the package of the first bundle.
fn package_name(dir: &Path, sources: &[Source]) -> Option<String> {
    let folder = folder::name(dir);
    let mut named = sources.iter().map(|source| &source.package);
    if named.clone().any(|name| *name == folder) { Some(folder) } else { named.next().cloned() }
}

fn misplaced(source: &Source, package: &str) -> Problem {
    let Source { node, package: named, path, .. } = source;
    let text = format!(
        "{} is omitted: metadata/annotations.yaml names package {named}, its directory package {package}",
        node.name
    );
    problem(Severity::Error, path, package, "package-mismatch", text, "use one directory per package")
}

//! `olm catalog build`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use futures::{StreamExt as _, TryStreamExt as _};
use olm_bundle::Bundle;
use olm_catalog::{
    Catalog, Problem, Severity,
    build::{BuildError, BuiltPackage, Format, Options, write_bundle_repository_with_progress},
    template::{self, Resolved},
};
use olm_catalog_sources::Source;
use serde_json::Value;
use tempfile::TempDir;

use super::{diff, reporter::Reporter, validate::problem_line};
use crate::{
    args::BuildArgs,
    exit::{Code, Failure},
    output::{Documents, Report, Stream, count},
    source::{self, Named, OpenedBundle, blocking, unread},
};

/// Number of concurrent pulls of bundles of a template.
const PULLS: usize = 4;

pub async fn run(args: BuildArgs) -> Result<(), Failure> {
    if let Some(file) = args.output.as_ref().filter(|path| path.is_file()) {
        return Err(Failure::new(
            Code::Usage,
            format!("--output: {} is a file, expected a folder", file.display()),
        ));
    }
    let unanswered = |failure: Failure| if args.check { failure.unanswered() } else { failure };
    let made = make(&args).await.map_err(unanswered)?;
    match &args.output {
        None => print(made.path()),
        Some(dir) if args.check => check(made.path(), dir).map_err(Failure::unanswered),
        Some(dir) => publish(made.path(), dir),
    }
}

fn format(format: Documents) -> Format {
    match format {
        Documents::Json => Format::Json,
        Documents::Yaml => Format::Yaml,
    }
}

/// Builds the catalog in a temporary folder, so that an error leaves no partial result.
async fn make(args: &BuildArgs) -> Result<TempDir, Failure> {
    let folder = beside(args.output.as_deref().filter(|_| !args.check))?;
    if let Some(file) = &args.template {
        let packages = of_template(file, args).await?;
        for package in packages {
            safe(&package.name)?;
            package.write(folder.path(), format(args.format)).map_err(|error| unread(&error))?;
        }
        return Ok(folder);
    }
    let repository = args.repository.clone().unwrap_or_default();
    let options = Options {
        image_template: args.image_template.as_deref().map(source::image_template).transpose()?,
        bridge_gaps: args.bridge_gaps,
        strict: !args.keep_going,
        ..Options::default()
    };
    let (from, to, format) = (repository.clone(), folder.path().to_owned(), format(args.format));
    let reporter = Reporter::new();
    let build = move || {
        write_bundle_repository_with_progress(&from, &options, &to, format, &|progress| {
            reporter.report(progress)
        })
    };
    match blocking(build).await? {
        Ok(problems) => report_problems(&problems, args.warnings),
        Err(BuildError::Problems(problems)) => {
            report_problems(&problems, args.warnings);
            let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
            let text = format!(
                "failed to build a catalog from {}: {}",
                repository.display(),
                count(errors, "error")
            );
            return Err(Failure::new(Code::Refused, text)
                .hint("correct the errors, or skip invalid bundles with --keep-going"));
        }
        Err(error) => return Err(unread(&error)),
    }
    Ok(folder)
}

/// A temporary folder on the file system of the output, so that files can be moved there.
fn beside(output: Option<&Path>) -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".olm-build-");
    let Some(dir) = output else { return Ok(builder.tempdir()?) };
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(failed("create", parent))?;
    builder.tempdir_in(parent).map_err(failed("create a folder in", parent))
}

/// Prints to standard error: standard output is for the catalog.
fn report_problems(problems: &[Problem], warnings: bool) {
    let (errors, rest): (Vec<&Problem>, Vec<&Problem>) =
        problems.iter().partition(|problem| problem.severity == Severity::Error);
    for problem in errors.iter().chain(rest.iter().filter(|_| warnings)) {
        eprintln!("{}", problem_line(problem));
    }
    if !warnings && !rest.is_empty() {
        eprintln!("{} (--warnings shows them)", count(rest.len(), "warning"));
    }
}

async fn of_template(file: &Path, args: &BuildArgs) -> Result<Vec<BuiltPackage>, Failure> {
    let text = fs::read(file).map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { Code::NotFound } else { Code::Unexpected };
        Failure::new(code, format!("failed to read {}: {error}", file.display()))
    })?;
    let refused =
        |error: template::TemplateError| Failure::new(Code::Refused, format!("{}: {error}", file.display()));
    let references = template::references(&text).map_err(refused)?;
    let options = source::options(&args.registry)?;
    let resolved: BTreeMap<String, Resolved> = futures::stream::iter(references)
        .map(|reference| async {
            let bundle = resolve(&reference, &options).await?;
            Ok::<_, Failure>((reference, bundle))
        })
        .buffered(PULLS)
        .try_collect()
        .await?;
    let resolver = |reference: &str| {
        resolved.get(reference).cloned().ok_or_else(|| "not among the references of the template".to_owned())
    };
    Ok(packages(template::render(&text, &resolver).map_err(refused)?))
}

/// A bundle of a template: an existing folder, else an image.
async fn resolve(reference: &str, options: &olm_catalog_sources::Options) -> Result<Resolved, Failure> {
    let is_folder = Path::new(reference).is_dir();
    let named = if is_folder {
        Named::Folder(reference.into())
    } else {
        Named::Source(Source::Image { reference: reference.to_owned() })
    };
    let opened = OpenedBundle::open(&named, options).await?;
    let bundle = Bundle::from_dir(&opened.path)
        .map_err(|error| Failure::new(Code::Refused, format!("bundle {reference}: {error}")))?;
    Ok(Resolved::of(&bundle, if is_folder { "" } else { reference }))
}

/// Checks a package name before it becomes the name of a folder.
fn safe(package: &str) -> Result<(), Failure> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if package.bytes().all(plain) && !package.starts_with('.') && !package.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::Refused, format!("template: package name {package:?} is not valid"))
        .hint("use lower-case letters, digits and `-`"))
}

/// The documents of a template by package, in their original order.
fn packages(documents: Vec<Value>) -> Vec<BuiltPackage> {
    let mut packages: Vec<BuiltPackage> = Vec::new();
    for document in documents {
        let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = if text("schema") == "olm.package" { text("name") } else { text("package") }.to_owned();
        match packages.iter_mut().find(|package| package.name == name) {
            Some(package) => package.documents.push(document),
            None => packages.push(BuiltPackage { name, documents: vec![document] }),
        }
    }
    packages
}

/// The files of the built catalog, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let list = |dir: &Path| -> Result<Vec<PathBuf>, Failure> {
        let entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> =
            entries.map_err(failed("read", dir))?.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        Ok(paths)
    };
    let mut files = Vec::new();
    for package in list(folder)? {
        files.extend(list(&package)?);
    }
    Ok(files)
}

fn print(made: &Path) -> Result<(), Failure> {
    let mut out = Stream::new();
    for file in files(made)? {
        let mut text = fs::File::open(&file).map_err(failed("read", &file))?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = io::Read::read(&mut text, &mut buffer).map_err(failed("read", &file))?;
            if n == 0 || out.is_closed() {
                break;
            }
            out.bytes(&buffer[..n])?;
        }
    }
    out.end()
}

/// Compares the content: file names, order and formatting are ignored.
fn check(made: &Path, dir: &Path) -> Result<(), Failure> {
    if !dir.is_dir() {
        return Err(Failure::new(Code::No, format!("{} does not exist", dir.display()))
            .hint("run the command without --check to create it"));
    }
    let (was, mut is) = (Catalog::load_dir(dir), Catalog::load_dir(made));
    is.origin = "the build".to_owned();
    if !diff::print(&was, &is, Report::Text)? {
        return Ok(());
    }
    Err(Failure::new(Code::No, format!("{} is not up to date with its sources", dir.display()))
        .hint("run the command without --check to update it"))
}

/// Moves the built files to the output; unchanged files are not touched.
fn publish(made: &Path, dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(failed("create", dir))?;
    let mut packages = BTreeSet::new();
    let (mut written, mut same) = (0, 0);
    for from in files(made)? {
        let relative = from.strip_prefix(made).unwrap_or(&from);
        let to = dir.join(relative);
        packages.extend(relative.parent().map(Path::to_owned));
        if is_same(&from, &to) {
            same += 1;
            continue;
        }
        let folder = to.parent().unwrap_or(dir);
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        fs::rename(&from, &to).map_err(failed("write", &to))?;
        written += 1;
        // A leftover file in the other format would duplicate the package.
        for name in ["catalog.yaml", "catalog.json"] {
            let other = folder.join(name);
            if other != to && other.is_file() {
                fs::remove_file(&other).map_err(failed("remove", &other))?;
            }
        }
    }
    let entries = fs::read_dir(dir).map_err(failed("read", dir))?.flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let is_made = path.strip_prefix(dir).is_ok_and(|name| packages.contains(name));
        if !is_made && ["catalog.yaml", "catalog.json"].iter().any(|name| path.join(name).is_file()) {
            eprintln!(
                "warning: {} does not belong to a package of this build; remove it if it is outdated",
                path.display()
            );
        }
    }
    let packages = count(packages.len(), "package");
    eprintln!("{}: {packages}, {written} written, {same} unchanged", dir.display());
    Ok(())
}

fn is_same(a: &Path, b: &Path) -> bool {
    let length = |path: &Path| fs::metadata(path).map(|file| file.len()).ok();
    length(a).is_some() && length(a) == length(b) && fs::read(a).ok() == fs::read(b).ok()
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Failure + 'a {
    move |error| Failure::new(Code::Unexpected, format!("failed to {what} {}: {error}", path.display()))
}

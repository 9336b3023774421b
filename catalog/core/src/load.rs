//! Reads catalogs: files to documents, documents to packages.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use sha2::{Digest, Sha256};

use crate::assemble::{Document, assemble, order};
use crate::assembly::Depth;
use crate::canonical::{self, SyntaxFindings};
use crate::catalog::Catalog;
use crate::content::{Content, StoreFiles};
use crate::group::Group;
use crate::header::Header;
use crate::hex::hex;
use crate::input::{Input, Text};
use crate::model::Package;
use crate::parallel;
use crate::problem::{self, Place, Problem, Severity, UnplacedProblem};
use crate::scan::{Entry, Scan};
use crate::spelling;
use crate::summary::Summary;

/// Maximum file size: the whole community catalog has 87 MB.
const LARGEST_FILE: u64 = 4 << 30;

/// Maximum size of a file `.indexignore`.
const LARGEST_RULES: u64 = 1 << 20;

/// Maximum depth of directories: deeper ones indicate a loop of links.
const DEEPEST: usize = 32;

/// Maximum number of open files while a catalog is read.
const MOST_OPEN: usize = 256;

/// Maximum number of threads: beyond it the disk is the limit.
const MOST_THREADS: usize = 8;

impl Catalog {
    /// Reads every file of a directory and its subdirectories, except those in `.indexignore`. Its content is
    /// kept in memory; [`crate::Store`] keeps it on disk.
    #[must_use]
    pub fn load_dir(dir: &Path) -> Self {
        Self::load(&dir.display().to_string(), Files::of_dir(dir, false), &TextStorage::memory())
    }

    #[must_use]
    pub fn load_file(path: &Path) -> Self {
        Self::load(&path.display().to_string(), Files::of_file(path), &TextStorage::memory())
    }

    #[must_use]
    pub fn from_bytes(origin: &str, bytes: &[u8]) -> Self {
        Self::load(origin, Files::of_bytes(origin, bytes), &TextStorage::memory())
    }

    /// Reads a directory or file only for its problems: the result has no digest, its packages cannot be
    /// read, and only a few of them are in memory at a time.
    #[must_use]
    pub fn check(path: &Path) -> Self {
        let files = if path.is_file() { Files::of_file(path) } else { Files::of_dir(path, false) };
        Self::load(&path.display().to_string(), files, &TextStorage::Nothing)
    }

    fn load(origin: &str, files: Files<'_>, storage: &TextStorage<'_>) -> Self {
        let Loaded { groups, digest, problems, .. } = load(files, |_| None, storage);
        let content = match storage {
            TextStorage::Memory(texts) => {
                Content::Memory(std::mem::take(&mut *texts.lock().unwrap_or_else(PoisonError::into_inner)))
            }
            TextStorage::Disk(_) | TextStorage::Nothing => Content::Nowhere,
        };
        Self { origin: origin.to_owned(), digest, problems, groups, content, ..Self::default() }
    }
}

/// Storage of the packages' texts.
pub(crate) enum TextStorage<'a> {
    Memory(Mutex<BTreeMap<String, Arc<String>>>),
    Disk(&'a StoreFiles),
    Nothing,
}

impl TextStorage<'_> {
    fn memory() -> Self {
        Self::Memory(Mutex::default())
    }

    fn insert(&self, package: &str, digest: &str, text: &Arc<String>) -> Result<(), (PathBuf, io::Error)> {
        match self {
            Self::Memory(texts) => {
                let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
                texts.insert(package.to_owned(), Arc::clone(text));
                Ok(())
            }
            Self::Disk(disk) => disk.write(digest, text),
            Self::Nothing => Ok(()),
        }
    }
}

pub(crate) struct Loaded {
    pub groups: BTreeMap<String, Group>,
    pub digest: String,
    pub problems: Vec<Problem>,
    /// Number of packages that differ from before.
    pub reread: usize,
    /// Why the result could not be stored.
    pub failure: Option<(PathBuf, io::Error)>,
}

/// Reads files; packages unchanged since `old` are reused.
pub(crate) fn load<'o>(
    files: Files<'_>,
    old: impl Fn(&str) -> Option<&'o Group> + Sync,
    storage: &TextStorage<'_>,
) -> Loaded {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(MOST_THREADS);
    let scan = Scan::of(&files.inputs, threads, matches!(storage, TextStorage::Nothing));
    let packages: Vec<(&str, Vec<&Entry>)> = scan.by_package().into_iter().collect();

    let done =
        parallel::map(threads, &packages, |(name, entries)| read(&scan, name, entries, old(name), storage));

    let mut problems = files.problems;
    problems.extend(scan.problems.iter().cloned());
    let mut loaded = Loaded {
        groups: BTreeMap::new(),
        digest: String::new(),
        problems: Vec::new(),
        reread: 0,
        failure: None,
    };
    for ((name, entries), read) in packages.iter().zip(done) {
        let place = |document: usize| entries.get(document).map(|entry| scan.place(entry));
        problems.extend(read.group.problems.iter().map(|problem| problem.at(place)));
        loaded.reread += usize::from(read.anew);
        loaded.failure = loaded.failure.or(read.failure);
        if read.group.bytes > 0 {
            loaded.groups.insert((*name).to_owned(), read.group);
        }
    }
    if scan.entries.is_empty() && problems.is_empty() {
        let place = Place { path: files.origin, ..Place::default() };
        let fix = "use a directory or file with olm.package, olm.channel and olm.bundle documents";
        problems.push(Problem::new(Severity::Warning, place, "catalog-empty", "empty catalog".into(), fix));
    }
    problems.sort_by(|a, b| (&a.place, &a.code, &a.text).cmp(&(&b.place, &b.code, &b.text)));
    if !matches!(storage, TextStorage::Nothing) {
        loaded.digest = digest_of_groups(&loaded.groups);
    }
    loaded.problems = problems;
    loaded
}

struct Read {
    group: Group,
    anew: bool,
    failure: Option<(PathBuf, io::Error)>,
}

fn read(
    scan: &Scan<'_>,
    name: &str,
    entries: &[&Entry],
    old: Option<&Group>,
    storage: &TextStorage<'_>,
) -> Read {
    let mut problems = Vec::new();
    let mut texts = Vec::with_capacity(entries.len());
    for (source, entry) in entries.iter().enumerate() {
        match scan.text(entry) {
            Ok(text) => texts.push((source, *entry, text)),
            Err(error) => {
                let fix = "read the catalog again; its files changed during the read";
                let text = format!("failed to read: {error}");
                document_problem(source, name, "unreadable", text, fix).list(&mut problems);
            }
        }
    }
    let kept = !matches!(storage, TextStorage::Nothing);
    let source = if kept { digest_of(&texts) } else { String::new() };
    if let Some(old) = old.filter(|old| old.source == source && problems.is_empty()) {
        return Read { group: old.clone(), anew: false, failure: None };
    }

    let mut documents: Vec<(usize, &Header, String)> = Vec::with_capacity(texts.len());
    for (source, entry, text) in texts {
        if let Some(json) = document(source, entry, text, name, kept, &mut problems) {
            documents.push((source, &entry.header, json));
        }
    }
    documents.sort_by(|a, b| order(a.1, &a.2).cmp(&order(b.1, &b.2)));
    let mut text = String::with_capacity(documents.iter().map(|(_, _, json)| json.len() + 1).sum());
    let mut located = Vec::with_capacity(documents.len());
    let mut listed: Vec<(String, Vec<(String, usize)>)> = Vec::new();
    for (source, header, json) in documents {
        let start = text.len();
        text.push_str(&json);
        let name = (header.name.clone(), json.len());
        match listed.last_mut().filter(|(schema, _)| *schema == header.schema) {
            Some((_, names)) => names.push(name),
            None => listed.push((header.schema.clone(), vec![name])),
        }
        located.push(Document { header: header.clone(), range: start..text.len(), source });
        text.push('\n');
    }
    let text = Arc::new(text);
    let assembly = assemble(name, &text, &located, if kept { Depth::Check } else { Depth::Glance });
    problems.extend(assembly.problems);
    let replaced = assembly.package.as_ref().filter(|_| kept).map(Package::replaced);
    let summary = if kept { Summary::of } else { Summary::counts };
    let (summary, words) = assembly.package.as_ref().map(summary).unzip();
    let mut group = Group {
        source,
        bytes: text.len() as u64,
        documents: listed,
        summary,
        words: words.unwrap_or_default(),
        replaced: replaced.unwrap_or_default(),
        problems,
        ..Group::default()
    };
    let mut failure = None;
    if kept && !text.is_empty() {
        group.digest = hex(&Sha256::digest(text.as_bytes()));
        group.checksum = crc32fast::hash(text.as_bytes());
        failure = storage.insert(name, &group.digest, &text).err();
    }
    Read { group, anew: true, failure }
}

/// `sha256:…` over the packages and the digests of their canonical texts. It does not depend on file names,
/// the order of files and documents, formatting, key order, or YAML versus JSON.
fn digest_of_groups(groups: &BTreeMap<String, Group>) -> String {
    let mut hasher = Sha256::new();
    for (name, group) in groups {
        hasher.update(name.as_bytes());
        hasher.update(b"\n");
        hasher.update(group.digest.as_bytes());
        hasher.update(b"\n");
    }
    format!("sha256:{}", hex(&hasher.finalize()))
}

/// Digest of documents as read.
fn digest_of(texts: &[(usize, &Entry, Vec<u8>)]) -> String {
    let mut hasher = Sha256::new();
    for (_, _, text) in texts {
        hasher.update(text.len().to_le_bytes());
        hasher.update(text);
    }
    hex(&hasher.finalize())
}

/// A valid document as JSON: in canonical form where it is kept, otherwise as written.
fn document(
    source: usize,
    entry: &Entry,
    text: Vec<u8>,
    package: &str,
    canonical: bool,
    problems: &mut Vec<UnplacedProblem>,
) -> Option<String> {
    let header = &entry.header;
    let mut refuse = |code, text: String, fix| {
        document_problem(source, package, code, text, fix).list(problems);
        None
    };
    if !header.is_map {
        let fix = "remove the file, or add it to .indexignore";
        return refuse("not-a-map", "document is not a map".into(), fix);
    }
    if header.schema.is_empty() {
        let fix = "set schema to olm.package, olm.channel, olm.bundle or a custom schema, or add the file to \
             .indexignore";
        return refuse("schema-missing", "document has no schema".into(), fix);
    }
    let read = || -> Result<_, Box<dyn std::error::Error>> {
        // Without storage, the document was inspected already.
        if !canonical && !entry.irregular {
            return Ok((String::from_utf8(text)?, SyntaxFindings::default()));
        }
        let mut reader = serde_json::Deserializer::from_slice(&text);
        let mut json = Vec::with_capacity(text.len());
        // JSON cannot grow, but a number may be written with more digits.
        let findings = canonical::write(&mut reader, &mut json, text.len() * 16 + 1024)?;
        if findings.respelled {
            let mut value: serde_json::Value = serde_json::from_slice(&json)?;
            spelling::normalize_case(&mut value)?;
            value.sort_all_objects();
            return Ok((value.to_string(), findings));
        }
        Ok((String::from_utf8(json)?, findings))
    };
    match read() {
        Ok((json, findings)) => {
            for key in findings.duplicates.into_iter().filter(|_| canonical) {
                let problem = Problem::duplicate_key(Place::default(), header, &key);
                UnplacedProblem { document: Some(source), other: None, problem }.list(problems);
            }
            Some(json)
        }
        Err(error) => {
            let error = error.to_string();
            let text = error.split(" at line ").next().unwrap_or_default().to_owned();
            refuse("syntax", text, "correct the document; the others are loaded")
        }
    }
}

fn document_problem(
    document: usize,
    package: &str,
    code: &'static str,
    text: String,
    fix: &'static str,
) -> UnplacedProblem {
    let mut problem = Problem::new(Severity::Error, Place::default(), code, text, fix);
    problem.package = problem::shown_name(package);
    UnplacedProblem { document: Some(document), other: None, problem }
}

pub(crate) struct Files<'a> {
    origin: String,
    inputs: Vec<Input<'a>>,
    problems: Vec<Problem>,
}

impl<'a> Files<'a> {
    pub fn of_bytes(origin: &str, bytes: &'a [u8]) -> Self {
        let input = Input { path: origin.to_owned(), text: Text::Memory(bytes) };
        Self { origin: origin.to_owned(), inputs: vec![input], problems: Vec::new() }
    }

    pub fn of_file(path: &Path) -> Self {
        let mut files = Self::empty(path);
        files.file(path, None);
        files
    }

    /// Every file of a directory that is not ignored. `relative` omits the directory's own name in all
    /// places.
    pub fn of_dir(dir: &Path, relative: bool) -> Self {
        let mut files = Self::empty(dir);
        files.folder(dir, &mut Vec::new(), relative.then_some(dir));
        files
    }

    fn empty(path: &Path) -> Self {
        Self { origin: path.display().to_string(), inputs: Vec::new(), problems: Vec::new() }
    }

    /// Reads a directory; `ignores` has the rules of its parent directories.
    fn folder(&mut self, dir: &Path, ignores: &mut Vec<Gitignore>, root: Option<&Path>) {
        let entries = match fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(dir, root, &error),
        };
        if ignores.len() > DEEPEST {
            let error = io::Error::other(format!("nested more than {DEEPEST} levels deep"));
            return self.unreadable(dir, root, &error);
        }
        ignores.push(self.rules(dir, root));
        let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        for path in paths {
            if is_ignored(&path, ignores) || path.file_name().is_some_and(|name| name == ".indexignore") {
                continue;
            }
            if path.is_dir() {
                self.folder(&path, ignores, root);
            } else {
                self.file(&path, root);
            }
        }
        ignores.pop();
    }

    /// The rules of `.indexignore` in a directory. Invalid ones are reported, and the others hold.
    fn rules(&mut self, dir: &Path, root: Option<&Path>) -> Gitignore {
        let path = dir.join(".indexignore");
        if !path.exists() {
            return Gitignore::empty();
        }
        let mut builder = GitignoreBuilder::new(dir);
        let invalid = match regular_file(&path, LARGEST_RULES) {
            Ok(_) => builder.add(&path).map(|error| io::Error::other(error.to_string())),
            Err(error) => Some(error),
        };
        let (rules, invalid) = match builder.build() {
            Ok(rules) => (rules, invalid),
            Err(error) => (Gitignore::empty(), Some(io::Error::other(error.to_string()))),
        };
        if let Some(error) = invalid {
            self.unreadable(&path, root, &error);
        }
        rules
    }

    fn file(&mut self, path: &Path, root: Option<&Path>) {
        let opened = regular_file(path, LARGEST_FILE).and_then(|length| {
            // Each open file counts against the process's limit; after the first ones they are opened when
            // read.
            let file = File::open(path)?;
            let file = (self.inputs.len() < MOST_OPEN).then_some(file);
            Ok(Text::Disk { path: path.to_owned(), file, length })
        });
        match opened {
            Ok(text) => self.inputs.push(Input { path: shown(path, root), text }),
            Err(error) => self.unreadable(path, root, &error),
        }
    }

    fn unreadable(&mut self, path: &Path, root: Option<&Path>, error: &io::Error) {
        let place = Place { path: shown(path, root), ..Place::default() };
        let text = format!("failed to read: {error}");
        let fix = "check that it exists and is readable";
        self.problems.push(Problem::new(Severity::Error, place, "unreadable", text, fix));
    }
}

/// The length of a file. Catalogs are untrusted: it may be a link to a device, or too large.
fn regular_file(path: &Path, largest: u64) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > largest {
        return Err(io::Error::other(format!("larger than {largest} bytes")));
    }
    Ok(metadata.len())
}

fn shown(path: &Path, root: Option<&Path>) -> String {
    root.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path).display().to_string()
}

/// The rules of the nearest directory decide.
fn is_ignored(path: &Path, ignores: &[Gitignore]) -> bool {
    let is_folder = path.is_dir();
    let verdict =
        ignores.iter().rev().map(|rules| rules.matched(path, is_folder)).find(|found| !found.is_none());
    matches!(verdict, Some(Match::Ignore(_)))
}

#[cfg(test)]
mod tests;

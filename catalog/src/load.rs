//! Reading catalogs: files to documents, documents to a model.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::assemble::{Assembly, Stored};
use crate::document::{self, Broken, Document, Place};
use crate::ignore::IgnoreFile;
use crate::model::{Catalog, StoredDocument};
use crate::problem::{Problem, Severity};

/// The whole community catalog has 87 MB; a file beyond this is not read.
const LARGEST_FILE: u64 = 1 << 30;

/// Folders nested deeper than this are not a catalog but a loop of links.
const DEEPEST: usize = 32;

impl Catalog {
    /// Reads every file of a folder and its subfolders, except what `.indexignore` names.
    #[must_use]
    pub fn load_dir(dir: &Path) -> Self {
        let mut loader = Loader::default();
        loader.folder(dir, &mut Vec::new());
        loader.finish(dir.display().to_string())
    }

    /// Reads a stream of JSON or YAML documents.
    #[must_use]
    pub fn from_bytes(origin: &str, bytes: &[u8]) -> Self {
        let mut loader = Loader::default();
        loader.stream(origin, bytes);
        loader.finish(origin.to_owned())
    }

    /// The catalog as JSON lines, one document a line: what `/api/v1/all` serves.
    #[must_use]
    pub fn to_json_lines(&self) -> Vec<u8> {
        let mut lines =
            Vec::with_capacity(self.documents.iter().map(|document| document.json.len() + 1).sum());
        for document in &self.documents {
            lines.extend_from_slice(document.json.as_bytes());
            lines.push(b'\n');
        }
        lines
    }
}

#[derive(Default)]
struct Loader {
    stored: Vec<Stored>,
    problems: Vec<Problem>,
}

impl Loader {
    /// Reads a folder; `ignores` holds the rules of the folders above it with their depth below the root.
    fn folder(&mut self, dir: &Path, ignores: &mut Vec<(PathBuf, IgnoreFile)>) {
        let entries = match fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(dir, &error),
        };
        if ignores.len() > DEEPEST {
            return self
                .unreadable(dir, &std::io::Error::other(format!("it is nested more than {DEEPEST} deep")));
        }
        let rules = match fs::read(dir.join(".indexignore")) {
            Ok(text) => IgnoreFile::parse(&String::from_utf8_lossy(&text)),
            Err(_) => IgnoreFile::default(),
        };
        ignores.push((dir.to_owned(), rules));
        let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        for path in paths {
            if is_ignored(&path, ignores) || path.file_name().is_some_and(|name| name == ".indexignore") {
                continue;
            }
            if path.is_dir() {
                self.folder(&path, ignores);
            } else {
                self.file(&path);
            }
        }
        ignores.pop();
    }

    fn file(&mut self, path: &Path) {
        let read = fs::metadata(path).and_then(|metadata| {
            if metadata.len() > LARGEST_FILE {
                return Err(std::io::Error::other(format!("it has more than {LARGEST_FILE} bytes")));
            }
            fs::read(path)
        });
        match read {
            Ok(bytes) => self.stream(&path.display().to_string(), &bytes),
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn stream(&mut self, path: &str, bytes: &[u8]) {
        document::read(path, bytes, &mut |document| match document {
            Ok(document) => self.document(document),
            Err(Broken { place, message, package }) => self.problems.push(Problem {
                severity: Severity::Error,
                path: place.path,
                line: place.line,
                column: place.column,
                package,
                code: "syntax",
                text: message,
                fix: "correct the file; its other documents and all other packages are loaded",
            }),
        });
    }

    fn document(&mut self, Document { place, mut value }: Document) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (schema, name) = (text("schema"), text("name"));
        let package = if schema == "olm.package" { name.clone() } else { text("package") };
        if !value.is_object() {
            let text = "this document is not a map".to_owned();
            return self.refuse(
                place,
                None,
                "not-a-map",
                text,
                "remove the file, or name it in .indexignore",
            );
        }
        if schema.is_empty() {
            let text = "this document has no schema".to_owned();
            let fix = "add schema: olm.package, olm.channel, olm.bundle or your own; or name the file in .indexignore";
            return self.refuse(
                place,
                Some(package).filter(|name| !name.is_empty()),
                "schema-missing",
                text,
                fix,
            );
        }
        value.sort_all_objects();
        let json = Arc::from(value.to_string());
        self.stored.push(Stored { place, document: StoredDocument { schema, package, name, json } });
    }

    fn refuse(
        &mut self,
        place: Place,
        package: Option<String>,
        code: &'static str,
        text: String,
        fix: &'static str,
    ) {
        let Place { path, line, column } = place;
        self.problems.push(Problem {
            severity: Severity::Error,
            path,
            line,
            column,
            package,
            code,
            text,
            fix,
        });
    }

    fn unreadable(&mut self, path: &Path, error: &std::io::Error) {
        let place = Place { path: path.display().to_string(), line: 0, column: 0 };
        self.refuse(
            place,
            None,
            "unreadable",
            format!("cannot be read: {error}"),
            "check that it exists and may be read",
        );
    }

    fn finish(mut self, origin: String) -> Catalog {
        if self.stored.is_empty() && self.problems.is_empty() {
            let place = Place { path: origin.clone(), line: 0, column: 0 };
            let Place { path, line, column } = place;
            self.problems.push(Problem {
                severity: Severity::Warning,
                path,
                line,
                column,
                package: None,
                code: "catalog-empty",
                text: "there is nothing in it".to_owned(),
                fix: "point to a folder or file with olm.package, olm.channel and olm.bundle documents",
            });
        }
        Assembly::of(origin, self.stored, self.problems)
    }
}

/// The rules of the nearest folder decide.
fn is_ignored(path: &Path, ignores: &[(PathBuf, IgnoreFile)]) -> bool {
    let is_folder = path.is_dir();
    ignores
        .iter()
        .rev()
        .find_map(|(dir, rules)| rules.verdict(&path.strip_prefix(dir).ok()?.to_string_lossy(), is_folder))
        .unwrap_or(false)
}

#[cfg(test)]
mod tests;

//! Reads bundles from directories, from files in memory and from catalog objects.

mod metadata;
mod tree;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metadata::Metadata;
use serde_json::Value;
use tree::{LARGEST_BUNDLE, Tree};

use crate::error::{BundleError, Place};
use crate::model::{self, Bundle, kind, name};
use crate::provenance::{Provenance, Spot};
use crate::validate::{Severity, note, repeated_keys};
use crate::yaml::{self, Document};

/// Maximum number of collected problems, to bound memory.
const MOST_PROBLEMS: usize = 200;

impl Bundle {
    /// Reads a `registry+v1` directory: `manifests/` and `metadata/`.
    /// Annotations, dependencies and properties are read from every file of `metadata/`, whatever its name,
    /// as upstream does. Links that lead out of the directory are rejected.
    /// # Errors
    /// [`BundleError`], with file, line and column for an error in a file.
    pub fn from_dir(dir: &Path) -> Result<Self, BundleError> {
        strict(read_dir(dir))
    }

    /// Reads a bundle from files in memory: path, such as `manifests/csv.yaml`, and content. Files that are
    /// not part of the bundle are ignored; paths that lead upwards are left out.
    /// # Errors
    /// As [`Bundle::from_dir`].
    pub fn from_files<'a, P, C>(
        origin: &str,
        files: impl IntoIterator<Item = (P, C)>,
    ) -> Result<Self, BundleError>
    where
        P: Into<String>,
        C: Into<Cow<'a, [u8]>>,
    {
        strict(read_files(origin, files))
    }

    /// Builds a bundle from manifests, as catalogs store them inline.
    /// # Errors
    /// [`BundleError::CsvCount`] unless there is exactly one ClusterServiceVersion, and
    /// [`BundleError::Shape`] when a manifest is not an object.
    pub fn from_objects(objects: Vec<Value>) -> Result<Self, BundleError> {
        let mut load = Load::default();
        for (index, object) in objects.into_iter().enumerate() {
            let place = Place { file: format!("object {} of the bundle", index + 1), line: 0, column: 0 };
            load.add_object(place, object, None);
        }
        strict(load.assemble("the bundle"))
    }
}

/// The readable parts, and all problems.
pub(crate) struct Loaded {
    pub bundle: Option<Bundle>,
    pub problems: Vec<BundleError>,
}

fn strict(loaded: Loaded) -> Result<Bundle, BundleError> {
    match (loaded.problems.into_iter().next(), loaded.bundle) {
        (Some(problem), _) => Err(problem),
        (None, Some(bundle)) => Ok(bundle),
        (None, None) => {
            Err(BundleError::CsvCount { origin: "the bundle".into(), found: 0, names: String::new() })
        }
    }
}

pub(crate) fn read_dir(dir: &Path) -> Loaded {
    match Tree::on_disk(dir) {
        Ok(tree) => read_tree(&tree),
        Err(problem) => Loaded { bundle: None, problems: vec![problem] },
    }
}

pub(crate) fn read_files<'a, P, C>(origin: &str, files: impl IntoIterator<Item = (P, C)>) -> Loaded
where
    P: Into<String>,
    C: Into<Cow<'a, [u8]>>,
{
    let files = files.into_iter().map(|(path, content)| (path.into(), content.into()));
    read_tree(&Tree::in_memory(origin, files))
}

fn read_tree(tree: &Tree<'_>) -> Loaded {
    let mut load = Load::default();
    let layout = |what: &str| BundleError::Layout { path: tree.root(), what: what.to_owned() };
    if tree.is_folder("metadata") {
        load.metadata_files(tree);
        if load.metadata.annotations.is_empty() {
            load.problems.push(layout("no file in metadata/ has annotations"));
        }
    } else {
        load.problems.push(layout("there is no metadata/"));
    }

    let annotated =
        load.metadata.annotations.get(model::MANIFESTS).map_or("manifests/", String::as_str).to_owned();
    match tree::normal(&annotated) {
        None => {
            load.problems.push(layout(&format!("the annotation {} points outside of it", model::MANIFESTS)))
        }
        Some(folder) if tree.is_folder(&folder) => load.manifest_files(tree, &folder),
        Some(_) => load.problems.push(layout(&format!("there is no {annotated}"))),
    }
    load.assemble(&tree.root().display().to_string())
}

#[derive(Default)]
struct Load {
    metadata: Metadata,
    objects: Vec<(Value, Option<Spot>)>,
    provenance: Provenance,
    problems: Vec<BundleError>,
    bytes: u64,
}

impl Load {
    fn metadata_files(&mut self, tree: &Tree<'_>) {
        for path in self.list(tree, "metadata") {
            for (document, spot) in self.read(tree, &path) {
                let file = tree.shown(&path);
                let problems = self.metadata.add(&file, document.value, spot, &mut self.provenance);
                self.problems.extend(problems);
            }
        }
    }

    fn manifest_files(&mut self, tree: &Tree<'_>, folder: &str) {
        for path in self.list(tree, folder) {
            let documents = self.read(tree, &path);
            let file = tree.shown(&path);
            if let Some((second, _)) = documents.get(1) {
                let place = Place { file: file.clone(), line: second.line, column: 1 };
                let text = format!("the file has {} documents; opm reads the first only", documents.len());
                let fix = "put each manifest into a file of its own";
                self.provenance.notes.push(note(Severity::Warning, "manifest-documents", place, text, fix));
            }
            for (document, spot) in documents {
                let place = Place { file: file.clone(), line: document.line, column: 1 };
                self.add_object(place, document.value, Some(spot));
            }
        }
    }

    /// The files of a directory; subdirectories are not part of a bundle.
    fn list(&mut self, tree: &Tree<'_>, folder: &str) -> Vec<String> {
        let listing = match tree.list(folder) {
            Ok(listing) => listing,
            Err(problem) => {
                self.problems.push(problem);
                return Vec::new();
            }
        };
        for inner in listing.folders {
            let place = Place { file: tree.shown(&format!("{folder}/{inner}")), line: 0, column: 0 };
            let text = "it is a folder; what is in it is not part of the bundle".to_owned();
            let fix = format!("move its files to {folder}/, or remove it");
            self.provenance.notes.push(note(Severity::Warning, "bundle-subfolder", place, text, &fix));
        }
        listing.files.into_iter().map(|file| format!("{folder}/{file}")).collect()
    }

    /// The readable documents of a file; errors in the others become problems.
    fn read(&mut self, tree: &Tree<'_>, path: &str) -> Vec<(Document, Spot)> {
        let file = tree.shown(path);
        let text: Arc<str> = match tree.read(path).and_then(|content| {
            self.bytes += content.len() as u64;
            if self.bytes > LARGEST_BUNDLE {
                let text = format!("with it, the bundle has more than {LARGEST_BUNDLE} bytes");
                let source = std::io::Error::new(std::io::ErrorKind::FileTooLarge, text);
                return Err(BundleError::Read { path: PathBuf::from(&file), source });
            }
            yaml::text_of(&file, &content).map(Arc::from)
        }) {
            Ok(text) => text,
            Err(problem) => {
                self.problems.push(problem);
                return Vec::new();
            }
        };
        let (documents, mistakes) = yaml::read(&file, &text);
        let room = MOST_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(mistakes.into_iter().take(room));
        let source = self.provenance.add_source(&file, text);
        let mut read = Vec::new();
        for document in documents {
            let spot = Provenance::spot(source, &document);
            let notes = repeated_keys(&self.provenance, spot, &document.repeated);
            self.provenance.notes.extend(notes);
            read.push((document, spot));
        }
        read
    }

    fn add_object(&mut self, place: Place, mut object: Value, spot: Option<Spot>) {
        let text =
            |field: &str| object.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let missing = match (object.is_object(), text("apiVersion"), text("kind")) {
            (false, ..) => "this is not a manifest: it is not a map",
            (_, false, _) => "this is not a manifest: apiVersion is missing",
            (_, _, false) => "this is not a manifest: kind is missing",
            _ => {
                if kind(&object) != "CustomResourceDefinition" {
                    fill_null_texts(&mut object);
                }
                return self.objects.push((object, spot));
            }
        };
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(BundleError::Shape { place, message: missing.to_owned() });
        }
    }

    fn assemble(mut self, origin: &str) -> Loaded {
        let (mut csvs, objects): (Vec<_>, Vec<_>) =
            self.objects.into_iter().partition(|(object, _)| kind(object) == "ClusterServiceVersion");
        if csvs.len() != 1 {
            let names: Vec<&str> = csvs.iter().map(|(csv, _)| name(csv)).collect();
            let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            let found = csvs.len();
            // An unreadable file may contain the ClusterServiceVersion.
            let known = found == 0
                && self.problems.iter().any(|problem| !matches!(problem, BundleError::Layout { .. }));
            if !known {
                self.problems.push(BundleError::CsvCount { origin: origin.to_owned(), found, names });
            }
            if csvs.is_empty() {
                return Loaded { bundle: None, problems: self.problems };
            }
        }
        let (csv_raw, spot) = csvs.swap_remove(0);
        let mut broken = |field: String, message: String| {
            let place =
                spot.and_then(|spot| self.provenance.places(spot, &[&field]).into_iter().flatten().next());
            let (origin, name) = (origin.to_owned(), name(&csv_raw).to_owned());
            self.problems.push(BundleError::Csv { origin, name, field, place: place.map(Box::new), message });
        };
        if name(&csv_raw).is_empty() {
            broken("metadata.name".into(), "it is required: it identifies the bundle".into());
        }
        let csv = serde_path_to_error::deserialize(&csv_raw).unwrap_or_else(|error| {
            broken(error.path().to_string(), error.inner().to_string());
            Default::default()
        });
        let Metadata { annotations, properties, dependencies, .. } = self.metadata;
        self.provenance.csv = spot;
        self.provenance.incomplete =
            self.problems.iter().any(|problem| !matches!(problem, BundleError::Layout { .. }));
        let (objects, spots): (Vec<Value>, Vec<Option<Spot>>) = objects.into_iter().unzip();
        self.provenance.objects = spots.into_iter().flatten().collect();
        let provenance = Arc::new(self.provenance);
        let bundle = Bundle { csv, csv_raw, objects, annotations, properties, dependencies, provenance };
        Loaded { bundle: Some(bundle), problems: self.problems }
    }
}

/// Go reads null in a map of texts as the empty text: real manifests have annotations without a value.
fn fill_null_texts(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(fill_null_texts),
        Value::Object(map) => {
            for (key, value) in map {
                if key == "annotations" || key == "labels" {
                    let texts = value.as_object_mut().into_iter().flat_map(|texts| texts.values_mut());
                    texts.filter(|text| text.is_null()).for_each(|text| *text = "".into());
                } else {
                    fill_null_texts(value);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;

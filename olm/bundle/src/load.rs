//! Reading bundles from folders and from catalog objects.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::error::{BundleError, Place};
use crate::model::{self, Bundle, Property, kind, name};
use crate::yaml::{self, Document};

/// The largest real bundle has 6.8 MB in all; a file beyond this is not a manifest.
const LARGEST_FILE: u64 = 64 << 20;

impl Bundle {
    /// Reads a `registry+v1` folder: `manifests/` and `metadata/`.
    ///
    /// Annotations, dependencies and properties are looked for in every file of `metadata/`, whatever
    /// its name, as upstream does.
    ///
    /// # Errors
    /// [`BundleError`], with file, line and column where it is a mistake in a file.
    pub fn from_dir(dir: &Path) -> Result<Self, BundleError> {
        let layout = |what: &str| BundleError::Layout { path: dir.to_owned(), what: what.to_owned() };
        let metadata_dir = dir.join("metadata");
        if !metadata_dir.is_dir() {
            return Err(layout("there is no metadata/"));
        }
        let mut metadata = Metadata::default();
        for path in files(&metadata_dir)? {
            let file = path.display().to_string();
            for document in yaml::documents(&file, &read(&path)?)? {
                metadata.add(&file, &document)?;
            }
        }
        if metadata.annotations.is_empty() {
            return Err(layout("no file in metadata/ has annotations"));
        }

        let manifests = metadata.annotations.get(model::MANIFESTS).map_or("manifests/", String::as_str);
        let manifests_dir = inside(dir, manifests)
            .ok_or_else(|| layout(&format!("the annotation {} points outside of it", model::MANIFESTS)))?;
        if !manifests_dir.is_dir() {
            return Err(layout(&format!("there is no {manifests}")));
        }
        let mut objects = Vec::new();
        for path in files(&manifests_dir)? {
            let file = path.display().to_string();
            for document in yaml::documents(&file, &read(&path)?)? {
                let place = Place { file: file.clone(), line: document.line, column: 1 };
                objects.push(check_shape(place, document.value)?);
            }
        }
        assemble(&dir.display().to_string(), objects, metadata)
    }

    /// Makes a bundle of manifests, as catalogs hold them inline.
    ///
    /// # Errors
    /// [`BundleError::CsvCount`] when there is not exactly one ClusterServiceVersion, and
    /// [`BundleError::Shape`] when a manifest is no object.
    pub fn from_objects(objects: Vec<Value>) -> Result<Self, BundleError> {
        let checked: Result<Vec<Value>, BundleError> = objects
            .into_iter()
            .enumerate()
            .map(|(index, object)| {
                let file = format!("object {} of the bundle", index + 1);
                check_shape(Place { file, line: 0, column: 0 }, object)
            })
            .collect();
        assemble("the bundle", checked?, Metadata::default())
    }
}

fn assemble(origin: &str, objects: Vec<Value>, metadata: Metadata) -> Result<Bundle, BundleError> {
    let (mut csvs, objects): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| kind(object) == "ClusterServiceVersion");
    if csvs.len() != 1 {
        let names: Vec<&str> = csvs.iter().map(name).collect();
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        return Err(BundleError::CsvCount { origin: origin.to_owned(), found: csvs.len(), names });
    }
    let csv_raw = csvs.remove(0);
    let broken = |message: &str| BundleError::Csv {
        origin: origin.to_owned(),
        name: name(&csv_raw).to_owned(),
        message: message.to_owned(),
    };
    if name(&csv_raw).is_empty() {
        return Err(broken("metadata.name is missing; it is the bundle's identity"));
    }
    let csv = serde_json::from_value(csv_raw.clone()).map_err(|error| broken(&error.to_string()))?;
    let Metadata { annotations, properties, dependencies } = metadata;
    Ok(Bundle { csv, csv_raw, objects, annotations, properties, dependencies })
}

fn check_shape(place: Place, object: Value) -> Result<Value, BundleError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let missing = match (object.is_object(), text("apiVersion"), text("kind")) {
        (false, ..) => "this is not a manifest: it is not a map",
        (_, false, _) => "this is not a manifest: apiVersion is missing",
        (_, _, false) => "this is not a manifest: kind is missing",
        _ => return Ok(object),
    };
    Err(BundleError::Shape { place, message: missing.to_owned() })
}

#[derive(Default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
    properties: Vec<Property>,
    dependencies: Vec<Property>,
}

impl Metadata {
    fn add(&mut self, file: &str, document: &Document) -> Result<(), BundleError> {
        let bad = |message: String| BundleError::Shape {
            place: Place { file: file.to_owned(), line: document.line, column: 1 },
            message,
        };
        let section = |key: &str| document.value.get(key).filter(|value| !value.is_null());
        if let Some(annotations) = section("annotations") {
            let map = annotations.as_object().ok_or_else(|| bad("annotations is not a map".into()))?;
            for (key, value) in map {
                // Numbers and booleans are what YAML makes of an unquoted `4.6` or `true`.
                let value = match value {
                    Value::String(text) => text.clone(),
                    Value::Bool(_) | Value::Number(_) => value.to_string(),
                    _ => return Err(bad(format!("annotation {key} is not a text"))),
                };
                self.annotations.insert(key.clone(), value);
            }
        }
        for (key, list) in [("properties", &mut self.properties), ("dependencies", &mut self.dependencies)] {
            if let Some(entries) = section(key) {
                let entries: Vec<Property> = serde_json::from_value(entries.clone())
                    .map_err(|error| bad(format!("{key} is not a list of type and value: {error}")))?;
                list.extend(entries);
            }
        }
        Ok(())
    }
}

/// The files of a folder by name; subfolders and hidden files are not part of a bundle.
fn files(dir: &Path) -> Result<Vec<PathBuf>, BundleError> {
    let unreadable = |source| BundleError::Read { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if path.is_file() && !hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, BundleError> {
    let unreadable = |source| BundleError::Read { path: path.to_owned(), source };
    let size = fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST_FILE {
        let text = format!("it has {size} bytes; a manifest has at most {LARGEST_FILE}");
        return Err(unreadable(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text)));
    }
    fs::read(path).map_err(unreadable)
}

/// A relative path below a folder; `None` when it leads out of it.
fn inside(dir: &Path, relative: &str) -> Option<PathBuf> {
    let relative = Path::new(relative);
    let down = |component| matches!(component, Component::Normal(_) | Component::CurDir);
    relative.components().all(down).then(|| dir.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n";
    const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: p.v1.0.0}\nspec: {version: 1.0.0}\n";

    fn bundle(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Bundle, BundleError>) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let bundle = Bundle::from_dir(dir.path());
        (dir, bundle)
    }

    #[test]
    fn every_section_is_read_from_every_metadata_file() {
        let (_dir, bundle) = bundle(&[
            ("metadata/annotations.yaml", ANNOTATIONS),
            (
                "metadata/properties.yaml",
                "properties:\n- {type: a, value: 1}\ndependencies:\n- {type: b, value: {c: d}}\n",
            ),
            ("manifests/csv.yaml", CSV),
            ("manifests/.hidden.yaml", "not: [a manifest"),
            (
                "manifests/two.yaml",
                "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
            ),
        ]);
        let bundle = bundle.unwrap();
        assert_eq!((bundle.name(), bundle.package()), ("p.v1.0.0", Some("p")));
        assert_eq!(bundle.properties.len(), 1);
        assert_eq!(bundle.dependencies[0].type_, "b");
        assert_eq!(bundle.objects.iter().map(kind).collect::<Vec<_>>(), ["Service", "ConfigMap"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[("manifests/csv.yaml", CSV)], "no metadata/"),
            (&[("metadata/a.yaml", ANNOTATIONS)], "no manifests/"),
            (&[("metadata/a.yaml", "x: y\n"), ("manifests/csv.yaml", CSV)], "has annotations"),
            (
                &[("metadata/a.yaml", ANNOTATIONS), ("manifests/a.yaml", "kind: A\n")],
                "a.yaml:1:1: this is not a manifest: apiVersion is missing",
            ),
            (&[("metadata/a.yaml", ANNOTATIONS), ("manifests/a.yaml", "a: b\nc: [\n")], "a.yaml:"),
            (
                &[("metadata/a.yaml", ANNOTATIONS), ("manifests/a.yaml", CSV), ("manifests/b.yaml", CSV)],
                "has 2 ClusterServiceVersions (p.v1.0.0, p.v1.0.0)",
            ),
            (
                &[(
                    "metadata/a.yaml",
                    "annotations: {operators.operatorframework.io.bundle.manifests.v1: ../..}\n",
                )],
                "points outside",
            ),
        ];
        for (files, expected) in cases {
            let (_dir, bundle) = bundle(files);
            let message = bundle.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn objects_need_a_named_csv() {
        assert!(
            Bundle::from_objects(Vec::new())
                .unwrap_err()
                .to_string()
                .contains("has 0 ClusterServiceVersions")
        );
        let nameless = serde_json::json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion"});
        assert!(
            Bundle::from_objects(vec![nameless])
                .unwrap_err()
                .to_string()
                .contains("metadata.name is missing")
        );
        assert!(Bundle::from_objects(vec![Value::Null]).unwrap_err().to_string().contains("object 1"));
    }
}

//! Package manifests, the format before bundles: `package.yaml` names the head of each channel, and every
//! ClusterServiceVersion is stored with its CustomResourceDefinitions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use olm_bundle::{Bundle, fields, yaml};
use serde_json::Value;

use super::folder::{self, Listing};
use super::graph::{Node, graph_of_heads};
use super::source::Source;
use super::{Built, BuiltPackage, Options, package, problem};
use crate::problem::{Problem, Severity};
use crate::spelling::PACKAGE_MANIFEST;

/// The annotation for the package in a bundle's directory.
const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";

/// `package.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Manifest {
    name: String,
    default_channel: Option<String>,
    /// Channel and the name of its head.
    heads: BTreeMap<String, String>,
}

impl Manifest {
    fn of(mut value: Value) -> Option<Self> {
        fields::rename(&mut value, &PACKAGE_MANIFEST).ok()?;
        let text = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let channels = value.get("channels").and_then(Value::as_array).into_iter().flatten();
        Some(Self {
            name: text(&value, "packageName")?,
            default_channel: text(&value, "defaultChannel"),
            heads: channels
                .filter_map(|channel| Some((text(channel, "name")?, text(channel, "currentCSV")?)))
                .collect(),
        })
    }
}

/// Whether a directory is an operator in this format: by the file name of upstream's tools.
pub(super) fn is_package(listing: &Listing) -> bool {
    listing.files.iter().any(|path| is_package_file(path))
}

fn is_package_file(path: &Path) -> bool {
    let name = folder::name(path);
    folder::is_manifest(path) && (name.contains(".package.") || name.starts_with("package."))
}

/// An operator's directory: one directory per version, or all files in one.
pub(super) fn operator(dir: &Path, listing: &Listing, options: &Options) -> Built {
    let mut made = Built::default();
    let mut manifests = Vec::new();
    for path in listing.files.iter().filter(|path| is_package_file(path)) {
        let documents = documents(path, &mut made.problems);
        manifests.extend(documents.into_iter().filter_map(Manifest::of).map(|manifest| (path, manifest)));
    }
    let Some((path, manifest)) = manifests.first() else {
        let text = "no package.yaml with packageName; the package is omitted".to_owned();
        let at = dir.display().to_string();
        let fix = "set packageName, channels and defaultChannel";
        made.problems.push(problem(Severity::Error, &at, "", "package-manifest", text, fix));
        return made;
    };
    let mut sources = Vec::new();
    for version in std::iter::once(dir.to_owned()).chain(listing.folders.iter().cloned()) {
        bundles(&version, &manifest.name, options, &mut sources, &mut made.problems);
    }
    let path = path.display().to_string();
    made.packages.extend(assemble(manifest, &path, sources, options, &mut made.problems));
    made
}

fn documents(path: &Path, problems: &mut Vec<Problem>) -> Vec<Value> {
    let at = path.display().to_string();
    let read = folder::read(path).map_err(|error| error.to_string());
    match read.and_then(|bytes| yaml::documents(&at, &bytes).map_err(|error| error.to_string())) {
        Ok(documents) => documents.into_iter().map(|document| document.value).collect(),
        Err(error) => {
            let text = format!("{error}; the file is omitted");
            problems.push(problem(Severity::Error, &at, "", "manifest-unreadable", text, "correct the file"));
            Vec::new()
        }
    }
}

/// The bundles of a directory: each ClusterServiceVersion with all other files in it.
fn bundles(
    dir: &Path,
    package: &str,
    options: &Options,
    sources: &mut Vec<Source>,
    problems: &mut Vec<Problem>,
) {
    let files: Vec<PathBuf> = match folder::list(dir) {
        Ok(listing) => listing.files,
        Err(error) => {
            let (at, text) = (dir.display().to_string(), format!("{error}; it is omitted"));
            let fix = "make it readable";
            problems.push(problem(Severity::Error, &at, package, "manifest-unreadable", text, fix));
            return;
        }
    };
    let mut csvs = Vec::new();
    let mut objects = Vec::new();
    for path in files.iter().filter(|path| folder::is_manifest(path) && !is_package_file(path)) {
        for value in documents(path, problems) {
            match value.get("kind").and_then(Value::as_str) {
                Some("ClusterServiceVersion") => csvs.push((path.clone(), value)),
                Some(_) => objects.push(value),
                None => {}
            }
        }
    }
    for (path, csv) in csvs {
        sources.extend(bundle(csv, &objects, package, &path, options, problems));
    }
}

fn bundle(
    csv: Value,
    objects: &[Value],
    package: &str,
    path: &Path,
    options: &Options,
    problems: &mut Vec<Problem>,
) -> Option<Source> {
    let all = std::iter::once(csv).chain(objects.iter().cloned()).collect();
    match Bundle::from_objects(all) {
        Ok(mut bundle) => {
            bundle.annotations.insert(PACKAGE.to_owned(), package.to_owned());
            Source::of(&bundle, path, None, options, problems)
        }
        Err(error) => {
            let (at, text) = (path.display().to_string(), format!("{error}; the bundle is omitted"));
            let fix = "correct the manifests";
            problems.push(problem(Severity::Error, &at, package, "bundle-unreadable", text, fix));
            None
        }
    }
}

fn assemble(
    manifest: &Manifest,
    path: &str,
    sources: Vec<Source>,
    options: &Options,
    problems: &mut Vec<Problem>,
) -> Option<BuiltPackage> {
    let nodes: Vec<Node> = sources.iter().map(|source| source.node.clone()).collect();
    let Manifest { name, default_channel, heads } = manifest;
    let graph = graph_of_heads(&nodes, heads, default_channel.as_deref(), options.bridge_gaps);
    package::assemble(name, path, sources, graph, problems)
}

/// The catalog in the ConfigMap of a CatalogSource of the type `configmap` or `internal`: its keys
/// `customResourceDefinitions`, `clusterServiceVersions` and `packages`, each a YAML list.
/// A ClusterServiceVersion gets the CustomResourceDefinitions that it owns. `origin` names the ConfigMap in
/// problems; there is no error: invalid parts are problems and the rest is loaded.
#[must_use]
pub fn from_config_map(origin: &str, data: &BTreeMap<String, String>, options: &Options) -> Built {
    let mut built = Built { origin: origin.to_owned(), ..Built::default() };
    let [crds, csvs, packages] = ["customResourceDefinitions", "clusterServiceVersions", "packages"]
        .map(|key| section(origin, data, key, &mut built.problems));
    let manifests: Vec<Manifest> = packages
        .into_iter()
        .filter_map(|value| {
            let manifest = Manifest::of(value);
            if manifest.is_none() {
                let text = "entry of packages without packageName; it is omitted".to_owned();
                let fix = "set packageName, channels and defaultChannel";
                built.problems.push(problem(Severity::Error, origin, "", "package-manifest", text, fix));
            }
            manifest
        })
        .collect();

    let mut sources: Vec<Source> = Vec::new();
    for csv in csvs {
        let name = csv.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let owned = csv.pointer("/spec/customresourcedefinitions/owned").and_then(Value::as_array);
        let mut objects = Vec::new();
        for owned in owned.into_iter().flatten().filter_map(|crd| crd.get("name")?.as_str()) {
            match crds.iter().find(|crd| crd.pointer("/metadata/name").and_then(Value::as_str) == Some(owned))
            {
                Some(crd) => objects.push(crd.clone()),
                None => {
                    let text = format!("{name} owns {owned}, missing from customResourceDefinitions");
                    let fix = "add the CustomResourceDefinition";
                    let missing = problem(Severity::Error, origin, "", "crd-missing", text, fix);
                    built.problems.push(Problem { entry: Some(name.clone()), ..missing });
                }
            }
        }
        // Its package is known once the channels have been followed.
        sources.extend(bundle(csv, &objects, UNKNOWN, Path::new(origin), options, &mut built.problems));
    }
    for manifest in &manifests {
        let own = reached(manifest, &sources);
        let package = assemble(manifest, origin, own, options, &mut built.problems);
        built.packages.extend(package);
    }
    built.packages.sort_by(|a, b| a.name.cmp(&b.name));
    built
}

/// Placeholder for an unknown package.
const UNKNOWN: &str = "-";

/// The bundles reachable from the channels of a package; upstream assigns it no others.
fn reached(manifest: &Manifest, sources: &[Source]) -> Vec<Source> {
    let mut wanted: Vec<&str> = manifest.heads.values().map(String::as_str).collect();
    let mut own: Vec<Source> = Vec::new();
    while let Some(name) = wanted.pop() {
        let Some(source) = sources.iter().find(|source| source.node.name == name) else { continue };
        if own.iter().any(|known| known.node.name == name) {
            continue;
        }
        let mut owned = source.clone();
        owned.package.clone_from(&manifest.name);
        rename(&mut owned.document, &manifest.name);
        own.push(owned);
        wanted.extend(source.node.replaces.as_deref());
        wanted.extend(source.node.skips.iter().map(String::as_str));
    }
    own
}

fn rename(document: &mut Value, package: &str) {
    document["package"] = package.into();
    let properties = document.get_mut("properties").and_then(Value::as_array_mut);
    for property in properties.into_iter().flatten().filter(|property| property["type"] == "olm.package") {
        if property.pointer("/value/packageName").and_then(Value::as_str) == Some(UNKNOWN) {
            property["value"]["packageName"] = package.into();
        }
    }
}

fn section(
    origin: &str,
    data: &BTreeMap<String, String>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Vec<Value> {
    let mut report = |text: String| {
        let fix = "set each of customResourceDefinitions, clusterServiceVersions and packages to a YAML list";
        problems.push(problem(Severity::Error, origin, "", "config-map", text, fix));
    };
    let Some(text) = data.get(key) else {
        report(format!("key {key} is missing"));
        return Vec::new();
    };
    let documents = match yaml::documents(&format!("{origin}, {key}"), text.as_bytes()) {
        Ok(documents) => documents,
        Err(error) => {
            report(error.to_string());
            return Vec::new();
        }
    };
    let mut values = Vec::new();
    for document in documents {
        match document.value {
            Value::Array(list) => values.extend(list),
            _ => report(format!("key {key} is not a list")),
        }
    }
    values
}

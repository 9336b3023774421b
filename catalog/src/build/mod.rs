//! Making a file-based catalog of a folder of bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use olm_bundle::{Bundle, bundle_properties};
use serde_json::{Value, json};

use crate::model::Catalog;
use crate::problem;

/// Why bundles do not make a catalog.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A folder cannot be read.
    #[error("failed to read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("failed to write {path}: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] olm_bundle::BundleError),
    /// A bundle or a package of them is wrong.
    #[error("{path}: {text}")]
    Invalid {
        /// The folder of the bundle or package.
        path: PathBuf,
        /// What is wrong, and what to do.
        text: String,
    },
}

/// A file-based catalog, one YAML file a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fbc {
    /// Package and its `catalog.yaml`.
    pub files: Vec<(String, String)>,
}

impl Fbc {
    /// Writes `PACKAGE/catalog.yaml` for each package into a folder.
    ///
    /// # Errors
    /// [`BuildError::Write`]
    pub fn write(&self, dir: &Path) -> Result<(), BuildError> {
        for (package, text) in &self.files {
            let path = dir.join(package).join("catalog.yaml");
            let written = fs::create_dir_all(dir.join(package)).and_then(|()| fs::write(&path, text));
            written.map_err(|source| BuildError::Write { path, source })?;
        }
        Ok(())
    }
}

/// Turns `bundles/PACKAGE/VERSION/{manifests,metadata}` into a file-based catalog with the manifests
/// inline. The same folder gives the same text.
///
/// Channels and the default channel are those of the bundles' annotations; `replaces`, `skips` and
/// `olm.skipRange` are those of their ClusterServiceVersions.
///
/// # Errors
/// [`BuildError`], naming the folder and what is wrong in it. A catalog that the loader would refuse
/// is not made.
pub fn from_bundles(dir: &Path) -> Result<Fbc, BuildError> {
    let mut files = Vec::new();
    for package_dir in folders(dir)? {
        let name =
            package_dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut bundles = Vec::new();
        for bundle_dir in folders(&package_dir)? {
            bundles.push(read_bundle(&bundle_dir, &name)?);
        }
        if bundles.is_empty() {
            continue;
        }
        bundles.sort_by(|a, b| match (a.version(), b.version()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => a.name().cmp(b.name()),
        });
        let text = package(&name, &bundles)
            .map_err(|text| BuildError::Invalid { path: package_dir.clone(), text })?;
        check(&package_dir, &text)?;
        files.push((name, text));
    }
    Ok(Fbc { files })
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let unreadable = |source| BuildError::Read { path: dir.to_owned(), source };
    let entries: Vec<fs::DirEntry> = fs::read_dir(dir).and_then(Iterator::collect).map_err(unreadable)?;
    let hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let mut folders: Vec<PathBuf> = entries
        .iter()
        .filter(|entry| !hidden(entry))
        .map(fs::DirEntry::path)
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    Ok(folders)
}

fn read_bundle(dir: &Path, package: &str) -> Result<Bundle, BuildError> {
    let bundle = Bundle::from_dir(dir)?;
    let invalid = |text: String| Err(BuildError::Invalid { path: dir.to_owned(), text });
    if bundle.package() != Some(package) {
        let said = bundle.package().unwrap_or("none");
        return invalid(format!("metadata/annotations.yaml says package {said}; the folder says {package}"));
    }
    let errors: Vec<String> = bundle
        .validate()
        .iter()
        .filter(|finding| finding.severity == olm_bundle::Severity::Error)
        .map(|finding| format!("{}: {} [{}]", finding.field, finding.text, finding.code))
        .collect();
    if errors.is_empty() { Ok(bundle) } else { invalid(errors.join("; ")) }
}

/// The text of one package's catalog.
fn package(name: &str, bundles: &[Bundle]) -> Result<String, String> {
    let mut channels: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for bundle in bundles {
        for channel in bundle.channels() {
            channels.entry(channel).or_default().push(entry(bundle));
        }
    }
    // The newest bundle that names a default channel decides, as upstream.
    let default = bundles.iter().rev().find_map(Bundle::default_channel);
    let default = match (default, channels.keys().collect::<Vec<_>>().as_slice()) {
        (Some(default), _) => default,
        (None, [only]) => only,
        _ => return Err(
            "no bundle names the default channel (operators.operatorframework.io.bundle.channel.default.v1)"
                .into(),
        ),
    };

    let newest = bundles.iter().rev().find(|bundle| bundle.channels().contains(&default));
    let mut package = json!({"schema": "olm.package", "name": name, "defaultChannel": default});
    if let Some(newest) = newest {
        if let Some(description) = newest.csv_annotation("description") {
            package["description"] = description.into();
        }
        if let Some(icon) = newest.csv_raw.pointer("/spec/icon/0") {
            package["icon"] = icon.clone();
        }
    }
    let channels = channels.into_iter().map(|(channel, entries)| {
        json!({"schema": "olm.channel", "package": name, "name": channel, "entries": entries})
    });
    let bundles = bundles.iter().map(|bundle| document(bundle, name));

    let mut text = String::from(
        "# Made of bundles/; do not edit. `UPDATE=1 cargo test -p olm-catalog --test shipped` writes it anew.\n",
    );
    for document in std::iter::once(package).chain(channels).chain(bundles) {
        text += "---\n";
        text += &serde_yaml::to_string(&document).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn entry(bundle: &Bundle) -> Value {
    let mut entry = json!({"name": bundle.name()});
    if let Some(replaces) = bundle.replaces() {
        entry["replaces"] = replaces.into();
    }
    if !bundle.skips().is_empty() {
        entry["skips"] = json!(bundle.skips());
    }
    if let Some(range) = bundle.skip_range() {
        entry["skipRange"] = range.into();
    }
    entry
}

fn document(bundle: &Bundle, package: &str) -> Value {
    let mut properties: Vec<Value> =
        bundle_properties(bundle, package).into_iter().map(|property| json!(property)).collect();
    for object in std::iter::once(&bundle.csv_raw).chain(&bundle.objects) {
        let mut object = object.clone();
        object.sort_all_objects();
        let data = STANDARD.encode(object.to_string());
        properties.push(json!({"type": "olm.bundle.object", "value": {"data": data}}));
    }
    let mut document =
        json!({"schema": "olm.bundle", "package": package, "name": bundle.name(), "properties": properties});
    let related = related_images(bundle);
    if !related.is_empty() {
        document["relatedImages"] = related.into();
    }
    document
}

/// Every image that the operator needs: those that its author lists, and those of its containers.
fn related_images(bundle: &Bundle) -> Vec<Value> {
    let listed =
        bundle.csv_raw.pointer("/spec/relatedImages").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut images: BTreeMap<String, String> = BTreeMap::new();
    for related in &listed {
        let text = |key: &str| related.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        images.insert(text("image"), text("name"));
    }
    let deployments = bundle.csv_raw.pointer("/spec/install/spec/deployments").and_then(Value::as_array);
    for deployment in deployments.into_iter().flatten() {
        for list in ["initContainers", "containers"] {
            let containers =
                deployment.pointer(&format!("/spec/template/spec/{list}")).and_then(Value::as_array);
            for container in containers.into_iter().flatten() {
                if let Some(image) = container.get("image").and_then(Value::as_str) {
                    images.entry(image.to_owned()).or_default();
                }
            }
        }
    }
    images.retain(|image, _| !image.is_empty());
    images.into_iter().map(|(image, name)| json!({"name": name, "image": image})).collect()
}

/// What we make is what we can read.
fn check(dir: &Path, text: &str) -> Result<(), BuildError> {
    let catalog = Catalog::from_bytes(&dir.display().to_string(), text.as_bytes());
    let errors: BTreeSet<String> = catalog
        .problems
        .iter()
        .filter(|problem| problem.severity == problem::Severity::Error)
        .map(|problem| format!("{}; {} [{}]", problem.text, problem.fix, problem.code))
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    let text = errors.into_iter().collect::<Vec<_>>().join("; ");
    Err(BuildError::Invalid { path: dir.to_owned(), text })
}

#[cfg(test)]
mod tests;

//! Catalog templates: short files that name bundles by image and render to a file-based catalog.
//!
//! - `olm.template.basic`: a catalog whose bundles are images;
//! - `olm.semver`: lists of images; the channels are generated from their versions;
//! - `olm.template.substitutes`: a catalog and bundles that substitute others in it.
//!
//! [`render`] is a pure function of the template and of the results of its [`BundleResolver`] for the images;
//! [`references`] lists these images beforehand.

mod basic;
mod error;
mod semver;
mod substitutes;

use olm_bundle::fields::{self, Shape};
use olm_bundle::{Bundle, Manifests, render_fbc_with, yaml};
use olm_version::Version;
use serde_json::Value;

pub use error::TemplateError;

use crate::spelling;

/// The schema of a catalog whose bundles are images.
pub const BASIC: &str = "olm.template.basic";
/// The schema of a template whose channels are generated from versions.
pub const SEMVER: &str = "olm.semver";
/// The schema of a template that substitutes bundles.
pub const SUBSTITUTES: &str = "olm.template.substitutes";

/// Source of the bundles of a template.
pub trait BundleResolver {
    /// The bundle of an image reference or directory, as written in the template.
    /// # Errors
    /// A message for users.
    fn resolve(&self, reference: &str) -> Result<Resolved, String>;
}

impl<F: Fn(&str) -> Result<Resolved, String>> BundleResolver for F {
    fn resolve(&self, reference: &str) -> Result<Resolved, String> {
        self(reference)
    }
}

/// A resolved bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub document: Value,
    /// `spec.description` of its ClusterServiceVersion; empty where unknown.
    pub description: String,
    /// `{base64data, mediatype}` of its ClusterServiceVersion.
    pub icon: Option<Value>,
}

impl Resolved {
    /// A bundle read from an image or a directory; an empty image makes its manifests inline.
    #[must_use]
    pub fn of(bundle: &Bundle, image: &str) -> Self {
        let manifests = if image.is_empty() { Manifests::Objects } else { Manifests::Metadata };
        let description = bundle.csv_raw.pointer("/spec/description").and_then(Value::as_str);
        Self {
            document: render_fbc_with(bundle, image, manifests),
            description: description.unwrap_or_default().to_owned(),
            icon: crate::build::icon(bundle).ok().flatten(),
        }
    }
}

impl From<Value> for Resolved {
    /// From an `olm.bundle` document alone: the description is that of its `olm.csv.metadata`, and there is
    /// no icon.
    fn from(document: Value) -> Self {
        let description = properties(&document, "olm.csv.metadata")
            .find_map(|value| value.get("description").and_then(Value::as_str).map(str::to_owned));
        Self { document, description: description.unwrap_or_default(), icon: None }
    }
}

/// Renders a template to the documents of a catalog.
/// # Errors
/// [`TemplateError`]. A template is rendered completely or not at all.
pub fn render(input: &[u8], resolver: &dyn BundleResolver) -> Result<Vec<Value>, TemplateError> {
    let template = parse(input)?;
    match schema(&template) {
        BASIC => basic::render(template, resolver),
        SEMVER => semver::Template::parse(template)?.render(resolver),
        SUBSTITUTES => substitutes::render(template, resolver),
        other => Err(TemplateError::Schema(other.to_owned())),
    }
}

/// The images that a template needs, each once, in the order of the template.
/// # Errors
/// [`TemplateError`] when it is not a template.
pub fn references(input: &[u8]) -> Result<Vec<String>, TemplateError> {
    let template = parse(input)?;
    let all = match schema(&template) {
        BASIC => basic::references(&template),
        SEMVER => semver::Template::parse(template)?.references(),
        SUBSTITUTES => substitutes::references(&template)?,
        other => return Err(TemplateError::Schema(other.to_owned())),
    };
    let mut once = Vec::new();
    for reference in all {
        if !once.contains(&reference) {
            once.push(reference);
        }
    }
    Ok(once)
}

/// Upstream reads the first document of a file and ignores the others; here they are rejected.
fn parse(input: &[u8]) -> Result<Value, TemplateError> {
    let mut documents =
        yaml::documents("template", input).map_err(|error| TemplateError::Syntax(error.to_string()))?;
    match documents.len() {
        1 => spelled(documents.remove(0).value),
        count => Err(TemplateError::Documents(count)),
    }
}

static META: Shape = Shape(&[("schema", None)]);
static ENTRIES: Shape = Shape(&[("entries", None), ("substitutions", Some(&SUBSTITUTION))]);
static SUBSTITUTION: Shape = Shape(&[("name", None), ("base", None)]);

/// A template with corrected spelling of its fields: upstream's examples write `Schema` and
/// `GenerateMajorChannels`. Any other catalog document is corrected as in the loader.
pub(crate) fn spelled(mut document: Value) -> Result<Value, TemplateError> {
    fields::rename(&mut document, &META)?;
    match schema(&document) {
        SEMVER => fields::rename(&mut document, &semver::SHAPE)?,
        BASIC | SUBSTITUTES => {
            fields::rename(&mut document, &ENTRIES)?;
            let entries = document.get_mut("entries").and_then(Value::as_array_mut);
            entries.into_iter().flatten().try_for_each(spelling::correct)?;
        }
        _ => spelling::correct(&mut document)?,
    }
    Ok(document)
}

fn schema(document: &Value) -> &str {
    text(document, "schema")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The list in a field; `None` for another type.
fn list<'a>(value: &'a Value, key: &'static str) -> Result<&'a [Value], TemplateError> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(TemplateError::Shape { field: key.to_owned(), wanted: "a list" }),
    }
}

/// The values of a document's properties of a type.
fn properties<'a>(document: &'a Value, type_: &'static str) -> impl Iterator<Item = &'a Value> {
    let properties = document.get("properties").and_then(Value::as_array).into_iter().flatten();
    properties.filter(move |property| text(property, "type") == type_).filter_map(|p| p.get("value"))
}

fn resolve(resolver: &dyn BundleResolver, reference: &str) -> Result<Resolved, TemplateError> {
    resolver
        .resolve(reference)
        .map_err(|reason| TemplateError::Bundle { reference: reference.to_owned(), reason })
}

/// Name, package and version of an `olm.bundle` document.
#[derive(Debug, Clone)]
struct Identity {
    name: String,
    package: String,
    version: Version,
    /// `release` of the property `olm.package`.
    release: String,
}

impl Identity {
    fn of(document: &Value) -> Result<Self, TemplateError> {
        let name = text(document, "name").to_owned();
        let wrong = |reason: String| TemplateError::Identity { name: name.clone(), reason };
        let packages: Vec<&Value> = properties(document, "olm.package").collect();
        let [package] = packages.as_slice() else {
            return Err(wrong(format!("{} olm.package properties, expected 1", packages.len())));
        };
        let version = text(package, "version");
        let version = Version::parse(version)
            .map_err(|error| wrong(format!("invalid version {version:?}: {error}")))?;
        let (package, release) =
            (text(package, "packageName").to_owned(), text(package, "release").to_owned());
        Ok(Self { name, package, version, release })
    }
}

#[cfg(test)]
mod tests;

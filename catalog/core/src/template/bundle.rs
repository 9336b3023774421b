//! The bundles of a template: their source, content and identity.

use olm_bundle::{Bundle, Manifests, render_fbc_with};
use olm_version::Version;
use serde_json::Value;

use super::document::{properties, text};
use super::error::TemplateError;

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

pub(super) fn resolve(resolver: &dyn BundleResolver, reference: &str) -> Result<Resolved, TemplateError> {
    resolver
        .resolve(reference)
        .map_err(|reason| TemplateError::Bundle { reference: reference.to_owned(), reason })
}

/// Name, package and version of an `olm.bundle` document.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub name: String,
    pub package: String,
    pub version: Version,
    /// `release` of the property `olm.package`.
    pub release: String,
}

impl Identity {
    pub fn of(document: &Value) -> Result<Self, TemplateError> {
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

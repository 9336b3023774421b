//! The bundle model.

use std::collections::BTreeMap;
use std::sync::Arc;

use olm_api::csv::ClusterServiceVersion;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provenance::Provenance;

/// One version of one operator: its ClusterServiceVersion, its other manifests and its metadata.
/// A `Bundle` has exactly one ClusterServiceVersion with a name; all other parts may be invalid, which
/// [`Bundle::validate`] reports.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub csv: ClusterServiceVersion,
    /// The ClusterServiceVersion as written.
    pub csv_raw: Value,
    /// All other manifests, in the order of the files.
    pub objects: Vec<Value>,
    /// `annotations.yaml`; empty for a bundle built from catalog objects.
    pub annotations: BTreeMap<String, String>,
    /// `properties.yaml`.
    pub properties: Vec<Property>,
    /// `dependencies.yaml`.
    pub dependencies: Vec<Property>,
    /// Sources of the parts.
    pub(crate) provenance: Arc<Provenance>,
}

/// A typed value: an entry of `properties`, of `dependencies`, or of a catalog's bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Property {
    /// Such as `olm.package`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its value, in the shape that the type defines.
    pub value: Value,
}

/// Annotation of `annotations.yaml` that names the package.
pub(crate) const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
/// Annotation of `annotations.yaml` with the channels, separated by commas.
pub(crate) const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
/// Annotation of `annotations.yaml` with the default channel.
pub(crate) const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";
/// Annotation of `annotations.yaml` with the bundle's format.
pub(crate) const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
/// Annotation of `annotations.yaml` with the folder of the manifests.
pub(crate) const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
/// Annotation of `annotations.yaml` with the folder of the metadata.
pub(crate) const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";

impl Bundle {
    /// A bundle from installed objects: its ClusterServiceVersion, typed and raw, and its other objects.
    #[must_use]
    pub fn from_installed(csv: ClusterServiceVersion, csv_raw: Value, objects: Vec<Value>) -> Self {
        Self {
            csv,
            csv_raw,
            objects,
            annotations: BTreeMap::new(),
            properties: Vec::new(),
            dependencies: Vec::new(),
            provenance: Arc::default(),
        }
    }

    /// The bundle's identity: the name of its ClusterServiceVersion.
    #[must_use]
    pub fn name(&self) -> &str {
        self.csv_raw.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// `spec.version` as written.
    #[must_use]
    pub fn version_text(&self) -> Option<&str> {
        self.csv_raw.pointer("/spec/version").and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// `spec.version`, where it is a version.
    #[must_use]
    pub fn version(&self) -> Option<olm_version::Version> {
        self.version_text().and_then(|text| olm_version::Version::parse(text).ok())
    }

    /// `spec.release`: distinguishes packagings of one version.
    #[must_use]
    pub fn release(&self) -> Option<&str> {
        self.csv_raw.pointer("/spec/release").and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// `spec.displayName`, or the name where there is none.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.csv_raw.pointer("/spec/displayName").and_then(Value::as_str).unwrap_or_else(|| self.name())
    }

    /// The package: from the annotation, otherwise from an `olm.package` property.
    #[must_use]
    pub fn package(&self) -> Option<&str> {
        self.annotations.get(PACKAGE).map(String::as_str).filter(|name| !name.is_empty()).or_else(|| {
            let property = self.properties.iter().find(|property| property.type_ == "olm.package")?;
            property.value.get("packageName")?.as_str()
        })
    }

    /// The channels from its annotation.
    #[must_use]
    pub fn channels(&self) -> Vec<&str> {
        let channels = self.annotations.get(CHANNELS).map(String::as_str).unwrap_or_default();
        channels.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
    }

    /// The default channel from its annotation.
    #[must_use]
    pub fn default_channel(&self) -> Option<&str> {
        self.annotations.get(DEFAULT_CHANNEL).map(|name| name.trim()).filter(|name| !name.is_empty())
    }

    /// `spec.replaces`: the bundle that this one upgrades from.
    #[must_use]
    pub fn replaces(&self) -> Option<&str> {
        self.csv_raw.pointer("/spec/replaces").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// `spec.skips`: further bundles that this one upgrades from and takes out of the channel.
    #[must_use]
    pub fn skips(&self) -> Vec<&str> {
        let skips = self.csv_raw.pointer("/spec/skips").and_then(Value::as_array);
        skips.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The annotation `olm.skipRange`: the versions that this one upgrades from.
    #[must_use]
    pub fn skip_range(&self) -> Option<&str> {
        self.csv_annotation("olm.skipRange").filter(|range| !range.is_empty())
    }

    #[must_use]
    pub fn csv_annotation(&self, name: &str) -> Option<&str> {
        self.csv_raw.get("metadata")?.get("annotations")?.get(name)?.as_str()
    }

    /// The CustomResourceDefinitions among its manifests.
    pub fn crds(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| kind(object) == "CustomResourceDefinition")
    }
}

/// An object's kind, empty where it has none.
pub(crate) fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// An object's name, empty where it has none.
pub(crate) fn name(object: &Value) -> &str {
    object.get("metadata").and_then(|metadata| metadata.get("name")?.as_str()).unwrap_or_default()
}

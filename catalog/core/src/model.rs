//! The model of a package: its channels and bundles.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use olm_bundle::{Bundle, BundleError, Gvk, PackageRequirement, Place};
use olm_version::Version;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::icon::Icon;

/// A package: one operator in all its versions.
#[derive(Debug, Clone, Default)]
pub struct Package {
    pub name: String,
    /// The channel of an install without a selected channel. It is a channel of the package; when the catalog
    /// names none, it is the first channel, with a problem.
    pub default_channel: String,
    pub description: String,
    /// The package's icon, otherwise that of the default channel's head.
    pub icon: Option<Icon>,
    /// Deprecation message of the package.
    pub deprecated: Option<String>,
    /// By name.
    pub channels: BTreeMap<String, Channel>,
    /// By name.
    pub bundles: BTreeMap<String, BundleEntry>,
}

impl Package {
    /// CRC-32 of the names that entries replace or skip, sorted; an entry that replaces nothing replaces the
    /// empty name. A catalog of 7,000 bundles keeps 30 KB of them in memory, where the names would be half a
    /// megabyte.
    pub(crate) fn replaced(&self) -> Vec<u32> {
        let entries = self.channels.values().flat_map(|channel| &channel.entries);
        let names = entries.flat_map(|entry| {
            let replaces = entry.replaces.as_deref().unwrap_or_default();
            entry.skips.iter().map(String::as_str).chain([replaces])
        });
        let mut hashes: Vec<u32> = names.map(|name| crc32fast::hash(name.as_bytes())).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }
}

/// A channel: a graph of upgrades between bundles.
#[derive(Debug, Clone, Default)]
pub struct Channel {
    pub name: String,
    /// The bundles in it, in the order of the document.
    pub entries: Vec<ChannelEntry>,
    /// Deprecation message of the channel.
    pub deprecated: Option<String>,
}

/// A bundle's entry in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelEntry {
    pub name: String,
    /// The bundle it upgrades from.
    pub replaces: Option<String>,
    /// Further bundles it upgrades from, which are out of the channel.
    pub skips: Vec<String>,
    /// The versions it upgrades from.
    pub skip_range: Option<String>,
}

/// A bundle as the catalog lists it.
#[derive(Debug, Clone)]
pub struct BundleEntry {
    /// Name, which is the name of its ClusterServiceVersion.
    pub name: String,
    pub package: String,
    /// Image; `None` for a bundle whose manifests are inline.
    pub image: Option<String>,
    /// Version, from the property `olm.package`.
    pub version: Option<Version>,
    /// Properties, parsed on demand.
    pub properties: Vec<Property>,
    pub related_images: Vec<RelatedImage>,
    /// Deprecation message of the bundle.
    pub deprecated: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RelatedImage {
    pub name: String,
    pub image: String,
}

/// A typed value of a bundle. Its text is a slice of the document, shared with all other properties.
#[derive(Debug, Clone)]
pub struct Property {
    /// Such as `olm.gvk`.
    pub type_: String,
    document: Arc<String>,
    range: Range<usize>,
}

impl Property {
    pub(crate) fn new(type_: String, document: Arc<String>, range: Range<usize>) -> Self {
        Self { type_, document, range }
    }

    #[must_use]
    pub fn json(&self) -> &str {
        &self.document[self.range.clone()]
    }

    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(self.json()).expect("the slice was cut out of a document that parsed")
    }

    /// Parses the value.
    /// # Errors
    /// When it does not have that type's shape.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.json())
    }
}

/// Display metadata of a bundle: the property `olm.csv.metadata`, or the same fields of the inline
/// ClusterServiceVersion.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsvMetadata {
    /// Annotations of the ClusterServiceVersion, such as `alm-examples`, `capabilities`, `categories`.
    pub annotations: BTreeMap<String, String>,
    /// `customresourcedefinitions` of the ClusterServiceVersion (`owned`, `required`).
    pub crd_descriptions: Value,
    /// `apiservicedefinitions` of the ClusterServiceVersion.
    pub api_service_definitions: Value,
    /// Markdown.
    pub description: String,
    pub display_name: String,
    /// `installModes` of the ClusterServiceVersion.
    pub install_modes: Value,
    pub keywords: Vec<String>,
    /// Labels, among them `operatorframework.io/arch.*`.
    pub labels: BTreeMap<String, String>,
    /// `[{name, url}]`
    pub links: Vec<Provider>,
    /// `[{name, email}]`
    pub maintainers: Vec<Person>,
    /// Such as `alpha`.
    pub maturity: String,
    /// Minimum Kubernetes version.
    pub min_kube_version: Option<String>,
    /// Required APIs of the cluster.
    #[serde(rename = "nativeAPIs")]
    pub native_apis: Vec<Gvk>,
    pub provider: Provider,
}

/// A name with a web address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Provider {
    pub name: String,
    pub url: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Person {
    pub name: String,
    pub email: String,
}

impl BundleEntry {
    #[must_use]
    pub fn property(&self, type_: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.type_ == type_)
    }

    pub fn properties_of<'a>(&'a self, type_: &'a str) -> impl Iterator<Item = &'a Property> {
        self.properties.iter().filter(move |property| property.type_ == type_)
    }

    /// The APIs it provides (`olm.gvk`).
    #[must_use]
    pub fn provided_gvks(&self) -> Vec<Gvk> {
        self.properties_of("olm.gvk").filter_map(|property| property.parse().ok()).collect()
    }

    /// The APIs it requires (`olm.gvk.required`).
    #[must_use]
    pub fn required_gvks(&self) -> Vec<Gvk> {
        self.properties_of("olm.gvk.required").filter_map(|property| property.parse().ok()).collect()
    }

    /// The packages it requires (`olm.package.required`).
    #[must_use]
    pub fn required_packages(&self) -> Vec<PackageRequirement> {
        self.properties_of("olm.package.required").filter_map(|property| property.parse().ok()).collect()
    }

    /// Whether its manifests are inline (`olm.bundle.object`).
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.property("olm.bundle.object").is_some()
    }

    /// The bundle built from its inline manifests.
    /// # Errors
    /// [`BundleError`] without inline manifests (an image, which is pulled elsewhere), or when they do not
    /// form a bundle.
    pub fn bundle(&self) -> Result<Bundle, BundleError> {
        let mut objects = Vec::new();
        for (index, property) in self.properties_of("olm.bundle.object").enumerate() {
            objects.push(inline_object(property).map_err(|message| BundleError::Shape {
                place: Place {
                    file: format!("bundle {}, olm.bundle.object {}", self.name, index + 1),
                    line: 0,
                    column: 0,
                },
                message,
            })?);
        }
        let mut bundle = Bundle::from_objects(objects)?;
        // The other properties have the remaining metadata of a bundle's directory; the package is its
        // identity.
        bundle.annotations.insert(PACKAGE_ANNOTATION.to_owned(), self.package.clone());
        Ok(bundle)
    }

    /// The inline ClusterServiceVersion.
    pub(crate) fn inline_csv(&self) -> Option<Value> {
        let mut objects =
            self.properties_of("olm.bundle.object").filter_map(|property| inline_object(property).ok());
        objects.find(|object| object.get("kind").and_then(Value::as_str) == Some("ClusterServiceVersion"))
    }

    /// Display metadata; `None` when the catalog has none.
    #[must_use]
    pub fn csv_metadata(&self) -> Option<CsvMetadata> {
        if let Some(property) = self.property("olm.csv.metadata") {
            return property.parse().ok();
        }
        let csv = self.inline_csv()?;
        let part = |pointer: &str| csv.pointer(pointer).cloned().unwrap_or_default();
        let mut spec = part("/spec");
        let fields = spec.as_object_mut()?;
        fields.insert("annotations".into(), part("/metadata/annotations"));
        fields.insert("labels".into(), part("/metadata/labels"));
        fields.insert("crdDescriptions".into(), part("/spec/customresourcedefinitions"));
        fields.insert("apiServiceDefinitions".into(), part("/spec/apiservicedefinitions"));
        // `null` means the default, as everywhere in manifests.
        fields.retain(|_, value| !value.is_null());
        serde_json::from_value(spec).ok()
    }
}

const PACKAGE_ANNOTATION: &str = "operators.operatorframework.io.bundle.package.v1";

/// The manifest of a property `olm.bundle.object`: base64 of JSON or YAML.
fn inline_object(property: &Property) -> Result<Value, String> {
    #[derive(Deserialize)]
    struct Object {
        data: String,
    }
    let object: Object =
        property.parse().map_err(|_| "no inline data (file references are not supported)".to_owned())?;
    let bytes =
        STANDARD.decode(object.data.trim()).map_err(|error| format!("data is not base64: {error}"))?;
    serde_json::from_slice(&bytes).or_else(|_| {
        let mut documents = olm_bundle::yaml::documents("data", &bytes).map_err(|error| error.to_string())?;
        documents.pop().map(|document| document.value).ok_or_else(|| "data is empty".to_owned())
    })
}

impl Package {
    #[must_use]
    pub fn default_channel(&self) -> Option<&Channel> {
        self.channels.get(&self.default_channel)
    }

    #[must_use]
    pub fn head_of(&self, channel: &str) -> Option<&BundleEntry> {
        self.bundles.get(&self.channels.get(channel)?.head()?.name)
    }

    /// The bundle of an install without a selected channel or version.
    #[must_use]
    pub fn head(&self) -> Option<&BundleEntry> {
        self.head_of(&self.default_channel)
    }
}

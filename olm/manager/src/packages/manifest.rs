//! A PackageManifest of a package of a catalog. Pure. Fields and labels are those of OLM v0's packageserver.

use std::{cmp::Reverse, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_catalog::{BundleEntry, Channel, CsvMetadata, Package};
use olm_engine::catalogs::LoadedCatalog;
use serde_json::{Map, Value, json};

use super::{KIND, api_version};

/// Settings of a CatalogSource that its content does not have.
#[derive(Debug, Clone, Default)]
pub(super) struct Source {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) created: Option<Time>,
}

const SUPPORTED: &str = "supported";
/// The platform of a version that declares none.
const DEFAULT_PLATFORM: [(&str, &str); 2] = [
    ("operatorframework.io/os", "operatorframework.io/os.linux"),
    ("operatorframework.io/arch", "operatorframework.io/arch.amd64"),
];

/// The manifest for a namespace. `None` for a package without an installable version.
pub(super) fn manifest(
    loaded: &LoadedCatalog,
    source: &Source,
    package: &Package,
    namespace: &str,
) -> Option<Value> {
    let heads: Vec<(&Channel, &BundleEntry)> = package
        .channels
        .values()
        .filter_map(|channel| Some((channel, package.head_of(&channel.name)?)))
        .collect();
    let (default, _) = heads
        .iter()
        .find(|(channel, _)| channel.name == package.default_channel)
        .or_else(|| heads.first())
        .copied()?;
    let described: Vec<(&Channel, &BundleEntry, CsvMetadata)> = heads
        .into_iter()
        .map(|(channel, head)| (channel, head, head.csv_metadata().unwrap_or_default()))
        .collect();
    let of_default = described.iter().find(|(channel, ..)| channel.name == default.name);
    let csv = of_default.map(|(.., csv)| csv.clone()).unwrap_or_default();
    let mut status = json!({
        "catalogSource": loaded.reference.name,
        "catalogSourceDisplayName": loaded.display_name,
        "catalogSourcePublisher": loaded.publisher,
        "catalogSourceNamespace": loaded.reference.namespace,
        "provider": link(&csv.provider.name, &csv.provider.url),
        "packageName": package.name,
        "channels": described.iter().map(|(c, head, csv)| self::channel(package, c, head, csv)).collect::<Vec<_>>(),
        "defaultChannel": default.name,
    });
    deprecation(&mut status, package.deprecated.as_deref());
    let mut metadata = json!({
        "name": package.name,
        "namespace": namespace,
        "labels": labels(loaded, source, &csv),
    });
    if let Some(created) = &source.created {
        metadata["creationTimestamp"] = json!(created);
    }
    let head = json!({ "apiVersion": api_version(), "kind": KIND });
    let mut manifest = head.as_object().cloned().unwrap_or_default();
    manifest.insert("metadata".to_owned(), metadata);
    manifest.insert("spec".to_owned(), json!({}));
    manifest.insert("status".to_owned(), status);
    Some(manifest.into())
}

/// Labels of the CatalogSource, of its location, of the operator's provider, and of its newest version; later
/// ones override earlier ones.
fn labels(loaded: &LoadedCatalog, source: &Source, csv: &CsvMetadata) -> BTreeMap<String, String> {
    let mut labels = source.labels.clone();
    let mut put = |key: &str, value: &str| drop(labels.insert(key.to_owned(), value.to_owned()));
    put("catalog", &loaded.reference.name);
    put("catalog-namespace", &loaded.reference.namespace);
    put("provider", &csv.provider.name);
    put("provider-url", &csv.provider.url);
    labels.extend(csv.labels.clone());
    for (prefix, label) in DEFAULT_PLATFORM {
        if !labels.keys().any(|key| key.starts_with(prefix)) {
            labels.insert(label.to_owned(), SUPPORTED.to_owned());
        }
    }
    labels
}

fn channel(package: &Package, channel: &Channel, head: &BundleEntry, csv: &CsvMetadata) -> Value {
    let mut out = json!({
        "name": channel.name,
        "currentCSV": head.name,
        "currentCSVDesc": description(head, csv),
        "entries": entries(package, channel),
    });
    deprecation(&mut out, channel.deprecated.as_deref());
    out
}

/// Newest first; versions that their author withdrew are not listed.
fn entries(package: &Package, channel: &Channel) -> Vec<Value> {
    let bundles = channel.entries.iter().filter_map(|entry| package.bundles.get(&entry.name));
    let mut bundles: Vec<&BundleEntry> = bundles.filter(|b| b.property("olm.deprecated").is_none()).collect();
    bundles.sort_by_key(|bundle| Reverse(bundle.version.as_ref()));
    let entry = |bundle: &BundleEntry| {
        let mut out = json!({ "name": bundle.name });
        if let Some(version) = &bundle.version {
            out["version"] = version.to_string().into();
        }
        deprecation(&mut out, bundle.deprecated.as_deref());
        out
    };
    bundles.into_iter().map(entry).collect()
}

/// The metadata of the newest version without its icon, which has its own path.
fn description(head: &BundleEntry, csv: &CsvMetadata) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        let empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if !empty {
            out.insert(key.to_owned(), value);
        }
    };
    let links = csv.links.iter().map(|l| link(&l.name, &l.url)).collect::<Vec<_>>();
    let people = csv.maintainers.iter().map(|m| json!({ "name": m.name, "email": m.email }));
    let apis = csv.native_apis.iter().map(|gvk| json!(gvk)).collect::<Vec<_>>();
    put("displayName", csv.display_name.as_str().into());
    put("version", head.version.as_ref().map(|v| v.to_string()).into());
    put("provider", link(&csv.provider.name, &csv.provider.url));
    put("annotations", json!(csv.annotations));
    put("keywords", json!(csv.keywords));
    put("links", links.into());
    put("maintainers", people.collect::<Vec<_>>().into());
    put("maturity", csv.maturity.as_str().into());
    put("description", csv.description.as_str().into());
    put("installModes", csv.install_modes.clone());
    put("customresourcedefinitions", csv.crd_descriptions.clone());
    put("apiservicedefinitions", csv.api_service_definitions.clone());
    put("nativeApis", apis.into());
    put("minKubeVersion", csv.min_kube_version.clone().into());
    let mut images: Vec<&str> = head.related_images.iter().map(|image| image.image.as_str()).collect();
    images.sort_unstable();
    images.dedup();
    put("relatedImages", json!(images));
    out.into()
}

fn link(name: &str, url: &str) -> Value {
    let mut out = Map::new();
    for (key, value) in [("name", name), ("url", url)] {
        if !value.is_empty() {
            out.insert(key.to_owned(), value.into());
        }
    }
    out.into()
}

fn deprecation(of: &mut Value, message: Option<&str>) {
    if let Some(message) = message {
        of["deprecation"] = json!({ "message": message });
    }
}

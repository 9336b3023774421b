//! Converts messages of `api.Registry` to documents of a file-based catalog.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use olm_registry_api::{Bundle, Deprecation, GroupVersionKind, Package};
use serde_json::{Map, Value, json};

/// Collects content from many messages. The server sends each bundle once for every channel with it,
/// unordered.
#[derive(Default)]
pub(super) struct Converter {
    packages: BTreeMap<String, Parts>,
}

#[derive(Default)]
struct Parts {
    default_channel: String,
    /// The entries of each channel by name.
    channels: BTreeMap<String, BTreeMap<String, Value>>,
    bundles: BTreeSet<String>,
    /// Deprecation messages by schema and name.
    deprecations: BTreeMap<(&'static str, String), String>,
}

impl Converter {
    pub fn package(&mut self, package: &Package) {
        let parts = self.packages.entry(package.name.clone()).or_default();
        parts.default_channel.clone_from(&package.default_channel_name);
        parts.deprecate("olm.package", "", package.deprecation.as_ref());
        for channel in &package.channels {
            parts.channels.entry(channel.name.clone()).or_default();
            parts.deprecate("olm.channel", &channel.name, channel.deprecation.as_ref());
        }
    }

    /// The document of a bundle at its first occurrence.
    pub fn bundle(&mut self, bundle: Bundle) -> Option<Value> {
        let parts = self.packages.entry(bundle.package_name.clone()).or_default();
        parts.deprecate("olm.bundle", &bundle.csv_name, bundle.deprecation.as_ref());
        let channel = parts.channels.entry(bundle.channel_name.clone()).or_default();
        channel.insert(bundle.csv_name.clone(), entry(&bundle));
        parts.bundles.insert(bundle.csv_name.clone()).then(|| document(&bundle))
    }

    /// The documents of packages, channels and deprecations.
    pub fn finish(self) -> Vec<Value> {
        let mut documents = Vec::new();
        for (name, parts) in self.packages {
            documents.push(json!({
                "schema": "olm.package", "name": name, "defaultChannel": parts.default_channel,
            }));
            for (channel, entries) in parts.channels {
                let entries: Vec<Value> = entries.into_values().collect();
                documents.push(json!({
                    "schema": "olm.channel", "package": name, "name": channel, "entries": entries,
                }));
            }
            let deprecations: Vec<Value> = parts.deprecations.into_iter().map(deprecation).collect();
            if !deprecations.is_empty() {
                documents.push(json!({
                    "schema": "olm.deprecations", "package": name, "entries": deprecations,
                }));
            }
        }
        documents
    }
}

impl Parts {
    fn deprecate(&mut self, schema: &'static str, name: &str, deprecation: Option<&Deprecation>) {
        if let Some(deprecation) = deprecation {
            self.deprecations.insert((schema, name.to_owned()), deprecation.message.clone());
        }
    }
}

fn deprecation(((schema, name), message): ((&str, String), String)) -> Value {
    // A package is that of the document.
    let reference =
        if name.is_empty() { json!({ "schema": schema }) } else { json!({ "schema": schema, "name": name }) };
    json!({ "reference": reference, "message": message })
}

fn entry(bundle: &Bundle) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(bundle.csv_name));
    if !bundle.replaces.is_empty() {
        entry.insert("replaces".to_owned(), json!(bundle.replaces));
    }
    if !bundle.skips.is_empty() {
        entry.insert("skips".to_owned(), json!(bundle.skips));
    }
    if !bundle.skip_range.is_empty() {
        entry.insert("skipRange".to_owned(), json!(bundle.skip_range));
    }
    Value::Object(entry)
}

fn document(bundle: &Bundle) -> Value {
    let mut document = Map::new();
    document.insert("schema".to_owned(), json!("olm.bundle"));
    document.insert("package".to_owned(), json!(bundle.package_name));
    document.insert("name".to_owned(), json!(bundle.csv_name));
    if !bundle.bundle_path.is_empty() {
        document.insert("image".to_owned(), json!(bundle.bundle_path));
    }
    document.insert("properties".to_owned(), Value::Array(properties(bundle)));
    Value::Object(document)
}

/// The properties of the message, and those that older servers send in other fields.
fn properties(bundle: &Bundle) -> Vec<Value> {
    // A value that is not JSON is kept, so that the checks of the loader report it.
    let parse = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    let property = |kind: &str, value: Value| json!({ "type": kind, "value": value });
    let mut properties: Vec<Value> =
        bundle.properties.iter().map(|p| property(&p.r#type, parse(&p.value))).collect();
    let has = |kind: &str| bundle.properties.iter().any(|p| p.r#type == kind);

    if !has("olm.package") {
        let value = json!({ "packageName": bundle.package_name, "version": bundle.version });
        properties.push(property("olm.package", value));
    }
    for (kind, apis) in [("olm.gvk", &bundle.provided_apis), ("olm.gvk.required", &bundle.required_apis)] {
        if !has(kind) {
            properties.extend(apis.iter().map(|api| property(kind, gvk(api))));
        }
    }
    for dependency in &bundle.dependencies {
        let value = parse(&dependency.value);
        let (kind, value) = match dependency.r#type.as_str() {
            "olm.package" => {
                let field = |name: &str| value.get(name).cloned().unwrap_or_default();
                let range = json!({ "packageName": field("packageName"), "versionRange": field("version") });
                ("olm.package.required", range)
            }
            // Sent again as required APIs.
            "olm.gvk" if !bundle.required_apis.is_empty() => continue,
            "olm.gvk" => ("olm.gvk.required", value),
            other => (other, value),
        };
        if !has(kind) {
            properties.push(property(kind, value));
        }
    }
    if !has("olm.bundle.object") {
        let csv = Some(&bundle.csv_json).filter(|csv| bundle.object.is_empty() && !csv.is_empty());
        for manifest in bundle.object.iter().chain(csv) {
            let data = json!({ "data": BASE64_STANDARD.encode(manifest) });
            properties.push(property("olm.bundle.object", data));
        }
    }
    properties
}

fn gvk(api: &GroupVersionKind) -> Value {
    json!({ "group": api.group, "version": api.version, "kind": api.kind })
}

#[cfg(test)]
mod tests;

//! Summary of a package: sufficient for lists, for search, and to find providers of an API.

use std::collections::BTreeSet;

use olm_bundle::Gvk;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::hex::hex;
use crate::model::{CsvMetadata, Package};

/// A package in a few lines; the package index is a list of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    pub name: String,
    /// The package's name where the bundle has none.
    pub display_name: String,
    /// One line, without markup.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Such as `Seamless Upgrades`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub capability: String,
    /// Such as `Database`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// When the head was created (`createdAt`), as its author wrote it: a date, mostly with a time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Such as `alpha`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub maturity: String,
    /// The channel of an install without a selected channel.
    pub default_channel: String,
    /// The bundle that it installs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// The namespace suggested by its author (`operatorframework.io/suggested-namespace`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested_namespace: Option<String>,
    /// All channels, by name.
    pub channels: Vec<String>,
    /// Number of bundles.
    pub versions: usize,
    /// The APIs that any of its bundles provides, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provides: Vec<Gvk>,
    /// Digest of its icon, in hex, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Risk score of the head's permissions ([`olm_bundle::permissions::risk`]); `None` where the catalog
    /// does not contain its manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<u32>,
    /// Deprecation message of the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
}

/// The bundle at the head of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Head {
    pub name: String,
    /// Version; empty when it has none.
    pub version: String,
    /// The kinds that it provides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

/// Maximum length of a one-line description in characters.
const LONGEST_LINE: usize = 160;

/// Maximum length of a description for search.
const LONGEST_TEXT: usize = 4_000;

impl Summary {
    /// Only the counts, for checks.
    pub(crate) fn counts(package: &Package) -> (Self, String) {
        let summary = Self {
            name: package.name.clone(),
            default_channel: package.default_channel.clone(),
            channels: package.channels.keys().cloned().collect(),
            versions: package.bundles.len(),
            ..Self::default()
        };
        (summary, String::new())
    }

    /// A package's summary, and the words of its descriptions for search, in lower case.
    pub(crate) fn of(package: &Package) -> (Self, String) {
        let head = package.head();
        let metadata = head.and_then(|bundle| bundle.csv_metadata()).unwrap_or_default();
        let annotation =
            |key: &str| metadata.annotations.get(key).map(|text| text.trim()).unwrap_or_default();
        let texts = descriptions(&metadata, package);
        let provides: BTreeSet<Gvk> =
            package.bundles.values().flat_map(|bundle| bundle.provided_gvks()).collect();
        let list = |text: &str| {
            text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
        };
        let summary = Self {
            name: package.name.clone(),
            display_name: Some(metadata.display_name.trim())
                .filter(|name| !name.is_empty())
                .unwrap_or(&package.name)
                .to_owned(),
            description: one_line(texts),
            provider: metadata.provider.name.trim().to_owned(),
            capability: annotation("capabilities").to_owned(),
            categories: list(annotation("categories")),
            keywords: metadata.keywords.clone(),
            created: annotation("createdAt").to_owned(),
            maturity: metadata.maturity.clone(),
            default_channel: package.default_channel.clone(),
            head: head.map(|bundle| Head {
                name: bundle.name.clone(),
                version: bundle.version.as_ref().map(ToString::to_string).unwrap_or_default(),
                kinds: kinds(bundle.provided_gvks(), &metadata),
            }),
            suggested_namespace: Some(annotation("operatorframework.io/suggested-namespace"))
                .filter(|namespace| !namespace.is_empty())
                .map(str::to_owned),
            channels: package.channels.keys().cloned().collect(),
            versions: package.bundles.len(),
            provides: provides.into_iter().collect(),
            icon: package.icon.as_ref().map(|icon| hex(&Sha256::digest(&icon.data))),
            risk: head
                .filter(|bundle| bundle.is_inline())
                .and_then(|bundle| bundle.bundle().ok())
                .and_then(|bundle| olm_bundle::permissions::risk(&bundle)),
            deprecated: package.deprecated.clone(),
        };
        (summary, words(&texts))
    }
}

/// The short description of a bundle, its long one, and that of the package.
fn descriptions<'a>(metadata: &'a CsvMetadata, package: &'a Package) -> [&'a str; 3] {
    let short = metadata.annotations.get("description").map(|text| text.trim()).unwrap_or_default();
    [short, &metadata.description, &package.description]
}

fn one_line(descriptions: [&str; 3]) -> String {
    first_line(descriptions.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default())
}

impl Package {
    /// The description of one of its bundles in one line, without markup.
    #[must_use]
    pub fn short_description(&self, metadata: &CsvMetadata) -> String {
        one_line(descriptions(metadata, self))
    }
}

/// Provided kinds of the head, from its ClusterServiceVersion and its properties.
fn kinds(provided: Vec<Gvk>, metadata: &CsvMetadata) -> Vec<String> {
    let owned = metadata.crd_descriptions.get("owned").and_then(Value::as_array);
    let owned = owned.into_iter().flatten().filter_map(|crd| crd.get("kind")?.as_str().map(str::to_owned));
    let kinds: BTreeSet<String> = provided.into_iter().map(|gvk| gvk.kind).chain(owned).collect();
    kinds.into_iter().collect()
}

/// The first meaningful sentence or line, without Markdown markup.
fn first_line(text: &str) -> String {
    let plain =
        |line: &str| line.trim().trim_start_matches(['#', '*', '>', '-', '=']).trim().replace(['*', '`'], "");
    let line =
        text.lines().map(plain).find(|line| line.chars().any(char::is_alphanumeric)).unwrap_or_default();
    if line.chars().count() <= LONGEST_LINE {
        return line;
    }
    let cut: String = line.chars().take(LONGEST_LINE - 1).collect();
    let end = cut.rfind(' ').filter(|end| *end > LONGEST_LINE / 2).unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end())
}

/// Each word of the texts once, in the order of the texts.
fn words(texts: &[&str]) -> String {
    let mut seen = BTreeSet::new();
    let mut out = String::new();
    for text in texts {
        let mut end = text.len().min(LONGEST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for word in
            text[..end].to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2)
        {
            if seen.insert(word.to_owned()) {
                out.push_str(word);
                out.push(' ');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_becomes_one_line() {
        assert_eq!(first_line("\n## About\n\nlong"), "About");
        assert_eq!(first_line("---\n**etcd** is `a` store"), "etcd is a store");
        let long = first_line(&"word ".repeat(100));
        assert!(long.chars().count() <= LONGEST_LINE && long.ends_with("word…"), "{long}");
        assert_eq!(first_line(&"é".repeat(400)).chars().count(), LONGEST_LINE);
    }

    #[test]
    fn a_head_whose_manifests_are_in_the_catalog_has_its_risk() {
        // given a package whose head may change nodes, and one whose head is an image
        let csv = serde_json::json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": { "name": "p.v1" },
            "spec": { "installModes": [{ "type": "AllNamespaces", "supported": true }],
                "install": { "strategy": "deployment", "spec": { "deployments": [], "clusterPermissions": [{
                    "serviceAccountName": "p",
                    "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }] }] } } }
        });
        let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, csv.to_string());
        let risk = |rest: &str| {
            let text = format!(
                "---\n{{schema: olm.package, name: p, defaultChannel: c}}\n---\n{{schema: olm.channel, package: p, name: c, \
                 entries: [{{name: p.v1}}]}}\n---\n{{schema: olm.bundle, package: p, name: p.v1, {rest}, properties: [{{type: \
                 olm.package, value: {{packageName: p, version: 1.0.0}}}}{}]}}\n",
                if rest.contains("image: \"\"") {
                    format!(", {{type: olm.bundle.object, value: {{data: {data}}}}}")
                } else {
                    String::new()
                }
            );
            let catalog = crate::Catalog::from_bytes("test", text.as_bytes());
            catalog.summary("p").unwrap_or_else(|| panic!("{:?}", catalog.problems)).risk
        };
        // then only the first one has a score: one reason of level HIGH
        assert_eq!(risk("image: \"\""), Some(10_000));
        assert_eq!(risk("image: localhost/p@sha256:0"), None);
    }

    #[test]
    fn strings_are_stored_once() {
        assert_eq!(words(&["An etcd, etcd store", "Store of keys"]), "etcd store keys ");
    }
}

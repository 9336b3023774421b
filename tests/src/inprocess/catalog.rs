//! Synthetic catalogs for scenarios.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use olm_engine::catalogs::{CatalogRef, LoadedCatalog};
use serde_json::{Value, json};

use super::operator::Operator;

/// An entry of a channel.
pub struct Entry(Value);

/// An entry of a channel.
#[must_use]
pub fn entry(name: &str) -> Entry {
    Entry(json!({ "name": name }))
}

impl Entry {
    #[must_use]
    pub fn replaces(mut self, name: &str) -> Self {
        self.0["replaces"] = name.into();
        self
    }

    #[must_use]
    pub fn skips(mut self, names: &[&str]) -> Self {
        self.0["skips"] = json!(names);
        self
    }

    #[must_use]
    pub fn skip_range(mut self, range: &str) -> Self {
        self.0["skipRange"] = range.into();
        self
    }
}

/// A file-based catalog.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    documents: Vec<Value>,
}

impl Catalog {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One package whose channel `stable` has these versions, each replacing the one before.
    #[must_use]
    pub fn chain(operators: &[&Operator]) -> Self {
        Self::new().and_chain(operators)
    }

    /// One more such package.
    #[must_use]
    pub fn and_chain(self, operators: &[&Operator]) -> Self {
        let mut entries = Vec::new();
        for (at, operator) in operators.iter().enumerate() {
            let one = entry(&operator.name);
            entries.push(match at.checked_sub(1).and_then(|before| operators.get(before)) {
                Some(before) => one.replaces(&before.name),
                None => one,
            });
        }
        let package = operators.first().map(|o| o.package.clone()).unwrap_or_default();
        let with = self.package(&package, "stable").channel(&package, "stable", entries);
        operators.iter().fold(with, |catalog, operator| catalog.bundle(operator))
    }

    #[must_use]
    pub fn package(self, name: &str, default_channel: &str) -> Self {
        self.document(json!({ "schema": "olm.package", "name": name, "defaultChannel": default_channel }))
    }

    #[must_use]
    pub fn channel(self, package: &str, name: &str, entries: Vec<Entry>) -> Self {
        let entries: Vec<Value> = entries.into_iter().map(|entry| entry.0).collect();
        self.document(
            json!({ "schema": "olm.channel", "package": package, "name": name, "entries": entries }),
        )
    }

    #[must_use]
    pub fn bundle(self, operator: &Operator) -> Self {
        self.document(operator.document())
    }

    #[must_use]
    pub fn document(mut self, document: Value) -> Self {
        self.documents.push(document);
        self
    }

    /// Deprecations of a package: `package`, `channel NAME` or `bundle NAME`, with a message.
    #[must_use]
    pub fn deprecated(self, package: &str, entries: &[(&str, &str)]) -> Self {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(what, message)| {
                let (kind, name) = what.split_once(' ').unwrap_or((what, ""));
                let mut reference = json!({ "schema": format!("olm.{kind}") });
                if !name.is_empty() {
                    reference["name"] = name.into();
                }
                json!({ "reference": reference, "message": message })
            })
            .collect();
        self.document(json!({ "schema": "olm.deprecations", "package": package, "entries": entries }))
    }

    #[must_use]
    pub fn documents(&self) -> &[Value] {
        &self.documents
    }

    /// As served by the manager for a CatalogSource.
    #[must_use]
    pub fn served_as(&self, namespace: &str, name: &str) -> LoadedCatalog {
        let content = olm_catalog::Catalog::from_bytes(name, self.text().as_bytes());
        LoadedCatalog::new(CatalogRef::new(namespace, name), Arc::new(content))
    }

    fn text(&self) -> String {
        self.documents.iter().map(|document| format!("{document}\n")).collect()
    }

    /// Writes it into a directory.
    /// # Errors
    /// When writing fails.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
        let text = self.text();
        let file = folder.join("catalog.json");
        std::fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))
    }
}

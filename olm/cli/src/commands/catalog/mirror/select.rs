//! Selection of the packages, channels and bundles to mirror.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use olm_catalog::{BundleEntry, Catalog, Package};
use serde_json::Value;

use crate::{
    commands::catalog::read::package,
    exit::{Code, Failure},
};

#[derive(Debug, Default)]
pub struct Selection {
    /// By name.
    pub packages: BTreeMap<String, Chosen>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The selected part of a package.
#[derive(Debug)]
pub struct Chosen {
    package: Arc<Package>,
    channels: BTreeSet<String>,
    bundles: BTreeSet<String>,
}

impl Selection {
    /// Selects packages by name (all without a name) and the packages that they require; of each, the named
    /// channels (all without a name) and always the default channel, which a valid package needs.
    pub fn of(catalog: &Catalog, packages: &[String], channels: &[String]) -> Result<Self, Failure> {
        let mut selection = Self::default();
        let mut wanted: Vec<String> = packages.to_vec();
        if wanted.is_empty() {
            wanted = catalog.summaries().map(|summary| summary.name.clone()).collect();
        }
        while let Some(name) = wanted.pop() {
            if selection.packages.contains_key(&name) {
                continue;
            }
            let chosen = Chosen::of(package(catalog, &name)?, channels);
            for (required, by) in chosen.requirements() {
                if selection.packages.contains_key(&required)
                    || wanted.contains(&required)
                    || required == name
                {
                    continue;
                }
                if catalog.summary(&required).is_none() {
                    selection.notes.push(format!(
                        "{by} requires package {required}, which the catalog does not contain"
                    ));
                    continue;
                }
                selection
                    .notes
                    .push(format!("package {required} is also mirrored, because {by} requires it"));
                wanted.push(required);
            }
            selection.packages.insert(name, chosen);
        }
        for channel in channels {
            let known = |chosen: &Chosen| chosen.package.channels.contains_key(channel);
            if !selection.packages.values().any(known) {
                return Err(Failure::new(
                    Code::NotFound,
                    format!("channel {channel} not found in any package"),
                )
                .hint("olm catalog list channels SOURCE"));
            }
        }
        selection.note_apis();
        Ok(selection)
    }

    /// An API can have several providers, so a missing one is reported instead of selected.
    fn note_apis(&mut self) {
        let bundles = || self.packages.values().flat_map(Chosen::bundles);
        let provided: BTreeSet<_> = bundles().flat_map(BundleEntry::provided_gvks).collect();
        let mut notes = BTreeSet::new();
        for bundle in bundles() {
            for api in bundle.required_gvks().into_iter().filter(|api| !provided.contains(api)) {
                notes.insert(format!(
                    "{} requires {} ({}/{}), which is not provided by a mirrored package",
                    bundle.package, api.kind, api.group, api.version
                ));
            }
        }
        self.notes.extend(notes);
    }

    /// Whether a document is mirrored; references to items that are not mirrored are removed from it.
    pub fn keeps(&self, package: &str, document: &mut Value) -> bool {
        let Some(chosen) = self.packages.get(package) else { return true };
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text(document, "schema").as_str() {
            "olm.channel" => chosen.channels.contains(&text(document, "name")),
            "olm.bundle" => chosen.bundles.contains(&text(document, "name")),
            "olm.deprecations" => {
                let Some(entries) = document.get_mut("entries").and_then(Value::as_array_mut) else {
                    return true;
                };
                entries.retain(|entry| {
                    let Some(reference) = entry.get("reference") else { return true };
                    let name = text(reference, "name");
                    match text(reference, "schema").as_str() {
                        "olm.channel" => chosen.channels.contains(&name),
                        "olm.bundle" => chosen.bundles.contains(&name),
                        _ => true,
                    }
                });
                !entries.is_empty()
            }
            _ => true,
        }
    }
}

impl Chosen {
    fn of(package: Arc<Package>, channels: &[String]) -> Self {
        let is_chosen = |name: &&String| {
            channels.is_empty() || channels.contains(name) || **name == package.default_channel
        };
        let channels: BTreeSet<String> = package.channels.keys().filter(is_chosen).cloned().collect();
        let entries = channels.iter().filter_map(|name| package.channels.get(name)).flat_map(|c| &c.entries);
        let bundles = entries.map(|entry| entry.name.clone()).collect();
        Self { package, channels, bundles }
    }

    pub fn bundles(&self) -> impl Iterator<Item = &BundleEntry> {
        self.bundles.iter().filter_map(|name| self.package.bundles.get(name))
    }

    /// The packages that the bundles require, each with one bundle that requires it.
    fn requirements(&self) -> BTreeMap<String, String> {
        let required = self.bundles().flat_map(|bundle| {
            bundle
                .required_packages()
                .into_iter()
                .map(|required| (required.package_name, bundle.name.clone()))
        });
        required.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOG: &str = r#"
{"schema":"olm.package","name":"a","defaultChannel":"stable"}
{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"}]}
{"schema":"olm.channel","package":"a","name":"beta","entries":[{"name":"a.v2"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"example.invalid/a:v1","properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}},{"type":"olm.package.required","value":{"packageName":"b","versionRange":">=1.0.0"}}]}
{"schema":"olm.bundle","package":"a","name":"a.v2","image":"example.invalid/a:v2","properties":[{"type":"olm.package","value":{"packageName":"a","version":"2.0.0"}}]}
{"schema":"olm.deprecations","package":"a","entries":[{"reference":{"schema":"olm.channel","name":"beta"},"message":"no more"}]}
{"schema":"olm.package","name":"b","defaultChannel":"stable"}
{"schema":"olm.channel","package":"b","name":"stable","entries":[{"name":"b.v1"}]}
{"schema":"olm.bundle","package":"b","name":"b.v1","image":"example.invalid/b:v1","properties":[{"type":"olm.package","value":{"packageName":"b","version":"1.0.0"}}]}
{"schema":"olm.package","name":"c","defaultChannel":"stable"}
{"schema":"olm.channel","package":"c","name":"stable","entries":[{"name":"c.v1"}]}
{"schema":"olm.bundle","package":"c","name":"c.v1","image":"example.invalid/c:v1","properties":[{"type":"olm.package","value":{"packageName":"c","version":"1.0.0"}}]}
"#;

    #[test]
    fn what_is_required_comes_along_and_what_is_not_chosen_stays() {
        let catalog = Catalog::from_bytes("test", CATALOG.as_bytes());
        // when one package is selected
        let selection = Selection::of(&catalog, &["a".into()], &["stable".into()]).unwrap();
        // then the package that it requires is selected too
        assert_eq!(selection.packages.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(selection.notes, ["package b is also mirrored, because a.v1 requires it"]);
        // and documents of the other channel are not retained
        let kept = |document: Value| selection.keeps("a", &mut document.clone());
        assert!(kept(serde_json::json!({"schema": "olm.channel", "name": "stable"})));
        assert!(!kept(serde_json::json!({"schema": "olm.channel", "name": "beta"})));
        assert!(!kept(serde_json::json!({"schema": "olm.bundle", "name": "a.v2"})));
        let deprecations = serde_json::json!({"schema": "olm.deprecations", "entries": [
            {"reference": {"schema": "olm.channel", "name": "beta"}, "message": "no more"}]});
        assert!(!kept(deprecations));
    }

    #[test]
    fn unknown_names_are_not_found() {
        let catalog = Catalog::from_bytes("test", CATALOG.as_bytes());
        assert_eq!(Selection::of(&catalog, &["d".into()], &[]).unwrap_err().code, Code::NotFound);
        assert_eq!(Selection::of(&catalog, &[], &["gamma".into()]).unwrap_err().code, Code::NotFound);
    }
}

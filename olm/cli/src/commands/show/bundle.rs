//! One version of a package.

use std::collections::BTreeSet;

use olm_bundle::{
    Bundle,
    permissions::{PermissionRule, default_rules},
    pulled_images,
};
use olm_catalog::{BundleEntry, Package};
use olm_engine::catalogs::{CatalogImage, LoadedCatalog};
use olm_plan::shell_word;
use serde::Serialize;

use super::{fact, kubernetes, requires};
use crate::{
    commands::plan::rules_text,
    exit::{Code, Failure},
    offline::find_by_version,
    prose::{printable, wrapped},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownBundle {
    package: String,
    version: String,
    /// Name of the bundle.
    name: String,
    display_name: String,
    provider: String,
    catalog: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_image: Option<CatalogImage>,
    description: String,
    channels: Vec<String>,
    /// Channels of which it is the head.
    heads: Vec<String>,
    /// Bundles and ranges that it can be reached from.
    upgrades_from: Vec<String>,
    provides: Vec<String>,
    requires: Vec<String>,
    capability: String,
    min_kube_version: String,
    install_modes: Vec<String>,
    /// The permissions of the default installation, the most dangerous first; absent when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Vec<PermissionRule>>,
    /// Why the permissions are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions_unknown: Option<String>,
    /// Images of the bundle and of the operator.
    images: Vec<String>,
    /// Deprecation messages of the version, its channels and the package.
    deprecated: Vec<String>,
}

/// A bundle by version or name, in one channel if it is given.
pub fn find<'a>(
    package: &'a Package,
    channel: Option<&str>,
    version: &str,
) -> Result<&'a BundleEntry, Failure> {
    let entry = find_by_version(package, version)?;
    let channel = channel.and_then(|name| package.channels.get(name));
    match channel.filter(|channel| channel.entry(&entry.name).is_none()) {
        Some(channel) => {
            let text =
                format!("{} is not in channel {} of package {}", entry.name, channel.name, package.name);
            Err(Failure::new(Code::NotFound, text)
                .hint(format!("olm versions {}", shell_word(&package.name))))
        }
        None => Ok(entry),
    }
}

/// Reads a bundle. Without its manifests, everything except its permissions is shown.
pub async fn read(loaded: &LoadedCatalog, package: &Package, entry: &BundleEntry) -> ShownBundle {
    let metadata = entry.csv_metadata().unwrap_or_default();
    let namespace = olm_ops::suggested_namespace(std::slice::from_ref(loaded), &package.name);
    let bundle = loaded.bundle(entry).await;
    let (permissions, permissions_unknown) = match &bundle {
        Err(error) => (None, Some(error.to_string())),
        Ok(bundle) => match default_rules(bundle, &namespace) {
            Some(rules) => (Some(rules), None),
            None => (None, Some("it supports neither its own namespace nor all namespaces".to_owned())),
        },
    };
    let listed = package.versions(None, &[]).into_iter().find(|version| version.name == entry.name);
    let channels: Vec<String> = listed.as_ref().map(|listed| listed.channels.clone()).unwrap_or_default();
    let deprecated_channels = channels.iter().filter_map(|name| {
        let why = package.channels.get(name)?.deprecated.as_ref()?;
        Some(format!("channel {name}: {why}"))
    });
    let modes = metadata.install_modes.as_array().into_iter().flatten();
    ShownBundle {
        package: package.name.clone(),
        version: entry.version.as_ref().map(ToString::to_string).unwrap_or_default(),
        name: entry.name.clone(),
        display_name: metadata.display_name.clone(),
        provider: metadata.provider.name.clone(),
        catalog: loaded.reference.name.clone(),
        catalog_image: loaded.image.clone(),
        description: package.short_description(&metadata),
        deprecated: entry
            .deprecated
            .iter()
            .cloned()
            .chain(deprecated_channels)
            .chain(package.deprecated.clone())
            .collect(),
        channels,
        heads: listed.as_ref().map(|listed| listed.heads.clone()).unwrap_or_default(),
        upgrades_from: listed.map(|listed| listed.upgrades_from).unwrap_or_default(),
        provides: entry.provided_gvks().iter().map(ToString::to_string).collect(),
        requires: requires(entry),
        capability: metadata.annotations.get("capabilities").cloned().unwrap_or_default(),
        min_kube_version: metadata.min_kube_version.clone().unwrap_or_default(),
        install_modes: modes
            .filter(|mode| mode["supported"] == true)
            .filter_map(|mode| mode["type"].as_str().map(str::to_owned))
            .collect(),
        permissions,
        permissions_unknown,
        images: images(entry, bundle.as_ref().ok()),
    }
}

/// The image of the bundle, those that it lists, and those of its Deployments.
fn images(entry: &BundleEntry, bundle: Option<&Bundle>) -> Vec<String> {
    let mut images: BTreeSet<String> = entry.image.iter().cloned().collect();
    images.extend(entry.related_images.iter().map(|related| related.image.clone()));
    for deployment in bundle.into_iter().flat_map(Bundle::deployments) {
        if let Some(pod) = deployment.pointer("/spec/template/spec") {
            images.extend(pulled_images(pod).map(str::to_owned));
        }
    }
    images.retain(|image| !image.is_empty());
    images.into_iter().collect()
}

impl ShownBundle {
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |key: &str, value: &str| out += &fact(key, value);
        line("Package", &self.package);
        line("Version", &self.version);
        line("Bundle", &self.name);
        line("Display name", &self.display_name);
        line("Provider", &self.provider);
        line("Catalog", &self.catalog);
        if let Some(image) = &self.catalog_image {
            line("Image", &image.reference);
            line("Signed by", image.signer.as_deref().unwrap_or_default());
        }
        let channel = |name: &String| match self.heads.contains(name) {
            true => format!("{name} (head)"),
            false => name.clone(),
        };
        line("Channels", &self.channels.iter().map(channel).collect::<Vec<_>>().join(", "));
        line("Upgrades from", &self.upgrades_from.join(", "));
        line("Capability", &self.capability);
        line("Kubernetes", &kubernetes(&self.min_kube_version));
        line("Install modes", &self.install_modes.join(", "));
        line("Provides", &self.provides.join(", "));
        line("Requires", &self.requires.join(", "));
        for why in &self.deprecated {
            line("Deprecated", why);
        }
        if !self.description.is_empty() {
            out += &format!("\n{}", wrapped("", "", &printable(&self.description)));
        }
        out += "\nPermissions:\n";
        match &self.permissions {
            Some(rules) if rules.is_empty() => out += "  none\n",
            Some(rules) => out += &rules_text("  ", rules),
            None => {
                let why = self.permissions_unknown.as_deref().unwrap_or_default();
                out += &wrapped("  ", "  ", &printable(&format!("unknown: {why}")));
            }
        }
        if !self.images.is_empty() {
            out += "\nImages:\n";
            for image in &self.images {
                out += &format!("  {}\n", printable(image));
            }
        }
        out.trim_end().to_owned()
    }
}

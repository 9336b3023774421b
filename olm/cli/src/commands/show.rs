//! `olm show`.

mod bundle;

use std::fmt::Write as _;

use olm_catalog::{BundleEntry, Channel, Package};
use olm_engine::catalogs::CatalogImage;
use serde::Serialize;

use super::catalogs;
use crate::{
    args::{Global, ShowArgs},
    exit::{Code, Failure},
    names,
    output::{print_one, table},
    prose::printable,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    package: String,
    display_name: String,
    provider: String,
    catalog: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_image: Option<CatalogImage>,
    default_channel: String,
    channels: Vec<ShownChannel>,
    provides: Vec<String>,
    requires: Vec<String>,
    capability: String,
    min_kube_version: String,
    deprecated: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownChannel {
    name: String,
    head: String,
    versions: Vec<ShownVersion>,
    deprecated: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownVersion {
    name: String,
    version: String,
    replaces: Option<String>,
    skips: Vec<String>,
    skip_range: Option<String>,
}

pub async fn run(global: &Global, args: ShowArgs) -> Result<(), Failure> {
    let (name, version) = target(&args)?;
    let catalogs = catalogs::read(global, &args.source).await?;
    let (loaded, package) = catalogs::find(&catalogs, name).await?;
    if args.source.catalog_dir.is_none() {
        names::keep_versions(global, &package);
    }
    let channels: Vec<&Channel> = match &args.channel {
        Some(name) => {
            let channel = package.channels.get(name);
            vec![channel.ok_or_else(|| Failure::from(&package.nearest_channel(name)))?]
        }
        None => package.channels.values().collect(),
    };
    if let Some(version) = version {
        let entry = bundle::find(&package, args.channel.as_deref(), version)?;
        let shown = bundle::read(loaded, &package, entry).await;
        return print_one(&shown, &args.out.output, &entry.name, || shown.text());
    }
    let head = package.head();
    let metadata = head.and_then(|h| h.csv_metadata()).unwrap_or_default();
    let shown = Shown {
        package: package.name.clone(),
        display_name: metadata.display_name,
        provider: metadata.provider.name,
        catalog: loaded.reference.name.clone(),
        catalog_image: loaded.image.clone(),
        default_channel: package.default_channel.clone(),
        channels: channels.iter().map(|c| channel(&package, c)).collect(),
        provides: head
            .map(|h| h.provided_gvks().iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        requires: head.map(requires).unwrap_or_default(),
        capability: metadata.annotations.get("capabilities").cloned().unwrap_or_default(),
        min_kube_version: metadata.min_kube_version.unwrap_or_default(),
        deprecated: package.deprecated.clone(),
    };
    print_one(&shown, &args.out.output, &shown.package, || text(&shown))
}

/// The package, and the version if one is requested.
fn target(args: &ShowArgs) -> Result<(&str, Option<&str>), Failure> {
    match (args.package.split_once('@'), args.version.as_deref()) {
        (None, version) => Ok((&args.package, version)),
        (Some((package, version)), None) => Ok((package, Some(version))),
        (Some((package, _)), Some(_)) => {
            Err(Failure::new(Code::Usage, "the version is given twice: as PACKAGE@VERSION and as --version")
                .hint(format!("use {package} with --version")))
        }
    }
}

/// The required APIs and packages of a bundle.
fn requires(bundle: &BundleEntry) -> Vec<String> {
    let apis = bundle.required_gvks().into_iter().map(|gvk| gvk.to_string());
    let packages = bundle.required_packages().into_iter();
    apis.chain(packages.map(|need| format!("{} {}", need.package_name, need.version_range))).collect()
}

fn channel(package: &Package, channel: &Channel) -> ShownChannel {
    let mut versions: Vec<ShownVersion> = channel
        .entries
        .iter()
        .map(|entry| ShownVersion {
            name: entry.name.clone(),
            version: package
                .bundles
                .get(&entry.name)
                .and_then(|b| b.version.as_ref())
                .map(ToString::to_string)
                .unwrap_or_default(),
            replaces: entry.replaces.clone(),
            skips: entry.skips.clone(),
            skip_range: entry.skip_range.clone(),
        })
        .collect();
    let version = |v: &ShownVersion| olm_version::Version::parse(&v.version).ok();
    versions.sort_by(|a, b| match (version(a), version(b)) {
        (Some(a), Some(b)) => olm_version::precedence(&b, &a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    ShownChannel {
        name: channel.name.clone(),
        head: channel.head().map(|e| e.name.clone()).unwrap_or_default(),
        versions,
        deprecated: channel.deprecated.clone(),
    }
}

/// The condition of a minimum version of Kubernetes; empty without one.
fn kubernetes(minimum: &str) -> String {
    if minimum.is_empty() { String::new() } else { format!(">= {minimum}") }
}

/// A line with a fact; nothing for an unknown one.
fn fact(key: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    format!("{:<15}{}\n", format!("{key}:"), printable(value))
}

fn text(shown: &Shown) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: &str| out += &fact(key, value);
    line("Package", &shown.package);
    line("Display name", &shown.display_name);
    line("Provider", &shown.provider);
    line("Catalog", &shown.catalog);
    if let Some(image) = &shown.catalog_image {
        line("Image", &image.reference);
        line("Signed by", image.signer.as_deref().unwrap_or_default());
    }
    line("Capability", &shown.capability);
    line("Kubernetes", &kubernetes(&shown.min_kube_version));
    line("Provides", &shown.provides.join(", "));
    line("Requires", &shown.requires.join(", "));
    if let Some(why) = &shown.deprecated {
        line("Deprecated", why);
    }
    let mut rows = Vec::new();
    for channel in &shown.channels {
        for version in &channel.versions {
            let mut from: Vec<String> = version.replaces.iter().cloned().collect();
            from.extend(version.skips.iter().cloned());
            from.extend(version.skip_range.clone());
            let mark = match (version.name == channel.head, channel.name == shown.default_channel) {
                (true, true) => "default, head",
                (true, false) => "head",
                _ => "",
            };
            rows.push(vec![
                channel.name.clone(),
                version.version.clone(),
                version.name.clone(),
                from.join(", "),
                mark.into(),
            ]);
        }
    }
    let _ = write!(out, "\n{}", table(&["CHANNEL", "VERSION", "BUNDLE", "UPGRADES FROM", "STATUS"], &rows));
    out
}

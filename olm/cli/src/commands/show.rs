//! `olm show`.

use std::fmt::Write as _;

use olm_catalog::{Channel, Package};
use olm_engine::catalogs::CatalogImage;
use serde::Serialize;

use super::catalogs;
use crate::{
    args::{Global, PackageArgs},
    exit::Failure,
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

pub async fn run(global: &Global, args: PackageArgs) -> Result<(), Failure> {
    let catalogs = catalogs::read(global, &args.source).await?;
    let (loaded, package) = catalogs::find(&catalogs, &args.package).await?;
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
        requires: head
            .map(|h| {
                let apis = h.required_gvks().iter().map(ToString::to_string).collect::<Vec<_>>();
                let needs = h.required_packages();
                let packages =
                    needs.iter().map(|p| format!("{} {}", p.package_name, p.version_range)).collect();
                [apis, packages].concat()
            })
            .unwrap_or_default(),
        capability: metadata.annotations.get("capabilities").cloned().unwrap_or_default(),
        min_kube_version: metadata.min_kube_version.unwrap_or_default(),
        deprecated: package.deprecated.clone(),
    };
    print_one(&shown, &args.out.output, &shown.package, || text(&shown))
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

fn text(shown: &Shown) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(out, "{:<14}{}", format!("{key}:"), printable(value));
        }
    };
    line("Package", &shown.package);
    line("Display name", &shown.display_name);
    line("Provider", &shown.provider);
    line("Catalog", &shown.catalog);
    if let Some(image) = &shown.catalog_image {
        line("Image", &image.reference);
        line("Signed by", image.signer.as_deref().unwrap_or_default());
    }
    line("Capability", &shown.capability);
    line(
        "Kubernetes",
        &if shown.min_kube_version.is_empty() {
            String::new()
        } else {
            format!(">= {}", shown.min_kube_version)
        },
    );
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
    let _ = write!(out, "\n{}", table(&["CHANNEL", "VERSION", "BUNDLE", "UPGRADES FROM", ""], &rows));
    out
}

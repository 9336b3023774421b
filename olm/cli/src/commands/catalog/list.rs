//! `olm catalog list`.

use std::sync::Arc;

use olm_catalog::{Catalog, Package, Summary};
use serde::Serialize;

use super::{read::package, sources};
use crate::{
    args::{CatalogListArgs, CatalogSourcesArgs, Global, Listed},
    exit::Failure,
    output::Listing,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedPackage {
    name: String,
    display_name: String,
    default_channel: String,
    head: String,
    version: String,
    channels: usize,
    bundles: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedChannel {
    package: String,
    channel: String,
    default: bool,
    head: String,
    version: String,
    entries: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedBundle {
    package: String,
    channel: String,
    name: String,
    version: String,
    replaces: Option<String>,
    skips: Vec<String>,
    skip_range: Option<String>,
    image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<String>,
}

pub async fn run(global: &Global, args: CatalogListArgs) -> Result<(), Failure> {
    let (Some(what), Some(source)) = (args.what, &args.source) else {
        return sources::run(global, CatalogSourcesArgs { out: args.out }).await;
    };
    let catalog = super::load(source, &args.registry, args.package.as_deref()).await?;
    let summaries: Vec<&Summary> = match &args.package {
        Some(name) => {
            let found = catalog.summary(name);
            vec![found.ok_or_else(|| Failure::from(&catalog.nearest_package(name)))?]
        }
        None => catalog.summaries().collect(),
    };
    match what {
        Listed::Packages => Listing {
            items: &summaries.iter().map(|summary| listed(summary)).collect::<Vec<_>>(),
            columns: &[
                ("PACKAGE", |p| p.name.clone()),
                ("DISPLAY", |p| p.display_name.clone()),
                ("DEFAULT CHANNEL", |p| p.default_channel.clone()),
                ("VERSION", |p| p.version.clone()),
                ("CHANNELS", |p| p.channels.to_string()),
                ("BUNDLES", |p| p.bundles.to_string()),
            ],
            wide: &[],
            name: |p| p.name.clone(),
            empty: "No packages found.",
        }
        .print(&args.out),
        Listed::Channels => Listing {
            items: &each(&catalog, &summaries, channels)?,
            columns: &[
                ("PACKAGE", |c| c.package.clone()),
                ("CHANNEL", |c| c.channel.clone()),
                ("HEAD", |c| c.head.clone()),
                ("VERSION", |c| c.version.clone()),
                ("BUNDLES", |c| c.entries.to_string()),
                ("STATUS", |c| {
                    let marks = [c.default.then_some("default"), c.deprecated.as_ref().map(|_| "deprecated")];
                    marks.into_iter().flatten().collect::<Vec<_>>().join(", ")
                }),
            ],
            wide: &[],
            name: |c| format!("{}/{}", c.package, c.channel),
            empty: "No channels found.",
        }
        .print(&args.out),
        Listed::Bundles => Listing {
            items: &each(&catalog, &summaries, bundles)?,
            columns: &[
                ("PACKAGE", |b| b.package.clone()),
                ("CHANNEL", |b| b.channel.clone()),
                ("BUNDLE", |b| b.name.clone()),
                ("REPLACES", |b| b.replaces.clone().unwrap_or_default()),
                ("SKIPS", |b| b.skips.join(",")),
                ("SKIP RANGE", |b| b.skip_range.clone().unwrap_or_default()),
                ("IMAGE", |b| b.image.clone().unwrap_or_default()),
            ],
            wide: &[],
            name: |b| b.name.clone(),
            empty: "No bundles found.",
        }
        .print(&args.out),
    }
}

/// The items of each package, with one package in memory at a time.
fn each<T>(
    catalog: &Catalog,
    summaries: &[&Summary],
    of: fn(&Arc<Package>) -> Vec<T>,
) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    for summary in summaries {
        all.extend(of(&package(catalog, &summary.name)?));
    }
    Ok(all)
}

fn listed(summary: &Summary) -> ListedPackage {
    let head = summary.head.clone().unwrap_or_default();
    ListedPackage {
        name: summary.name.clone(),
        display_name: summary.display_name.clone(),
        default_channel: summary.default_channel.clone(),
        head: head.name,
        version: head.version,
        channels: summary.channels.len(),
        bundles: summary.versions,
        deprecated: summary.deprecated.clone(),
    }
}

fn channels(package: &Arc<Package>) -> Vec<ListedChannel> {
    let channels = package.channels.values().map(|channel| {
        let head = channel.head().map(|entry| entry.name.clone()).unwrap_or_default();
        ListedChannel {
            package: package.name.clone(),
            channel: channel.name.clone(),
            default: channel.name == package.default_channel,
            version: version(package, &head),
            head,
            entries: channel.entries.len(),
            deprecated: channel.deprecated.clone(),
        }
    });
    channels.collect()
}

fn bundles(package: &Arc<Package>) -> Vec<ListedBundle> {
    let entries = package.channels.values().flat_map(|channel| {
        channel.entries.iter().map(|entry| {
            let bundle = package.bundles.get(&entry.name);
            ListedBundle {
                package: package.name.clone(),
                channel: channel.name.clone(),
                name: entry.name.clone(),
                version: version(package, &entry.name),
                replaces: entry.replaces.clone(),
                skips: entry.skips.clone(),
                skip_range: entry.skip_range.clone(),
                image: bundle.and_then(|bundle| bundle.image.clone()),
                deprecated: bundle.and_then(|bundle| bundle.deprecated.clone()),
            }
        })
    });
    entries.collect()
}

fn version(package: &Package, bundle: &str) -> String {
    let version = package.bundles.get(bundle).and_then(|bundle| bundle.version.as_ref());
    version.map(ToString::to_string).unwrap_or_default()
}

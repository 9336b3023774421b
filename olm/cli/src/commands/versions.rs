//! `olm versions`.

use olm_catalog::{BundleEntry, Package};
use serde::Serialize;

use super::catalogs;
use crate::{
    args::{Global, PackageArgs},
    context,
    exit::Failure,
    names,
    output::Listing,
};

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedVersion {
    version: String,
    /// Name of the bundle.
    name: String,
    channels: Vec<String>,
    /// Channels of which it is the newest version.
    heads: Vec<String>,
    /// Whether it is the newest version of the default channel.
    default: bool,
    installed: bool,
    /// Bundles and ranges that it can be reached from.
    upgrades_from: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<String>,
}

pub async fn run(global: &Global, args: PackageArgs) -> Result<(), Failure> {
    let catalogs = catalogs::read(global, &args.source).await?;
    let (_, package) = catalogs::find(&catalogs, &args.package).await?;
    if let Some(channel) = args.channel.as_deref().filter(|channel| !package.channels.contains_key(*channel))
    {
        return Err(Failure::from(&package.nearest_channel(channel)));
    }
    let installed = match args.source.catalog_dir {
        Some(_) => None,
        None => {
            names::keep_versions(global, &package);
            installed(global, &args.package).await
        }
    };
    let items = versions(&package, args.channel.as_deref(), installed.as_deref());
    Listing {
        items: &items,
        columns: &[
            ("VERSION", |v| v.version.clone()),
            ("CHANNELS", |v| v.channels.join(", ")),
            ("BUNDLE", |v| v.name.clone()),
            ("STATUS", ListedVersion::status),
        ],
        wide: &[
            ("UPGRADES FROM", |v| v.upgrades_from.join(", ")),
            ("IMAGE", |v| v.image.clone().unwrap_or_default()),
        ],
        name: |v| v.name.clone(),
        empty: "No versions found.",
    }
    .print(&args.out)
}

/// The installed bundle, as far as the caller may read it: the versions are shown without it too.
async fn installed(global: &Global, package: &str) -> Option<String> {
    let client = context::connect(global).await.ok()?;
    olm_ops::find_installed(&client, global.namespace.as_deref(), package).await.ok()?.csv
}

impl ListedVersion {
    fn status(&self) -> String {
        let head = match (self.default, self.heads.is_empty()) {
            (true, _) => Some("newest of the default channel".to_owned()),
            (false, false) => Some(format!("newest of {}", self.heads.join(", "))),
            (false, true) => None,
        };
        let parts = [
            self.installed.then(|| "installed".to_owned()),
            head,
            self.deprecated.as_ref().map(|_| "deprecated".to_owned()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// The versions that are in a channel, newest first.
fn versions(package: &Package, only: Option<&str>, installed: Option<&str>) -> Vec<ListedVersion> {
    let channels =
        || package.channels.values().filter(move |channel| only.is_none_or(|name| channel.name == name));
    let default_head = package.head().map(|head| &head.name);
    let version = |bundle: &BundleEntry| {
        let entries: Vec<_> = channels()
            .filter_map(|channel| {
                let entry = channel.entries.iter().find(|entry| entry.name == bundle.name)?;
                Some((channel, entry))
            })
            .collect();
        let mut from = Vec::new();
        for (_, entry) in &entries {
            from.extend(entry.replaces.iter().chain(&entry.skips).chain(&entry.skip_range).cloned());
        }
        from.sort();
        from.dedup();
        let heads = entries
            .iter()
            .filter(|(channel, entry)| channel.head().is_some_and(|head| head.name == entry.name));
        (!entries.is_empty()).then(|| ListedVersion {
            version: bundle.version.as_ref().map(ToString::to_string).unwrap_or_default(),
            name: bundle.name.clone(),
            channels: entries.iter().map(|(channel, _)| channel.name.clone()).collect(),
            heads: heads.map(|(channel, _)| channel.name.clone()).collect(),
            default: default_head == Some(&bundle.name),
            installed: installed == Some(bundle.name.as_str()),
            upgrades_from: from,
            image: bundle.image.clone(),
            deprecated: bundle.deprecated.clone(),
        })
    };
    let mut bundles: Vec<&BundleEntry> = package.bundles.values().collect();
    bundles.sort_by(|a, b| match (&a.version, &b.version) {
        (Some(a), Some(b)) => olm_version::precedence(b, a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    bundles.into_iter().filter_map(version).collect()
}

#[cfg(test)]
mod tests {
    use olm_catalog::Catalog;

    use super::*;

    #[test]
    fn versions_are_listed_newest_first_with_their_channels() {
        let bundle = |version: &str| {
            format!(
                "---\nschema: olm.bundle\npackage: p\nname: p.v{version}\nimage: reg/p:v{version}\nproperties:\n\
                 - {{type: olm.package, value: {{packageName: p, version: {version}}}}}\n"
            )
        };
        let text = format!(
            "---\n{{schema: olm.package, name: p, defaultChannel: stable}}\n\
             ---\n{{schema: olm.channel, package: p, name: stable, entries: [{{name: p.v1.0.0}}, \
             {{name: p.v1.10.0, replaces: p.v1.0.0, skips: [p.v1.9.0]}}]}}\n\
             ---\n{{schema: olm.channel, package: p, name: beta, entries: [{{name: p.v1.9.0}}]}}\n{}{}{}",
            bundle("1.0.0"),
            bundle("1.10.0"),
            bundle("1.9.0")
        );
        let package = Catalog::from_bytes("test", text.as_bytes()).package("p").unwrap().unwrap();
        let listed = versions(&package, None, Some("p.v1.0.0"));
        let rows: Vec<String> = listed
            .iter()
            .map(|v| format!("{} {} [{}]", v.version, v.channels.join(","), v.status()))
            .collect();
        assert_eq!(
            rows,
            [
                "1.10.0 stable [newest of the default channel]",
                "1.9.0 beta [newest of beta]",
                "1.0.0 stable [installed]"
            ]
        );
        assert_eq!(listed[0].upgrades_from, ["p.v1.0.0", "p.v1.9.0"]);
        assert_eq!(versions(&package, Some("beta"), None).len(), 1);
    }
}

//! The versions of a package, for lists.

use serde::Serialize;

use crate::{
    model::{BundleEntry, Channel, ChannelEntry, Package},
    nearest::Unknown,
};

/// A version of a package with the channels that contain it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageVersion {
    pub version: String,
    /// Name of the bundle.
    pub name: String,
    pub channels: Vec<String>,
    /// Channels of which it is the newest version.
    pub heads: Vec<String>,
    /// Whether it is the newest version of the default channel.
    pub default: bool,
    pub installed: bool,
    /// Bundles and ranges that it can be reached from.
    pub upgrades_from: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
}

impl Package {
    /// A bundle by its version or name.
    ///
    /// # Errors
    /// The nearest versions.
    pub fn find_version(&self, text: &str) -> Result<&BundleEntry, Unknown> {
        let wanted = olm_version::parse_lenient(text).ok();
        let fits = |entry: &&BundleEntry| match (&entry.version, &wanted) {
            (Some(version), Some(wanted)) => olm_version::precedence(version, wanted).is_eq(),
            _ => false,
        };
        let found = self.bundles.get(text).or_else(|| self.bundles.values().find(fits));
        found.ok_or_else(|| self.nearest_version(text))
    }

    /// A channel that contains a bundle: the followed one, else the default channel, else the first.
    #[must_use]
    pub fn channel_with(&self, bundle: &str, followed: Option<&str>) -> Option<String> {
        let has = |name: &&str| self.channels.get(*name).is_some_and(|one| one.entry(bundle).is_some());
        let preferred = followed.into_iter().chain([self.default_channel.as_str()]);
        preferred.chain(self.channels.keys().map(String::as_str)).find(has).map(str::to_owned)
    }

    /// The versions that are in a channel, or in the one channel, newest first.
    #[must_use]
    pub fn versions(&self, only: Option<&str>, installed: &[&str]) -> Vec<PackageVersion> {
        let channels: Vec<(&Channel, Option<&str>)> = self
            .channels
            .values()
            .filter(|channel| only.is_none_or(|name| channel.name == name))
            .map(|channel| (channel, channel.head().map(|head| head.name.as_str())))
            .collect();
        let default_head = self.head().map(|head| head.name.as_str());
        let mut bundles: Vec<&BundleEntry> = self.bundles.values().collect();
        bundles.sort_by(|a, b| match (&a.version, &b.version) {
            (Some(a), Some(b)) => olm_version::precedence(b, a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        let version = |bundle: &BundleEntry| {
            let name = bundle.name.as_str();
            let within = channels.iter().filter_map(|(channel, _)| Some((*channel, channel.entry(name)?)));
            let within: Vec<(&Channel, &ChannelEntry)> = within.collect();
            let mut from: Vec<String> = within
                .iter()
                .flat_map(|(_, entry)| entry.replaces.iter().chain(&entry.skips).chain(&entry.skip_range))
                .cloned()
                .collect();
            from.sort();
            from.dedup();
            let heads = channels.iter().filter(|(_, head)| *head == Some(name));
            (!within.is_empty()).then(|| PackageVersion {
                version: bundle.version.as_ref().map(ToString::to_string).unwrap_or_default(),
                name: name.to_owned(),
                channels: within.iter().map(|(channel, _)| channel.name.clone()).collect(),
                heads: heads.map(|(channel, _)| channel.name.clone()).collect(),
                default: default_head == Some(name),
                installed: installed.contains(&name),
                upgrades_from: from,
                image: bundle.image.clone(),
                deprecated: bundle.deprecated.clone(),
            })
        };
        bundles.into_iter().filter_map(version).collect()
    }
}

impl PackageVersion {
    /// What is special about it, for lists.
    #[must_use]
    pub fn status(&self) -> String {
        let head = match (self.default, self.heads.is_empty()) {
            (true, _) => Some("head of the default channel".to_owned()),
            (false, false) => Some(format!("head of {}", self.heads.join(", "))),
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

#[cfg(test)]
mod tests {
    use crate::Catalog;

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
        let listed = package.versions(None, &["p.v1.0.0"]);
        let rows: Vec<String> = listed
            .iter()
            .map(|v| format!("{} {} [{}]", v.version, v.channels.join(","), v.status()))
            .collect();
        assert_eq!(
            rows,
            [
                "1.10.0 stable [head of the default channel]",
                "1.9.0 beta [head of beta]",
                "1.0.0 stable [installed]"
            ]
        );
        assert_eq!(listed[0].upgrades_from, ["p.v1.0.0", "p.v1.9.0"]);
        assert_eq!(package.versions(Some("beta"), &[]).len(), 1);
        // a bundle is found by both of its names, and has a channel
        for text in ["p.v1.9.0", "1.9.0", "v1.9"] {
            assert_eq!(package.find_version(text).map(|found| found.name.as_str()), Ok("p.v1.9.0"), "{text}");
        }
        assert_eq!(package.find_version("1.9.1").unwrap_err().known, ["1.10.0", "1.9.0", "1.0.0"]);
        let channel = |bundle: &str, followed| package.channel_with(bundle, followed);
        assert_eq!(channel("p.v1.9.0", Some("stable")).as_deref(), Some("beta"));
        assert_eq!(channel("p.v1.0.0", Some("beta")).as_deref(), Some("stable"));
        assert_eq!(channel("p.v1.9.0", Some("beta")).as_deref(), Some("beta"));
        assert_eq!(channel("p.v2.0.0", None), None);
    }
}

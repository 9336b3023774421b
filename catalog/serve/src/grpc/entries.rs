//! Entries of a package that replace a bundle or provide an API.

use olm_bundle::Gvk;
use olm_catalog::{BundleEntry, Channel, ChannelEntry as Entry, Package};
use olm_registry_api::ChannelEntry;
use tonic::Status;

use super::packages::Messages;

/// A requested API. Bundles do not record the plural of the request, and upstream ignores it too.
#[derive(Debug, Clone)]
pub(super) struct Api {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Api {
    pub fn is(&self, gvk: &Gvk) -> bool {
        gvk.group == self.group && gvk.version == self.version && gvk.kind == self.kind
    }

    fn is_provided_by(&self, bundle: &BundleEntry) -> bool {
        bundle.provided_gvks().iter().any(|gvk| self.is(gvk))
    }

    pub fn not_provided(&self) -> Status {
        let Self { group, version, kind } = self;
        Status::not_found(format!(
            "no channel entries found that provide group:{group:?} version:{version:?} kind:{kind:?}"
        ))
    }

    pub fn not_provided_by_default(&self) -> Status {
        let Self { group, version, kind } = self;
        Status::not_found(format!(
            "no entry found that provides group:{group:?} version:{version:?} kind:{kind:?}"
        ))
    }
}

/// The entry of a channel that replaces or skips a bundle. Of several it is the newest; upstream's choice is
/// random.
pub(super) fn newest_that_replaces<'a>(
    package: &Package,
    channel: &'a Channel,
    name: &str,
) -> Option<&'a Entry> {
    let candidates = channel.entries.iter().filter(|entry| replaces(entry, name));
    let bundles = candidates.filter_map(|entry| Some((&package.bundles.get(&entry.name)?.version, entry)));
    bundles.max_by_key(|(version, _)| *version).map(|(_, entry)| entry)
}

/// Whether an entry replaces or skips a bundle. An entry that replaces nothing replaces the empty name, as
/// upstream.
fn replaces(entry: &Entry, name: &str) -> bool {
    entry.replaces.as_deref().unwrap_or_default() == name || entry.skips.iter().any(|skipped| skipped == name)
}

fn present(package: &Package) -> impl Iterator<Item = (&Channel, &Entry, &BundleEntry)> {
    package.channels.values().flat_map(move |channel| {
        let entries = channel.entries.iter();
        entries.filter_map(move |entry| Some((channel, entry, package.bundles.get(&entry.name)?)))
    })
}

fn heads(package: &Package) -> impl Iterator<Item = (&Channel, &Entry, &BundleEntry)> {
    package.channels.values().filter_map(move |channel| {
        let head = channel.head()?;
        Some((channel, head, package.bundles.get(&head.name)?))
    })
}

fn message(package: &Package, channel: &Channel, entry: &Entry, replaces: Option<&str>) -> ChannelEntry {
    ChannelEntry {
        package_name: package.name.clone(),
        channel_name: channel.name.clone(),
        bundle_name: entry.name.clone(),
        replaces: replaces.unwrap_or_default().to_owned(),
    }
}

/// One message for each bundle that an entry upgrades from.
fn messages(
    package: &Package,
    channel: &Channel,
    entry: &Entry,
    is_shown: impl Fn(&str) -> bool,
) -> Vec<ChannelEntry> {
    let replaced = entry.replaces.as_deref();
    let mut messages = vec![message(package, channel, entry, replaced)];
    for skipped in entry.skips.iter().map(String::as_str) {
        if Some(skipped) != replaced && is_shown(skipped) {
            messages.push(message(package, channel, entry, Some(skipped)));
        }
    }
    messages
}

/// The entries that replace or skip a bundle, each with what it replaces, whatever it skips.
pub(super) fn that_replace(package: &Package, name: &str) -> Messages<ChannelEntry> {
    let mut found = Vec::new();
    for (channel, entry, _) in present(package).filter(|(_, entry, _)| replaces(entry, name)) {
        found.push(message(package, channel, entry, entry.replaces.as_deref()));
    }
    Box::new(found.into_iter())
}

pub(super) fn that_provide(package: &Package, api: &Api) -> Messages<ChannelEntry> {
    let mut found = Vec::new();
    for (channel, entry, _) in present(package).filter(|(_, _, bundle)| api.is_provided_by(bundle)) {
        found.extend(messages(package, channel, entry, |_| true));
    }
    Box::new(found.into_iter())
}

/// The heads that provide an API. A skipped bundle is reported if the channel contains it.
pub(super) fn latest_that_provide(package: &Package, api: &Api) -> Messages<ChannelEntry> {
    let mut found = Vec::new();
    for (channel, head, _) in heads(package).filter(|(_, _, bundle)| api.is_provided_by(bundle)) {
        found.extend(messages(package, channel, head, |skipped| channel.entry(skipped).is_some()));
    }
    Box::new(found.into_iter())
}

/// The default channel with its head, when the head provides an API.
pub(super) fn default_that_provides<'a>(package: &'a Package, api: &Api) -> Option<(&'a Channel, &'a Entry)> {
    let mut heads = heads(package).filter(|(channel, ..)| channel.name == package.default_channel);
    let (channel, head, bundle) = heads.next()?;
    api.is_provided_by(bundle).then_some((channel, head))
}

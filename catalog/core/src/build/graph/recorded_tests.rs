//! The channels of a whole community index equal the result of one of the modes for their bundles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Document {
    schema: String,
    #[serde(default)]
    package: String,
    name: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    properties: Vec<Property>,
    #[serde(default)]
    entries: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Property {
    #[serde(rename = "type")]
    type_: String,
    value: Box<serde_json::value::RawValue>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    name: String,
    replaces: Option<String>,
    #[serde(default)]
    skips: Vec<String>,
    skip_range: Option<String>,
}

#[derive(Default)]
struct Package {
    versions: BTreeMap<String, Version>,
    channels: BTreeMap<String, Vec<Entry>>,
    /// With a catalog template of its own: its images are not the synthetic ones.
    native: bool,
}

fn index() -> Option<BTreeMap<String, Package>> {
    let data = std::env::var_os("OLM_SHARED_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = data.join("catalogs/community-full.json.zst");
    if !path.exists() {
        println!("skipped: {} is not there (set OLM_SHARED_DATA)", path.display());
        return None;
    }
    let Ok(output) = Command::new("zstd").arg("-dc").arg(&path).output() else {
        println!("skipped: {} needs the command zstd", path.display());
        return None;
    };
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let document: Document = serde_json::from_slice(line).unwrap();
        let package = packages.entry(document.package.clone()).or_default();
        match document.schema.as_str() {
            "olm.bundle" => {
                #[derive(Deserialize)]
                struct Value {
                    version: String,
                }
                let property = document.properties.iter().find(|property| property.type_ == "olm.package");
                let value: Value = serde_json::from_str(property.unwrap().value.get()).unwrap();
                package.versions.insert(document.name, Version::parse(&value.version).unwrap());
                let image = format!("quay.io/openshift-community-operators/{}:v", document.package);
                package.native |= !document.image.starts_with(&image);
            }
            "olm.channel" => {
                let entry = |entry: Recorded| {
                    let Recorded { name, replaces, skips, skip_range } = entry;
                    Entry { name, replaces, skips, skip_range }
                };
                package.channels.insert(document.name, document.entries.into_iter().map(entry).collect());
            }
            _ => {}
        }
    }
    packages.remove("");
    Some(packages)
}

/// The head of a channel, and the entries on its chain.
fn chain(entries: &[Entry]) -> (Option<String>, BTreeSet<String>) {
    let by_name: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let below: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entry| entry.replaces.iter().chain(&entry.skips))
        .map(String::as_str)
        .collect();
    let head = entries.iter().find(|entry| !below.contains(entry.name.as_str()));
    let mut chain = BTreeSet::new();
    let mut at = head;
    while let Some(entry) = at.filter(|entry| chain.insert(entry.name.clone())) {
        at = entry.replaces.as_deref().and_then(|name| by_name.get(name).copied());
    }
    (head.map(|head| head.name.clone()), chain)
}

/// The channels in the format of upstream's tools: a skipped bundle has no edges (`listBundles` follows the
/// chain from the head). The recording's synthesized graphs keep them.
fn without_edges_of_skipped(channels: &BTreeMap<String, Vec<Entry>>) -> BTreeMap<String, Vec<Entry>> {
    let channel = |entries: &Vec<Entry>| {
        let (_, chain) = chain(entries);
        let entry = |entry: &Entry| match chain.contains(&entry.name) {
            true => entry.clone(),
            false => Entry { replaces: None, skips: Vec::new(), ..entry.clone() },
        };
        entries.iter().map(entry).collect()
    };
    channels.iter().map(|(name, entries)| (name.clone(), channel(entries))).collect()
}

/// Metadata that the bundles' manifests must have had.
fn nodes(package: &Package) -> Vec<Node> {
    let node = |(name, version): (&String, &Version)| {
        let entries = package.channels.iter().flat_map(|(channel, entries)| {
            entries.iter().filter(|entry| entry.name == *name).map(move |entry| (channel, entry))
        });
        let entries: Vec<(&String, &Entry)> = entries.collect();
        let most = entries.iter().max_by_key(|(_, entry)| (entry.replaces.is_some(), entry.skips.len()));
        Node {
            name: name.clone(),
            version: version.clone(),
            replaces: most.and_then(|(_, entry)| entry.replaces.clone()),
            skips: most.map(|(_, entry)| entry.skips.clone()).unwrap_or_default(),
            skip_range: most.and_then(|(_, entry)| entry.skip_range.clone()),
            channels: entries.iter().map(|(channel, _)| (*channel).clone()).collect(),
            default_channel: None,
            deprecated: false,
        }
    };
    package.versions.iter().map(node).collect()
}

fn by_name(channels: &BTreeMap<String, Vec<Entry>>) -> BTreeMap<&str, BTreeMap<&str, &Entry>> {
    channels
        .iter()
        .map(|(name, entries)| {
            (name.as_str(), entries.iter().map(|entry| (entry.name.as_str(), entry)).collect())
        })
        .collect()
}

#[test]
fn every_synthesized_package_is_what_a_mode_makes() {
    let Some(packages) = index() else { return };
    let (mut semver, mut replaces) = (0, 0);
    let mut neither = Vec::new();
    for (name, package) in packages.iter().filter(|(_, package)| !package.native) {
        let nodes = nodes(package);
        let expected = without_edges_of_skipped(&package.channels);
        // given the channels that each bundle is in, or the head of each channel
        let by_version = graph(Mode::Semver, &nodes, false);
        let heads =
            package.channels.iter().filter_map(|(name, entries)| Some((name.clone(), chain(entries).0?)));
        let by_edges = graph_of_heads(&nodes, &heads.collect(), None, false);
        // then one of the two is the recorded graph
        let is_semver = by_name(&by_version.channels) == by_name(&expected);
        let is_replaces = by_name(&by_edges.channels) == by_name(&expected);
        semver += usize::from(is_semver);
        replaces += usize::from(is_replaces);
        if !is_semver && !is_replaces {
            neither.push(name);
        }
    }
    println!("{semver} packages are what semver-mode makes, {replaces} what replaces-mode makes");
    assert_eq!(neither, Vec::<&String>::new());
    assert!(semver + replaces > packages.len());
}

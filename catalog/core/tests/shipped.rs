//! The shipped catalog equals the build of its bundles, and continues the package of the same name.
//!
//! `UPDATE=1 cargo test -p olm-catalog --test shipped` writes it anew; run it twice, as the program contains
//! a copy.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::data;
use olm_catalog::build::{self, Built, Format, Options};
use olm_catalog::{Catalog, Package, Severity};

const HEADER: &str =
    "# Made of bundles/; do not edit. `UPDATE=1 cargo test -p olm-catalog --test shipped` writes it anew.\n";

/// The folder `catalog`.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn built() -> Built {
    let options = Options { strict: true, ..Options::default() };
    build::from_bundle_repository(&root().join("../bundles"), &options)
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_shipped_catalog_is_made_of_its_bundles() {
    let built = built();
    assert!(!built.packages.is_empty());
    for package in &built.packages {
        let text = format!("{HEADER}{}", package.text(Format::Yaml));
        let path = root().join("data").join(&package.name).join("catalog.yaml");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "{} is not what bundles/ make; run this test with UPDATE=1", path.display());
    }
}

#[test]
fn the_shipped_catalog_is_right() {
    let catalog = olm_catalog::shipped();
    let errors: Vec<_> =
        catalog.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let etcd = catalog.package("etcd").unwrap().unwrap();
    for bundle in etcd.bundles.values() {
        let parsed = bundle.bundle().unwrap();
        assert_eq!(parsed.name(), bundle.name);
    }
    assert!(etcd.icon.is_some());
    assert_eq!(etcd.default_channel, "singlenamespace-alpha");
    assert_eq!(
        etcd.channels.keys().collect::<Vec<_>>(),
        ["alpha", "clusterwide-alpha", "singlenamespace-alpha", "stable"]
    );
}

#[test]
fn myapp_is_a_package_with_one_channel_and_one_upgrade() {
    let catalog = olm_catalog::shipped();
    let names: Vec<String> = catalog.summaries().map(|summary| summary.name.clone()).collect();
    assert_eq!(names, ["etcd", "myapp"]);
    let myapp = catalog.package("myapp").unwrap().unwrap();
    assert!(myapp.icon.is_some());
    assert_eq!(myapp.default_channel, "alpha");
    assert_eq!(myapp.channels.keys().collect::<Vec<_>>(), ["alpha"]);
    let chain: Vec<&str> = myapp.channels["alpha"].chain().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(chain, ["myapp.v0.2.0", "myapp.v0.1.0"]);
    assert_eq!(edges(&myapp, "alpha", "myapp.v0.1.0"), ["myapp.v0.2.0"]);
    for bundle in myapp.bundles.values() {
        assert_eq!(bundle.bundle().unwrap().name(), bundle.name);
    }
}

/// The channels with an entry for a bundle, with the shipped entry that upgrades from it.
fn edges<'a>(ours: &'a Package, channel: &str, installed: &str) -> Vec<&'a str> {
    let entries = ours.channels.get(channel).into_iter().flat_map(|channel| &channel.entries);
    let leads = entries.filter(|entry| {
        entry.replaces.as_deref() == Some(installed) || entry.skips.iter().any(|skipped| skipped == installed)
    });
    leads.map(|entry| entry.name.as_str()).collect()
}

#[test]
fn every_upstream_version_has_an_edge_to_ours_in_its_own_channel() {
    // given: the published package, as bundles and as package manifests (where 0.6.1 has another name)
    for folder in ["bundles/operators/etcd", "bundles/packagemanifests/etcd"] {
        let Some(dir) = data(folder) else { return };
        let upstream = build::load(&dir).unwrap().package("etcd").unwrap().unwrap();
        let ours = olm_catalog::shipped().package("etcd").unwrap().unwrap();
        // then: every channel exists, and every installed version of it has an upgrade in it
        assert!(upstream.channels.keys().all(|name| ours.channels.contains_key(name)));
        assert_eq!(upstream.default_channel, ours.default_channel);
        for channel in upstream.channels.values() {
            assert!(channel.head().is_some(), "{}", channel.name);
            for entry in &channel.entries {
                let to = edges(&ours, &channel.name, &entry.name);
                let at = format!("{folder}: {} in {}: {to:?}", entry.name, channel.name);
                assert!(to.contains(&"etcdoperator.v0.10.0"), "{at}");
                // and: subscribers of the cluster-wide operator get its cluster-wide successor directly
                let clusterwide = channel.name == "clusterwide-alpha" && entry.name != "etcdoperator.v0.6.1";
                assert_eq!(to.contains(&"etcdoperator.v0.11.0-clusterwide"), clusterwide, "{at}");
            }
        }
        // and: in `stable` too, for operators of one namespace
        for name in ["etcdoperator.v0.9.4", "etcdoperator.v0.9.2", "etcdoperator.v0.9.0"] {
            assert!(edges(&ours, "stable", name).contains(&"etcdoperator.v0.11.0"), "{name}");
        }
    }
}

#[test]
fn channels_lead_to_their_heads() {
    let ours = olm_catalog::shipped().package("etcd").unwrap().unwrap();
    for (channel, expected) in [
        ("alpha", vec!["etcdoperator.v0.11.0", "etcdoperator.v0.10.1"]),
        ("singlenamespace-alpha", vec!["etcdoperator.v0.11.0", "etcdoperator.v0.10.1"]),
        ("clusterwide-alpha", vec!["etcdoperator.v0.11.0-clusterwide", "etcdoperator.v0.10.1"]),
        ("stable", vec!["etcdoperator.v0.11.0", "etcdoperator.v0.10.1"]),
    ] {
        let chain: Vec<&str> =
            ours.channels[channel].chain().iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(chain, expected, "{channel}");
    }
}

/// A repository with upstream's bundles and the shipped ones is one package with one head per channel.
#[test]
fn upstreams_bundles_and_ours_make_one_valid_package() {
    let Some(upstream) = data("bundles/operators/etcd") else { return };
    let mut text = String::new();
    let mut entries: BTreeMap<String, Vec<serde_json::Value>> = BTreeMap::new();
    let theirs = build::from_bundle_repository(&upstream, &Options::default()).unwrap();
    let ours = built();
    let ours =
        ours.documents().filter(|document| document["package"] == "etcd" || document["name"] == "etcd");
    for document in ours.chain(theirs.documents()) {
        match document["schema"].as_str() {
            Some("olm.channel") => {
                let channel = entries.entry(document["name"].as_str().unwrap().to_owned()).or_default();
                channel.extend(document["entries"].as_array().unwrap().iter().cloned());
            }
            Some("olm.package") if text.contains("olm.package\"") => {}
            _ => text += &format!("{document}\n"),
        }
    }
    for (name, entries) in &entries {
        let document =
            serde_json::json!({"schema": "olm.channel", "package": "etcd", "name": name, "entries": entries});
        text += &format!("{document}\n");
    }
    let catalog = Catalog::from_bytes("both", text.as_bytes());
    let errors: Vec<_> =
        catalog.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let package = catalog.package("etcd").unwrap().unwrap();
    for channel in package.channels.values() {
        let head = match channel.name.as_str() {
            "clusterwide-alpha" => "etcdoperator.v0.11.0-clusterwide",
            _ => "etcdoperator.v0.11.0",
        };
        assert_eq!(channel.head().unwrap().name, head, "{}", channel.name);
    }
}

//! Package manifests of 2017 to 2021: directories of real ones, and ConfigMaps of catalogs.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::data;
use olm_catalog::build::{self, Built, Options};
use olm_catalog::{Package, Severity};
use serde_json::Value;

/// `channel: head <- … <- tail` of each channel.
fn chains(package: &Package) -> Vec<String> {
    let chain = |channel: &olm_catalog::Channel| {
        let names: Vec<&str> = channel.chain().iter().map(|entry| entry.name.as_str()).collect();
        let tail = channel.chain().last().and_then(|entry| entry.replaces.clone());
        let tail = tail.map(|tail| format!(" <- ({tail})")).unwrap_or_default();
        format!("{}: {}{tail}", channel.name, names.join(" <- "))
    };
    package.channels.values().map(chain).collect()
}

fn texts(built: &Built, severity: Severity) -> Vec<String> {
    let problems = built.problems.iter().filter(|problem| problem.severity == severity);
    problems.map(|problem| format!("{} [{}]", problem.text, problem.code)).collect()
}

#[test]
fn real_package_manifests_become_packages() {
    let Some(dir) = data("bundles/packagemanifests") else { return };
    // when
    let built = build::from_bundle_repository(&dir, &Options::default()).unwrap();
    // then: every package is there, each channel from its head down to the existing bundles
    let catalog = built.catalog();
    let package = |name: &str| catalog.package(name).unwrap().unwrap();
    let names: Vec<&str> = built.packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(names, ["enmasse", "etcd", "knative-operator", "minio-operator", "postgresql", "rook-ceph"]);
    assert_eq!(
        chains(&package("etcd")),
        [
            "alpha: etcdoperator-community.v0.6.1",
            "clusterwide-alpha: etcdoperator.v0.9.4-clusterwide <- etcdoperator.v0.9.2-clusterwide <- etcdoperator.v0.9.0",
            "singlenamespace-alpha: etcdoperator.v0.9.4 <- etcdoperator.v0.9.2 <- etcdoperator.v0.9.0",
        ]
    );
    assert_eq!(package("etcd").default_channel, "singlenamespace-alpha");
    assert_eq!(
        chains(&package("enmasse")),
        ["alpha: enmasse.0.32.2 <- enmasse.0.31.2 <- enmasse.0.31.1 <- (enmasse.0.31.0)"]
    );
    assert_eq!(
        chains(&package("knative-operator")),
        [
            "alpha: knative-operator.v0.24.0 <- knative-operator.v0.23.1 <- knative-operator.v0.23.0 <- knative-operator.v0.22.1 <- knative-operator.v0.21.0 <- knative-operator.v0.20.0 <- (knative-operator.v0.19.1)"
        ]
    );
    assert_eq!(chains(&package("minio-operator")), ["stable: minio-operator.v1.0.3"]);
    assert_eq!(
        chains(&package("rook-ceph")),
        ["beta: rook-ceph.v1.1.1 <- rook-ceph.v1.0.1 <- rook-ceph.v1.0.0"]
    );
    assert_eq!(package("postgresql").default_channel, "stable");

    // and: the missing heads are reported, and there is no other error
    let missing: Vec<String> = texts(&built, Severity::Error)
        .into_iter()
        .filter(|text| !text.ends_with("[channel-head-missing]"))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(
        texts(&built, Severity::Error)[0],
        "channel original_40 is omitted: its head postgresoperator.v4.0.1 is missing [channel-head-missing]"
    );
    assert_eq!(catalog.problems.iter().filter(|p| p.code == "channel-head-missing").count(), 4);

    // and: the manifests are inline, with the APIs that they provide
    let head = package("enmasse").head().unwrap().clone();
    let bundle = head.bundle().unwrap();
    assert!(bundle.crds().count() > 5);
    assert!(head.provided_gvks().iter().any(|gvk| gvk.kind == "AddressSpace"), "an APIService's kind");
}

#[test]
fn upstreams_own_package_manifests_load() {
    let Some(dir) = data("upstream-testdata/operator-registry/manifests") else { return };
    let built = build::from_bundle_repository(&dir, &Options::default()).unwrap();
    let catalog = built.catalog();
    let package = |name: &str| catalog.package(name).unwrap().unwrap();
    // Several ClusterServiceVersions are in one directory, and each is a bundle.
    assert_eq!(package("strimzi-kafka-operator").bundles.len(), 4);
    assert_eq!(package("etcd").default_channel, "alpha");
    assert!(package("etcd").bundles.contains_key("etcdoperator.v0.9.0"));
    assert_eq!(package("prometheus").channels["preview"].chain().len(), 3);
}

/// The `data` of a ConfigMap in a file.
fn config_map(path: &Path) -> BTreeMap<String, String> {
    let bytes = std::fs::read(path).unwrap();
    let documents = olm_bundle::yaml::documents("test", &bytes).unwrap();
    let data: &Value = &documents[0].value["data"];
    serde_json::from_value(data.clone()).unwrap()
}

#[test]
fn a_config_map_is_a_catalog() {
    let Some(dir) = data("upstream-testdata/operator-lifecycle-manager/test/e2e/data") else { return };
    for (file, expected) in [("catalog.old.yaml", 2), ("catalog.new.yaml", 2)] {
        let built =
            build::from_config_map("default/catalog", &config_map(&dir.join(file)), &Options::default());
        assert_eq!(texts(&built, Severity::Error), Vec::<String>::new(), "{file}");
        let catalog = built.catalog();
        assert_eq!(catalog.summaries().count(), expected, "{file}");
        for summary in catalog.summaries() {
            let package = catalog.package(&summary.name).unwrap().unwrap();
            for bundle in package.bundles.values() {
                let properties: Vec<Value> = bundle.properties_of("olm.package").map(|p| p.value()).collect();
                assert_eq!(properties[0]["packageName"], summary.name.as_str(), "{file}");
                assert_eq!(bundle.bundle().unwrap().name(), bundle.name);
            }
        }
    }
}

#[test]
fn errors_in_a_config_map_are_reported_and_the_rest_is_loaded() {
    let Some(dir) = data("upstream-testdata/operator-lifecycle-manager/test/e2e/data") else { return };
    let data = config_map(&dir.join("catalog.old.yaml"));
    let built = |change: &dyn Fn(&mut BTreeMap<String, String>)| {
        let mut data = data.clone();
        change(&mut data);
        build::from_config_map("default/catalog", &data, &Options::default())
    };
    let missing = built(&|data| {
        data.remove("packages");
    });
    assert_eq!(texts(&missing, Severity::Error), ["key packages is missing [config-map]"]);
    let no_list = built(&|data| {
        data.insert("customResourceDefinitions".into(), "a: b".into());
    });
    let reported = texts(&no_list, Severity::Error);
    assert_eq!(reported[0], "key customResourceDefinitions is not a list [config-map]");
    assert!(reported[1].ends_with("missing from customResourceDefinitions [crd-missing]"), "{reported:?}");
    assert_eq!(no_list.packages.len(), 2);
    let broken = built(&|data| {
        data.insert("clusterServiceVersions".into(), "- [".into());
    });
    assert!(texts(&broken, Severity::Error)[0].contains("default/catalog, clusterServiceVersions"));
    assert!(broken.packages.is_empty());
}

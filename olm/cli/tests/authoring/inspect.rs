//! Versions, filters and output formats, without a cluster.

use crate::{CATALOG, data, folder, olm, program};

/// The same package with metadata of its newest version.
fn described() -> String {
    let metadata = "- type: olm.csv.metadata\n  value:\n    displayName: Demo\n    provider: {name: Acme}\n    \
        annotations: {capabilities: Deep Insights, categories: \"Database, Storage\"}\n\
        - {type: olm.gvk, value: {group: example.com, version: v1, kind: Demo}}\n";
    let version = "- {type: olm.package, value: {packageName: demo, version: 1.1.0}}\n";
    CATALOG.replace(version, &format!("{version}{metadata}"))
}

#[test]
fn versions_are_listed_in_every_format() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let path = dir.path().to_str().unwrap();
    let versions = |more: &[&str]| olm(&[&["versions", "demo", "--catalog-dir", path], more].concat());
    let ran = versions(&["--no-headers"]);
    assert_eq!(
        ran.out, "1.1.0   stable   demo.v1.1.0   head of the default channel\n1.0.0   stable   demo.v1.0.0\n",
        "{}",
        ran.err
    );
    let wide = versions(&["-o", "wide"]).out;
    assert!(wide.starts_with("VERSION ") && wide.contains("registry.example/demo:v1.1.0"), "{wide}");
    assert_eq!(versions(&["-o", "name"]).out, "demo.v1.1.0\ndemo.v1.0.0\n");
    assert_eq!(versions(&["-o", "jsonpath={[*].version}"]).out, "1.1.0 1.0.0");
    let ran = versions(&["--channel", "stabel"]);
    assert!(ran.code == Some(3) && ran.err.contains("stable"), "{}", ran.err);
    let ran = versions(&["-o", "jsonpath={.a"]);
    assert!(ran.code == Some(2) && ran.err.contains("-o jsonpath: "), "{}", ran.err);
}

#[test]
fn a_search_is_limited_to_a_kind_a_category_and_a_capability() {
    let dir = folder(&[("catalog.yaml", &described())]);
    let path = dir.path().to_str().unwrap();
    for (option, value, found) in [
        ("--kind", "demo", true),
        ("--kind", "Other", false),
        ("--category", "storage", true),
        ("--category", "Networking", false),
        ("--capability", "deep insights", true),
        ("--capability", "Basic Install", false),
    ] {
        let ran = olm(&["search", "--catalog-dir", path, option, value, "-o", "name"]);
        assert_eq!(ran.out == "demo\n", found, "{option} {value}: {}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(0));
    }
}

#[test]
fn one_version_of_a_package_is_shown() {
    let deprecations = "---\nschema: olm.deprecations\npackage: demo\nentries:\n\
        - {reference: {schema: olm.bundle, name: demo.v1.0.0}, message: use 1.1.0}\n";
    let dir = folder(&[("catalog.yaml", &(described() + deprecations))]);
    let path = dir.path().to_str().unwrap();
    let show = |args: &[&str]| olm(&[&["show", "--catalog-dir", path], args].concat());
    let ran = show(&["demo@1.1.0"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for line in [
        "Version:       1.1.0\n",
        "Bundle:        demo.v1.1.0\n",
        "Provider:      Acme\n",
        "Channels:      stable (head)\n",
        "Upgrades from: demo.v1.0.0\n",
        "Capability:    Deep Insights\n",
        "Provides:      Demo (example.com/v1)\n",
        "\nImages:\n  registry.example/demo:v1.1.0\n",
    ] {
        assert!(ran.out.contains(line), "{line:?} in {}", ran.out);
    }
    // the catalog has only the images
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Permissions: unknown: its manifests are in image registry.example/demo:v1.1.0"),
        "{text}"
    );
    // both spellings, as JSON
    for args in [["demo@v1.0", "-o", "json"].as_slice(), &["demo", "--version", "demo.v1.0.0", "-o", "json"]]
    {
        let ran = show(args);
        let shown: serde_json::Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
        assert_eq!((&shown["name"], &shown["deprecated"][0]), (&"demo.v1.0.0".into(), &"use 1.1.0".into()));
        assert_eq!(shown["images"][1], "registry.example/operator:v1.0.0");
        assert!(shown.get("permissions").is_none() && shown["permissionsUnknown"].is_string(), "{shown}");
    }
    for (args, code, text) in [
        (["demo@9.0.0", "--channel", "stable"].as_slice(), 3, "did you mean 1.0.0?"),
        (&["demo@1.0.0", "--version", "1.1.0"], 2, "the version is given twice"),
        (&["demo@1.0.0", "--channel", "none"], 3, "stable"),
    ] {
        let ran = show(args);
        assert!(ran.code == Some(code) && ran.err.contains(text), "{args:?}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn a_version_with_its_manifests_has_its_permissions() {
    let catalog = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/data/etcd");
    let ran = olm(&["show", "etcd@0.11.0", "--catalog-dir", catalog]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("\nPermissions:\n  LOW  ") && ran.out.contains("(-o json lists all)"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("\nImages:\n  ") && ran.out.contains("Install modes: "), "{}", ran.out);
    let ran = olm(&[
        "show",
        "etcd",
        "--version",
        "0.11.0",
        "--catalog-dir",
        catalog,
        "-o",
        "jsonpath={.permissions[*].level}",
    ]);
    assert!(ran.out.split(' ').count() > 10 && ran.out.starts_with("LOW"), "{}{}", ran.out, ran.err);
}

#[test]
fn a_cached_catalog_gives_the_same_output() {
    let Some(catalog) = data("catalogs/community-dev.json") else { return };
    let cache = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = program();
        command.env("XDG_CACHE_HOME", cache.path()).args(args).arg("--catalog-dir").arg(&catalog);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let commands = [
        ["search", "etcd"].as_slice(),
        &["show", "strimzi-kafka-operator"],
        &["versions", "strimzi-kafka-operator"],
        &["graph", "strimzi-kafka-operator", "--installed", "strimzi-kafka-operator@0.15.0"],
    ];
    let uncached: Vec<_> = commands
        .iter()
        .map(|args| {
            let result = run(args);
            std::fs::remove_dir_all(cache.path().join("olm/catalogs")).unwrap();
            result
        })
        .collect();
    run(commands[0]);
    for (args, expected) in commands.iter().zip(&uncached) {
        assert_eq!(run(args), *expected, "{args:?}");
    }
    // The output comes from the index in the cache.
    let entries = std::fs::read_dir(cache.path().join("olm/catalogs")).unwrap();
    let folders: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1);
    let index = std::fs::read_dir(folders[0].join("catalogs")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("\"displayName\":\"etcd\"", "\"displayName\":\"from cache\""))
        .unwrap();
    assert!(run(commands[0]).0.contains("from cache"), "{}", run(commands[0]).0);
}

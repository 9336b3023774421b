//! Versions, filters and output formats, without a cluster.

use crate::{CATALOG, folder, olm};

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
        ran.out,
        "1.1.0   stable   demo.v1.1.0   newest of the default channel\n1.0.0   stable   demo.v1.0.0\n",
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

//! `olm why`: rejected versions by cause, later hops, and installed bundles that left the catalog.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Ran, data, folder, olm};

/// Package `demo` in four versions. 1.0.0 replaces 0.9.0 and 2.0.0 skips demo-early, which both left the
/// catalog; the skipRange of 2.0.0 has no upper bound.
fn catalog() -> tempfile::TempDir {
    let mut text = "schema: olm.package\nname: demo\ndefaultChannel: stable\n".to_owned();
    let entries = [
        ("1.0.0", "replaces: demo.v0.9.0"),
        ("2.0.0", "replaces: demo.v1.0.0, skips: [demo-early], skipRange: '>1.0.0'"),
        ("3.0.0", "replaces: demo.v2.0.0"),
        ("4.0.0", "replaces: demo.v3.0.0"),
    ];
    text += "---\nschema: olm.channel\npackage: demo\nname: stable\nentries:\n";
    for (version, edges) in entries {
        _ = writeln!(text, "- {{name: demo.v{version}, {edges}}}");
    }
    for (version, _) in entries {
        _ = writeln!(
            text,
            "---\n{{schema: olm.bundle, package: demo, name: demo.v{version}, image: \
                '127.0.0.1:1/demo:{version}', properties: [{{type: olm.package, value: {{packageName: demo, \
                version: {version}}}}}]}}"
        );
    }
    folder(&[("catalog.yaml", &text)])
}

fn why(dir: &tempfile::TempDir, installed: &str) -> Ran {
    let path = dir.path().to_str().unwrap();
    olm(&["why", "demo", "--installed", installed, "--catalog-dir", path])
}

/// The output without its line breaks.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn versions_are_listed_by_cause() {
    let ran = why(&catalog(), "demo.v1.0.0");
    let text = flat(&ran.out);
    assert_eq!(ran.code, Some(0), "{text}");
    assert!(
        text.contains("3.0.0, 4.0.0 reachable in a later upgrade, after demo.v2.0.0 [LaterHop]"),
        "{text}"
    );
}

#[test]
fn an_installed_bundle_that_left_the_catalog_is_known_by_its_edges() {
    let dir = catalog();
    let text = flat(&why(&dir, "demo.v0.9.0").out);
    for part in [
        "demo 0.9.0, assumed to be installed (channel stable",
        "note: demo.v0.9.0 is not in the catalog; assuming version 0.9.0",
        "next: 1.0.0, it replaces demo.v0.9.0 in channel stable",
        "path: 0.9.0 -> 1.0.0 -> 2.0.0 -> 3.0.0 -> 4.0.0",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // a name without a version is identified by the edges that name it
    let text = flat(&why(&dir, "demo-early").out);
    for part in [
        "note: demo-early is not in the catalog and its version is unknown, so no skipRange covers it; set \
            the version with --installed demo-early@VERSION",
        "next: 2.0.0, it skips demo-early in channel stable",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // the graph shows the path too
    let path = dir.path().to_str().unwrap();
    let graph = olm(&["graph", "demo", "--installed", "demo.v0.9.0", "--catalog-dir", path]);
    assert!(graph.out.contains("path: demo.v0.9.0 -> demo.v1.0.0 -> "), "{}{}", graph.out, graph.err);
}

#[test]
fn an_installed_bundle_that_left_the_catalog_is_known_by_its_version() {
    let dir = catalog();
    for installed in ["demo.v1.5.0", "demo-custom@1.5.0"] {
        let text = flat(&why(&dir, installed).out);
        assert!(text.contains("assuming version 1.5.0"), "{text}");
        assert!(text.contains("next: 2.0.0, its skipRange covers demo"), "{text}");
    }
    // a version without an upgrade edge
    let path = dir.path().to_str().unwrap();
    let json = olm(&["why", "demo", "--installed", "demo.v0.5.0", "--catalog-dir", path, "-o", "json"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["notInCatalog"], &json["version"]), (&true.into(), &"0.5.0".into()));
    assert_eq!(json["resolved"]["action"], "none");
    assert!(json["resolved"]["why"].as_str().unwrap().contains("not in catalog"), "{json}");
}

#[test]
fn a_name_that_the_package_does_not_know_is_refused() {
    let dir = catalog();
    for (installed, hint) in [
        ("other.v1.0.0", "BUNDLE@VERSION"),
        ("other@1.0.0", "BUNDLE@VERSION"),
        ("demo.v9", "BUNDLE@VERSION"),
        ("demo.v1.0.O", "did you mean demo.v1.0.0"),
    ] {
        let ran = why(&dir, installed);
        assert_eq!(ran.code, Some(3), "{installed}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(hint), "{installed}: {}", ran.err);
    }
    let ran = why(&dir, "demo-early@new");
    assert_eq!(ran.code, Some(2), "{}{}", ran.out, ran.err);
}

#[test]
fn a_difference_from_what_left_the_catalog_is_unknown() {
    let dir = catalog();
    let path = dir.path().to_str().unwrap();
    let ran = olm(&["diff", "demo", "--installed", "demo.v0.9.0", "--catalog-dir", path]);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("bundle demo.v0.9.0 is not in "), "{}", ran.err);
}

/// 79 versions require a package that is not in any catalog; three versions require three APIs.
#[test]
fn real_packages_name_each_cause_once() {
    for (catalog, package, code, line) in [
        (
            "catalogs/community-full.json.zst",
            "eclipse-che",
            0,
            "7.44.0 to 7.121.0 (79) requires package devworkspace-operator >=0.11.0: package",
        ),
        (
            "catalogs/certified-full.json.zst",
            "alloydb-omni-operator-certified",
            5,
            "(3): requires API Certificate (cert-manager.io/v1), API ClusterIssuer (cert-manager.io/v1) and \
                API Issuer (cert-manager.io/v1)",
        ),
    ] {
        let Some(path) = data(catalog) else { return };
        let ran = olm(&["why", package, "--catalog-dir", path.to_str().unwrap()]);
        let text = flat(&ran.out.replace(['│', '├', '└', '─'], " "));
        assert_eq!(ran.code, Some(code), "{text}");
        assert!(text.contains(line), "no {line:?} in {}", ran.out);
    }
}

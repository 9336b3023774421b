//! Untrusted text must not control the terminal or write files outside of the output.

use crate::{CATALOG, folder, olm};

/// Clears the screen, rings the bell, sets the title, changes the text direction.
const EVIL: &str = "x\\e[2J\\a\\e]0;owned\\a\\u202Etxt";

#[test]
fn names_from_catalogs_are_inert() {
    // given names with control sequences
    let catalog = CATALOG
        .replace("name: stable\n", &format!("name: \"{EVIL}\"\n"))
        .replace("replaces: demo.v1.0.0", &format!("replaces: \"{EVIL}\""))
        .replace("registry.example/demo", EVIL.replace("\\", "").as_str());
    let package = CATALOG.replace("demo", "good").replace("name: good\n", &format!("name: \"{EVIL}\"\n"));
    let dir =
        folder(&[("a/catalog.yaml", &catalog), ("b/catalog.yaml", &package), ("c/catalog.yaml", CATALOG)]);
    let path = dir.path().to_str().unwrap();
    for args in [
        &["catalog", "validate", path] as &[&str],
        &["catalog", "list", "packages", path],
        &["catalog", "list", "channels", path],
        &["catalog", "list", "bundles", path],
        &["catalog", "graph", path, "demo"],
        &["catalog", "graph", path, "demo", "-o", "mermaid"],
        &["catalog", "graph", path, "demo", "-o", "svg"],
        &["catalog", "graph", path, "demo", "--channel", "\u{1b}[2J"],
        &["catalog", "diff", path, &format!("{path}/c")],
        &["search", "--catalog-dir", path],
        &["show", "demo", "--catalog-dir", path],
        &["show", "demo@1.1.0", "--catalog-dir", path],
    ] {
        // when they are shown
        let ran = olm(args);
        // then the output contains no control sequence
        for text in [&ran.out, &ran.err] {
            let bad = text
                .chars()
                .find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c));
            assert_eq!(bad, None, "{args:?}: {text:?}");
        }
    }
}

#[test]
fn a_bundle_cannot_write_outside_of_the_catalog() {
    // given a repository whose bundle has the package name ../../evil
    let csv = "\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: evil.v1.0.0}
spec:
  version: 1.0.0
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {deployments: []}}
";
    let annotations = "annotations:
  operators.operatorframework.io.bundle.package.v1: ../../evil
  operators.operatorframework.io.bundle.channels.v1: stable
";
    let dir = folder(&[
        ("repo/operators/evil/1.0.0/manifests/csv.yaml", csv),
        ("repo/operators/evil/1.0.0/metadata/annotations.yaml", annotations),
    ]);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // when it is built
    let ran = olm(&["catalog", "build", &path("repo"), "-o", &path("deep/er/out"), "--keep-going"]);
    // then no file is written outside of the output folder
    for escaped in ["evil", "deep/evil", "deep/er/evil"] {
        assert!(!dir.path().join(escaped).exists(), "{escaped}: {} {}", ran.out, ran.err);
    }
}

#[test]
fn folders_that_cannot_be_read_are_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = folder(&[("catalog.yaml", CATALOG), ("locked/catalog.yaml", CATALOG)]);
    let locked = dir.path().join("locked/catalog.yaml");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&locked).is_ok() {
        println!("skipped: unreadable files: this user reads everything");
        return;
    }
    let ran = olm(&["catalog", "validate", dir.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.out.contains("locked/catalog.yaml: error:") && ran.out.contains("[unreadable]"),
        "{}",
        ran.out
    );
    let ran = olm(&["catalog", "validate", locked.to_str().unwrap()]);
    assert_eq!(ran.code, Some(10), "{}", ran.err);
}

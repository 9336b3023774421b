//! Commands that need no cluster, in all output formats.

use super::{run, transcript};

#[test]
fn packages_are_found_and_shown() {
    insta::assert_snapshot!(
        "discover",
        transcript(&[
            "search --catalog-dir shop",
            "search widget --catalog-dir shop -o wide",
            "search widget --catalog-dir shop -o json",
            "search widget --catalog-dir shop -o yaml",
            "search --kind Widget --catalog-dir shop -o name",
            "search --catalog-dir shop -o jsonpath='{range [*]}{.package} {.version}{\"\\n\"}{end}'",
            "search --catalog-dir shop --no-headers",
            "search nothing --catalog-dir shop",
            "show widget --catalog-dir shop",
            "show widget --catalog-dir shop -o name",
            "show widget --channel candidate --catalog-dir shop -o yaml",
            "show widget@1.2.0 --catalog-dir shop",
            "show widget@1.1.0 --catalog-dir bundles",
            "show gadget --catalog-dir shop",
            "show gadget --catalog-dir shop -o json",
            "versions widget --catalog-dir shop",
            "versions widget --catalog-dir shop -o wide",
            "versions widget --channel candidate --catalog-dir shop -o name",
            "versions widget --catalog-dir shop -o jsonpath='{[*].version}'",
        ])
    );
}

#[test]
fn upgrades_are_explained_and_planned() {
    insta::assert_snapshot!(
        "upgrades",
        transcript(&[
            "why widget --catalog-dir shop",
            "why widget --catalog-dir shop --installed widget.v1.0.0",
            "why gadget --catalog-dir shop",
            "why widget --catalog-dir shop --kube-version 1.27",
            "graph widget --catalog-dir shop --from 1.0.0",
            "graph widget --catalog-dir shop --channel candidate -o mermaid",
            "diff widget --catalog-dir bundles --from 1.0.0 --to 1.1.0",
            "plan install widget --catalog-dir bundles -n shop",
            "plan upgrade widget --catalog-dir bundles -n shop --installed widget.v1.0.0",
            "plan uninstall widget --catalog-dir bundles -n shop --installed widget.v1.1.0 --instances delete",
            "explain NoUpgradeEdge",
        ])
    );
}

#[test]
fn catalogs_and_bundles_are_validated_and_built() {
    insta::assert_snapshot!(
        "authoring",
        transcript(&[
            "catalog validate shop",
            "catalog validate shop -o json",
            "catalog list packages shop",
            "catalog list channels shop -o wide",
            "catalog list bundles shop widget -o json",
            "catalog graph shop widget",
            "catalog graph shop widget --channel stable -o dot",
            "catalog diff shop shop",
            "catalog diff shop bundles",
            "catalog render shop/gadget",
            "catalog render shop/gadget -o yaml",
            "catalog build bundles --image-template 'registry.example/{package}:v{version}'",
            "catalog build bundles -o shop --check",
            "catalog add operatorhub --dry-run -n olm",
            "bundle validate bundles/operators/widget/1.1.0",
            "bundle validate bundles/operators/widget/1.1.0 -o json",
            "bundle validate bundles/operators/widget/1.1.0 -o json-alpha1",
            "bundle validate --list-optional",
        ])
    );
}

#[test]
fn the_version_is_printed_without_a_cluster() {
    insta::assert_snapshot!(
        "version",
        transcript(&["--version", "version", "version -o json", "version -o yaml"])
    );
}

#[test]
fn completion_and_man_pages_are_written() {
    for (shell, part) in [("bash", "complete "), ("zsh", "#compdef olm"), ("fish", "complete ")] {
        let ran = run(&format!("completion {shell}"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{shell}");
        assert!(ran.out.contains(part) && ran.out.contains("OLM_COMPLETE"), "{shell}: {}", ran.out);
    }
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&format!("man {}", dir.path().display()));
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    assert!(dir.path().join("olm-install.1").is_file() && dir.path().join("commands/install.md").is_file());
}

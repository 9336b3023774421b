//! Every real bundle is validated, and its findings are pinned.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use olm_bundle::{Bundle, Checked, Options, Severity, Suite, check_dir, check_files};

/// The package-manifest format has manifests and no metadata; they become a bundle with equivalent metadata.
fn check_manifests(dir: &Path, package: &str) -> Checked {
    let annotations = format!(
        "annotations:\n  \
         operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
         operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
         operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
         operators.operatorframework.io.bundle.package.v1: {package}\n  \
         operators.operatorframework.io.bundle.channels.v1: stable\n"
    );
    let mut files = vec![("metadata/annotations.yaml".to_owned(), annotations.into_bytes())];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap().to_str().unwrap();
            files.push((format!("manifests/{name}"), fs::read(&path).unwrap()));
        }
    }
    check_files(&dir.display().to_string(), files, &Options::default())
}

/// Each real bundle as `PACKAGE/VERSION`, with its findings.
fn all() -> Option<BTreeMap<String, Checked>> {
    let root = common::data("bundles")?;
    let mut checked = BTreeMap::new();
    for folder in ["operators", "packagemanifests"] {
        for package in common::folders(&root.join(folder)) {
            for version in common::folders(&package) {
                let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
                let shown = format!("{}/{}", name(&package), name(&version));
                if folder == "operators" {
                    if version.join("manifests").exists() {
                        // All of them are readable.
                        Bundle::from_dir(&version).unwrap();
                        checked.insert(shown, check_dir(&version, &Options::default()));
                    }
                } else {
                    checked.insert(
                        format!("packagemanifests/{shown}"),
                        check_manifests(&version, &name(&package)),
                    );
                }
            }
        }
    }
    Some(checked)
}

fn codes(checked: &Checked, severity: Severity) -> BTreeSet<&'static str> {
    checked.findings.iter().filter(|f| f.severity == severity).map(|f| f.code).collect()
}

/// Bundles with errors. Any other bundle must have none.
const WITH_ERRORS: &[(&str, &[&str])] = &[
    ("kuadrant-operator/0.11.1", &["related-image-invalid"]),
    ("kuadrant-operator/0.2.1", &["related-image-invalid"]),
    ("kuadrant-operator/0.3.0", &["related-image-invalid"]),
    ("kuadrant-operator/0.3.1", &["related-image-invalid"]),
    ("packagemanifests/minio-operator/1.0.3", &["alm-examples-foreign"]),
    ("prometheus-exporter-operator/0.2.0", &["service-account-clash"]),
    ("prometheus-exporter-operator/0.2.4", &["service-account-clash"]),
    ("prometheus-exporter-operator/0.3.4", &["service-account-clash"]),
    ("prometheus/0.37.0", &["crd-not-owned"]),
    ("strimzi-kafka-operator/0.16.2", &["related-image-empty"]),
    ("strimzi-kafka-operator/0.17.0", &["related-image-empty"]),
];

/// How many bundles have each warning.
const WARNINGS: &[(&str, usize)] = &[
    ("alm-examples-incomplete", 20),
    ("alm-examples-missing", 2),
    ("annotation-not-text", 1),
    ("crd-api-removed", 59),
    ("csv-annotation-properties", 39),
    ("csv-api-version", 5),
    ("csv-field-case", 5),
    ("csv-min-kube-version-missing", 92),
    ("csv-skip-range-self", 8),
    ("default-channel-elsewhere", 10),
    ("icon-mediatype", 1),
    ("metadata-section-misplaced", 8),
    ("yaml-key-repeated", 4),
];

#[test]
fn every_real_bundle_is_judged_as_pinned() {
    let Some(checked) = all() else { return };
    assert_eq!(checked.len(), 217);
    let expected: BTreeMap<&str, BTreeSet<&str>> =
        WITH_ERRORS.iter().map(|(bundle, codes)| (*bundle, codes.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    let mut warnings: BTreeMap<&str, usize> = BTreeMap::new();
    for (bundle, checked) in &checked {
        let errors = codes(checked, Severity::Error);
        if &errors != expected.get(bundle.as_str()).unwrap_or(&BTreeSet::new()) {
            let list: Vec<&str> = errors.iter().copied().collect();
            wrong.push(format!("    ({bundle:?}, &{list:?}),"));
            for finding in checked.findings.iter().filter(|f| f.severity == Severity::Error).take(4) {
                wrong.push(format!("        // {finding}"));
            }
        }
        for code in codes(checked, Severity::Warning) {
            *warnings.entry(code).or_default() += 1;
        }
        for finding in &checked.findings {
            assert!(!finding.text.is_empty() && !finding.fix.is_empty(), "{bundle}: {finding}");
        }
    }
    let warnings: Vec<(&str, usize)> = warnings.into_iter().collect();
    if warnings != WARNINGS {
        wrong.push(format!("warnings: {warnings:#?}"));
    }
    assert!(wrong.is_empty(), "differ from the table:\n{}", wrong.join("\n"));
}

#[test]
fn every_suite_runs_on_every_real_bundle() {
    let Some(root) = common::data("bundles/operators") else { return };
    let mut options = Options { suites: Suite::ALL.into(), ..Options::default() };
    options.set("k8s-version=1.26").unwrap();
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for package in common::folders(&root) {
        // one version of each package has all findings
        let Some(version) = common::folders(&package).into_iter().find(|v| v.join("manifests").exists())
        else {
            continue;
        };
        found.extend(check_dir(&version, &options).findings.iter().map(|finding| finding.code));
    }
    for code in ["practice-resource-requests", "practice-channel", "practice-crd-rights", "api-removed"] {
        assert!(found.contains(code), "{code} is not in {found:?}");
    }
}

#[test]
fn findings_of_folders_have_places() {
    let Some(checked) = all() else { return };
    let mut without: BTreeSet<&str> = BTreeSet::new();
    for checked in checked.values() {
        without.extend(checked.findings.iter().filter(|f| f.place.is_none()).map(|f| f.code));
    }
    // Findings about the bundle as a whole have no place.
    let whole = BTreeSet::from(["bundle-layout", "bundle-nearly-too-large", "bundle-too-large", "csv-count"]);
    assert!(without.is_subset(&whole), "{without:?}");
}

#[test]
fn the_shipped_bundles_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles");
    let mut count = 0;
    for package in common::folders(&root) {
        for version in common::folders(&package) {
            count += 1;
            let checked = check_dir(&version, &Options::default());
            assert!(checked.is_valid(), "{}: {:#?}", version.display(), checked.findings);
        }
    }
    assert!(count > 0, "{} has no bundles", root.display());
}

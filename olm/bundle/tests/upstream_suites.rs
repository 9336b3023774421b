//! Upstream's data for the suites on demand, with the results of upstream's tests.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use olm_bundle::{Options, Suite, check_files, check_package_manifest};

const ANNOTATIONS: &[u8] = b"annotations: {operators.operatorframework.io.bundle.package.v1: p}";
const CSV: &[u8] =
    b"{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: p.v1.0.0}}";

/// Findings of a suite in the manifests of a directory, or in one, beyond the default suite.
fn found(path: &Path, selector: &str, values: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    if path.is_file() {
        files.push(("manifests/object.yaml".to_owned(), fs::read(path).unwrap()));
        files.push(("manifests/csv.yaml".to_owned(), CSV.to_vec()));
    } else {
        for folder in [path.to_owned(), path.join("manifests")] {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let file = entry.unwrap().path();
                if file.is_file() {
                    let name = file.file_name().unwrap().to_str().unwrap();
                    files.push((format!("manifests/{name}"), fs::read(&file).unwrap()));
                }
            }
        }
    }
    let metadata = fs::read(path.join("metadata/annotations.yaml")).unwrap_or_else(|_| ANNOTATIONS.to_vec());
    files.push(("metadata/annotations.yaml".to_owned(), metadata));
    let mut options = Options::default();
    let base = check_files("x", files.clone(), &options).findings;
    options.suites = Suite::select(selector).unwrap();
    options.categories =
        values.iter().filter_map(|value| value.strip_prefix("categories=")).map(str::to_owned).collect();
    for value in values.iter().filter(|value| !value.starts_with("categories=")) {
        options.set(value).unwrap();
    }
    let findings = check_files("x", files, &options).findings;
    let new = findings.into_iter().filter(|finding| !base.contains(finding));
    let codes: BTreeSet<String> =
        new.map(|finding| format!("{} {}", finding.severity, finding.code)).collect();
    codes.into_iter().collect()
}

/// Path, suites, values, findings.
type Case = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

#[rustfmt::skip] // one line a case
const CASES: &[Case] = &[
    ("objects/valid_pdb.yaml", "objects", &[], &[]),
    ("objects/invalid_pdb_minAvailable.yaml", "objects", &[], &["error disruption-budget"]),
    ("objects/invalid_pdb_maxUnavailable.yaml", "objects", &[], &["error disruption-budget"]),
    ("objects/valid_priorityclass.yaml", "objects", &[], &[]),
    ("objects/invalid_priorityclass.yaml", "objects", &[], &["error priority-global-default"]),
    ("objects/valid_role_get_pdb.yaml", "objects", &[], &[]),
    ("objects/invalid_role_create_pdb.yaml", "objects", &[], &["warning rights-disruption-budgets"]),
    ("objects/valid_role_get_scc.yaml", "objects", &[], &[]),
    ("objects/invalid_role_modify_scc.yaml", "objects", &[], &["error rights-default-constraints"]),
    ("correct.og.yaml", "operator-group", &[], &[]),
    ("badAnnotationNames.og.yaml", "operator-group", &[], &["error csv-annotation-case"]),
    // Its CustomResourceDefinitions are of v1beta1; upstream warns as well.
    ("valid_bundle", "operatorhub", &[], &["warning api-removed"]),
    ("valid_bundle", "operatorhubv2,capabilities,categories", &[], &["warning api-removed"]),
    ("invalid_bundle_operatorhub", "operatorhub", &[], &["error capability-unknown", "error category-unknown", "error hub-icon", "error hub-link", "error hub-maintainer", "error hub-provider", "warning api-removed"]),
    ("valid_bundle_custom_categories", "categories", &["categories=MyCoolThing", "categories=Cloud Pak", "categories=Registry", "categories=This is a Category"], &[]),
    ("valid_bundle_custom_categories", "categories", &[], &["error category-unknown"]),
    ("valid_bundle_v1", "alpha-deprecated-apis", &[], &[]),
    ("valid_bundle_v1beta1", "alpha-deprecated-apis", &[], &["warning api-removed"]),
    ("valid_bundle_v1beta1", "alpha-deprecated-apis", &["k8s-version=1.22"], &["error api-removed"]),
    ("valid_bundle_v1beta1", "alpha-deprecated-apis", &["k8s-version=1.21"], &["warning api-removed"]),
    ("bundle_with_deprecated_resources", "alpha-deprecated-apis", &[], &["warning api-removed"]),
    ("removed_api_1_25", "alpha-deprecated-apis", &["k8s-version=1.25"], &["error api-removed"]),
    ("removed_api_1_25", "alpha-deprecated-apis", &[], &["warning api-removed"]),
    ("deprecated_api_1_25", "alpha-deprecated-apis", &["k8s-version=1.25"], &["error api-removed", "warning api-removed"]),
    ("removed_api_1_26", "alpha-deprecated-apis", &["k8s-version=1.26"], &["error api-removed"]),
    ("removed_api_1_26", "alpha-deprecated-apis", &[], &["warning api-removed"]),
    ("valid_bundle", "good-practices", &[], &[]),
    ("valid_bundle_v1", "good-practices", &[], &["warning practice-resource-requests"]),
    ("bundle_with_metadata", "good-practices", &[], &["warning practice-channel"]),
    ("valid_bundle_v1", "community", &[], &[]),
    ("valid_bundle_v1beta1", "community", &[], &["error community-max-openshift", "warning community-openshift-versions"]),
];

#[test]
fn suites_judge_as_upstream_does() {
    let Some(root) = common::data("upstream-testdata/api/pkg/validation/internal/testdata") else { return };
    let mut wrong = Vec::new();
    for (path, selector, values, expected) in CASES {
        let found = found(&root.join(path), selector, values);
        if found != *expected {
            wrong.push(format!("({path:?}, {selector:?}, &{values:?}, &{found:?}),"));
        }
    }
    assert!(wrong.is_empty(), "differ:\n{}", wrong.join("\n"));
}

#[test]
fn package_manifests_are_judged() {
    let Some(root) = common::data("upstream-testdata/api/pkg") else { return };
    for (path, good) in [
        ("validation/testdata/valid_package/package.yaml", true),
        ("validation/testdata/invalid_package/package.yaml", false),
        ("manifests/testdata/valid_package/package.yaml", true),
    ] {
        let findings = check_package_manifest(path, &fs::read(root.join(path)).unwrap());
        assert_eq!(findings.is_empty(), good, "{path}: {findings:?}");
    }
}

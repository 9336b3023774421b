//! Every bundle in the data of upstream's own tests has upstream's result, or differs for a stated reason.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use olm_bundle::{Checked, Options, Severity, check_dir, check_files, yaml};

/// Directories with `manifests/` and `metadata/`, and other directories with a ClusterServiceVersion.
fn bundle_folders(root: &Path, found: &mut Vec<PathBuf>) {
    for folder in common::folders(root) {
        if folder.join("manifests").is_dir() && folder.join("metadata").is_dir() {
            found.push(folder);
            continue;
        }
        if has_csv(&folder) {
            let is_manifests = folder.file_name().is_some_and(|name| name == "manifests");
            found.push(if is_manifests { root.to_owned() } else { folder.clone() });
        }
        bundle_folders(&folder, found);
    }
}

fn has_csv(folder: &Path) -> bool {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).any(|path| {
        fs::read_to_string(&path).unwrap_or_default().lines().any(|line| {
            let line = line.trim_end().trim_end_matches(',');
            matches!(line, "kind: ClusterServiceVersion" | "  \"kind\": \"ClusterServiceVersion\"")
        })
    })
}

fn check(folder: &Path) -> Checked {
    if folder.join("metadata").is_dir() {
        return check_dir(folder, &Options::default());
    }
    // Only manifests: the metadata that upstream's library assumes is added.
    let manifests =
        if folder.join("manifests").is_dir() { folder.join("manifests") } else { folder.to_owned() };
    let annotations = b"annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
        operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
        operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
        operators.operatorframework.io.bundle.package.v1: p\n  \
        operators.operatorframework.io.bundle.channels.v1: stable\n"
        .to_vec();
    let mut files = vec![("metadata/annotations.yaml".to_owned(), annotations)];
    for entry in fs::read_dir(&manifests).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // Some directories contain a package manifest, which is not a manifest of the bundle.
        if path.is_file() && !name.contains("package") {
            files.push((format!("manifests/{name}"), fs::read(&path).unwrap()));
        }
    }
    check_files(&folder.display().to_string(), files, &Options::default())
}

/// Directory, the codes of the errors (none: valid), and the reason where upstream's own test differs.
#[rustfmt::skip] // one line a bundle
const BUNDLES: &[(&str, &[&str], &str)] = &[
    ("api/pkg/encoding/testdata", &["crd-missing"], "upstream's test only compresses it"),
    ("api/pkg/manifests/testdata/invalid_bundle_with_hidden", &["crd-schema-missing", "csv-display-name-missing", "install-strategy"], "upstream refuses it for what its reader must skip, which is not in this copy"),
    ("api/pkg/manifests/testdata/invalid_bundle_with_subdir", &["crd-schema-missing", "csv-display-name-missing", "install-strategy"], "upstream refuses it for what its reader must skip, which is not in this copy"),
    ("api/pkg/manifests/testdata/valid_bundle", &[], ""),
    ("api/pkg/manifests/testdata/valid_package/0.9.2", &[], ""),
    ("api/pkg/manifests/testdata/valid_package/0.9.4", &["crd-versions"], "upstream only reads it; a CRD of v1 without spec.versions has no version"),
    ("api/pkg/validation/internal/testdata/bundle_with_deprecated_resources", &["kind-unsupported", "service-account-clash"], "upstream's test looks at removed APIs only"),
    ("api/pkg/validation/internal/testdata/bundle_with_metadata", &["crd-names", "deployment-name-invalid", "permission-account"], "upstream's test looks at channels only; names have underscores"),
    ("api/pkg/validation/internal/testdata/deprecated_api_1_25", &["kind-unsupported"], "upstream's test looks at removed APIs only"),
    ("api/pkg/validation/internal/testdata/invalid_bundle", &["crd-missing"], ""),
    ("api/pkg/validation/internal/testdata/invalid_bundle_2", &["crd-not-owned"], ""),
    ("api/pkg/validation/internal/testdata/invalid_bundle_3", &["crd-duplicate", "crd-schema-missing", "csv-display-name-missing", "install-strategy"], ""),
    ("api/pkg/validation/internal/testdata/invalid_bundle_operatorhub", &["alm-examples-foreign", "csv-version-missing"], ""),
    ("api/pkg/validation/internal/testdata/invalid_bundle_sa", &["service-account-clash"], ""),
    ("api/pkg/validation/internal/testdata/removed_api_1_25", &["kind-unsupported"], "upstream's test looks at removed APIs only"),
    ("api/pkg/validation/internal/testdata/removed_api_1_26", &["kind-unsupported"], "upstream's test looks at removed APIs only"),
    ("api/pkg/validation/internal/testdata/valid_bundle", &[], ""),
    ("api/pkg/validation/internal/testdata/valid_bundle_2", &["crd-missing", "crd-not-owned", "crd-schema-missing", "csv-display-name-missing", "install-strategy"], "upstream compares kinds and leaves schemas out; OLM finds CRDs by name, which differs in case, and v1 needs schemas"),
    ("api/pkg/validation/internal/testdata/valid_bundle_custom_categories", &[], ""),
    ("api/pkg/validation/internal/testdata/valid_bundle_v1", &["service-account-clash"], "upstream's bundle validator refuses the account as well; its test looks at the hub's rules only"),
    ("api/pkg/validation/internal/testdata/valid_bundle_v1beta1", &[], ""),
    ("api/pkg/validation/testdata/invalid_bundle", &["crd-missing"], ""),
    ("api/pkg/validation/testdata/invalid_package/0.9.2", &[], "the package manifest beside it is what is invalid"),
    ("api/pkg/validation/testdata/invalid_package/0.9.4", &[], "the package manifest beside it is what is invalid"),
    ("api/pkg/validation/testdata/valid_bundle", &[], ""),
    ("api/pkg/validation/testdata/valid_package/0.9.2", &[], ""),
    ("api/pkg/validation/testdata/valid_package/0.9.4", &[], ""),
    ("operator-controller/test/regression/convert/testdata/bundles/argocd-operator.v0.6.0", &[], ""),
    ("operator-controller/test/regression/convert/testdata/bundles/webhook-operator.v0.0.5", &[], ""),
    ("operator-controller/testdata/images/bundles/webhook-operator/v0.0.1", &["alm-examples-invalid", "annotation-value"], "upstream never validates it; there is a comma too much in the examples"),
    ("operator-lifecycle-manager/pkg/package-server/provider/testdata/manifests/etcd/0.6.0", &["install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-lifecycle-manager/pkg/package-server/provider/testdata/manifests/etcd/0.6.1", &["install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-lifecycle-manager/pkg/package-server/provider/testdata/manifests/etcd/0.9.0", &["install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-lifecycle-manager/pkg/package-server/provider/testdata/manifests/etcd/0.9.2", &["install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-lifecycle-manager/pkg/package-server/provider/testdata/manifests/prometheus/0.14.0", &["crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-lifecycle-manager/pkg/package-server/provider/testdata/manifests/prometheus/0.15.0", &["crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-lifecycle-manager/pkg/package-server/provider/testdata/manifests/prometheus/0.22.2", &["install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-lifecycle-manager/test/e2e/data/kiali-image-bundle", &["manifest-shape"], "a package manifest lies among the manifests"),
    ("operator-lifecycle-manager/test/e2e/data/kiali-manifests/0.18.1", &[], ""),
    ("operator-lifecycle-manager/test/e2e/data/kiali-manifests/1.1.0", &[], ""),
    ("operator-lifecycle-manager/test/e2e/data/kiali-manifests/1.3.1", &[], ""),
    ("operator-lifecycle-manager/test/e2e/data/kiali-manifests/1.4.2", &[], ""),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.1.0", &[], ""),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.2.0-invalid-csv", &["csv-name-invalid"], ""),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.2.0-invalid-deployment", &["deployment-name-invalid"], ""),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.2.1-invalid-csv", &["csv-name-invalid"], ""),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.3.0-replaces-invalid-csv", &["csv-name-invalid"], ""),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.3.0-replaces-invalid-deployment", &[], "what it replaces is invalid"),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.3.0-skip-range", &[], ""),
    ("operator-lifecycle-manager/test/e2e/testdata/fail-forward/v0.3.0-skips", &[], ""),
    ("operator-registry/alpha/action/testdata/bar-bundle-v0.1.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/bar-bundle-v0.2.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/bar-bundle-v1.0.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/baz-bundle-v1.0.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/baz-bundle-v1.0.1", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/baz-bundle-v1.1.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/foo-bundle-v0.1.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/foo-bundle-v0.2.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "deployment-selector", "install-modes-missing"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/foo-bundle-v0.2.0-no-csv-related-images", &["annotation-missing", "crd-schema-missing", "crd-scope", "crd-storage", "crd-versions", "deployment-selector", "install-modes-missing"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/foo-bundle-v0.3.0", &["annotation-missing", "crd-schema-missing", "crd-scope", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/alpha/action/testdata/foo-bundle-v0.3.1", &["annotation-missing", "crd-schema-missing", "crd-scope", "csv-display-name-missing", "install-modes-missing", "install-strategy"], "a skeleton that upstream only renders"),
    ("operator-registry/bundles/apicurio-registry-operator.v1.0.0-v2.0.0.final", &["crd-missing"], "upstream only reads the ClusterServiceVersion"),
    ("operator-registry/bundles/apicurio-registry.v0.0.1", &["crd-missing"], "upstream only reads the ClusterServiceVersion"),
    ("operator-registry/bundles/apicurio-registry.v0.0.3-v1.2.3.final", &["crd-missing"], "upstream only reads the ClusterServiceVersion"),
    ("operator-registry/bundles/apicurio-registry.v0.0.4-v1.3.2.final", &["crd-missing"], "upstream only reads the ClusterServiceVersion"),
    ("operator-registry/bundles/etcd.0.9.0", &["annotation-missing", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/etcd.0.9.2", &["annotation-missing", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.14.0", &["annotation-missing", "crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.14.0-beta", &["annotation-missing", "crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.14.0.substitutesfor", &["annotation-missing", "crd-not-owned", "csv-name-invalid", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.14.0.substitutesfor2", &["annotation-missing", "crd-not-owned", "csv-name-invalid", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.14.0.substitutesfor3", &["annotation-missing", "crd-not-owned", "csv-name-invalid", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.15.0", &["annotation-missing", "crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.15.0-stable", &["annotation-missing", "crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.15.0.substitutesfor", &["annotation-missing", "crd-not-owned", "csv-name-invalid", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.15.0.substitutesfor2", &["annotation-missing", "crd-not-owned", "csv-name-invalid", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/bundles/prometheus.0.22.2", &["annotation-missing", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/manifests/etcd/0.6.1", &["install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/manifests/etcd/0.9.2", &["csv-count", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/manifests/prometheus/0.14.0", &["crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/manifests/prometheus/0.15.0", &["crd-not-owned", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/manifests/prometheus/0.22.2", &[], "of before install modes; upstream only reads it"),
    ("operator-registry/manifests/strimzi-kafka-operator", &["crd-not-owned", "csv-count"], "of before install modes; upstream only reads it"),
    ("operator-registry/pkg/configmap/testdata/bundles/etcd.0.9.2", &["annotation-missing", "install-modes-missing"], "of before install modes; upstream only reads it"),
    ("operator-registry/pkg/lib/bundle/testdata/etcd/0.6.1", &[], ""),
    ("operator-registry/pkg/lib/bundle/testdata/etcd/0.9.0", &[], ""),
    ("operator-registry/pkg/lib/bundle/testdata/etcd/0.9.2", &[], ""),
    ("operator-registry/pkg/lib/bundle/testdata/etcd/0.9.4", &[], ""),
    ("operator-registry/pkg/lib/bundle/testdata/generate", &["crd-not-owned", "install-modes-missing"], "upstream only looks for the media type"),
    ("operator-registry/pkg/lib/bundle/testdata/generate/nested_manifests/more_manifests", &["crd-missing", "install-modes-missing"], "upstream only looks for the media type"),
    ("operator-registry/pkg/lib/bundle/testdata/get_mediatype/registry_v1_bundle", &["crd-not-owned", "install-modes-missing"], "upstream only looks for the media type"),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_annotations_bundle", &["annotation-value"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_dependencies_bundle/invalid_dependency_type", &["dependency-type-unknown"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_dependencies_bundle/invalid_gvk_dependency", &["metadata-shape"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_dependencies_bundle/invalid_label_dependency", &["dependency-incomplete"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_dependencies_bundle/invalid_package_dependency", &["dependency-incomplete", "dependency-range-invalid"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_annotation_name", &["csv-annotation-case"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_bundle", &["crd-missing"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_bundle_2", &["crd-not-owned"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_crd", &["crd-version-duplicate"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_csv", &["install-modes-missing"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_sa", &["object-shape"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_type", &["kind-unsupported"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/invalid_manifests_bundle/invalid_v1_crd", &["crd-schema-missing"], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/valid_bundle", &[], ""),
    ("operator-registry/pkg/lib/bundle/testdata/validate/valid_bundle_2", &["crd-schema-missing"], "upstream leaves schemas out; the API server refuses a CRD of v1 without one"),
    ("operator-registry/pkg/lib/encoding/testdata", &["crd-missing"], "upstream's test only compresses it"),
    ("operator-registry/pkg/lib/validation/testdata/invalid_bundle", &["crd-missing"], ""),
    ("operator-registry/pkg/lib/validation/testdata/invalid_bundle_2", &["crd-not-owned"], ""),
    ("operator-registry/pkg/lib/validation/testdata/valid_bundle", &[], ""),
    ("operator-registry/pkg/registry/testdata/invalidPackges/3scale-community-operator/0.4.0", &["csv-count"], ""),
    ("operator-registry/pkg/registry/testdata/overwrite/etcd.0.9.0", &["annotation-missing", "install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/overwrite/etcd.0.9.2", &["annotation-missing", "install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/overwrite/prometheus.0.15.0", &["annotation-missing", "crd-not-owned", "install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/overwrite/prometheus.0.22.2", &["annotation-missing", "install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/v1crd_bundle", &["crd-schema-missing"], "upstream leaves schemas out; the API server refuses a CRD of v1 without one"),
    ("operator-registry/pkg/registry/testdata/validPackages/aqua/0.0.1", &[], ""),
    ("operator-registry/pkg/registry/testdata/validPackages/aqua/1.0.0", &[], ""),
    ("operator-registry/pkg/registry/testdata/validPackages/etcd/0.6.1", &["install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/validPackages/etcd/0.9.0", &["install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/validPackages/etcd/0.9.2", &["install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/validPackages/prometheus/0.14.0", &["crd-not-owned", "install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/validPackages/prometheus/0.15.0", &["crd-not-owned", "install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
    ("operator-registry/pkg/registry/testdata/validPackages/prometheus/0.22.2", &["install-modes-missing"], "of before install modes; upstream's test loads it as a package and does not validate"),
];

#[test]
fn every_bundle_is_judged_as_its_name_states() {
    let Some(root) = common::data("upstream-testdata") else { return };
    let expected: BTreeMap<&str, BTreeSet<&str>> =
        BUNDLES.iter().map(|(path, codes, _)| (*path, codes.iter().copied().collect())).collect();
    let mut folders = Vec::new();
    bundle_folders(&root, &mut folders);
    folders.sort();
    folders.dedup();
    // Single manifests, which have their own table.
    folders.retain(|folder| !folder.ends_with("api/pkg/validation/internal/testdata"));
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in &folders {
        let path = folder.strip_prefix(&root).unwrap().to_str().unwrap();
        seen.insert(path);
        let checked = check(folder);
        let errors: BTreeSet<&str> =
            checked.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.code).collect();
        if expected.get(path) != Some(&errors) {
            let list: Vec<&str> = errors.iter().copied().collect();
            wrong.push(format!("    ({path:?}, &{list:?}, \"\"),"));
            for finding in checked.findings.iter().filter(|f| f.severity == Severity::Error).take(3) {
                wrong.push(format!("        // {finding}").replace(&format!("{}/", root.display()), ""));
            }
        }
    }
    wrong.extend(
        expected.keys().filter(|path| !seen.contains(*path)).map(|path| format!("{path} is not there")),
    );
    assert!(wrong.is_empty(), "differ from the table:\n{}", wrong.join("\n"));
}

#[test]
fn names_with_valid_or_invalid_are_right() {
    // given the directories with the expected result in their names
    for (path, codes, why) in BUNDLES {
        let part = |starts: &str| path.split('/').any(|part| part.starts_with(starts));
        let says_invalid = part("invalid") || path.contains("-invalid-");
        let says_valid = !says_invalid && (part("valid_") || part("validPackages"));
        // then the result matches, or the table has the reason
        if says_invalid && codes.is_empty() || says_valid && !codes.is_empty() {
            assert!(!why.is_empty(), "{path}");
        }
    }
}

/// Single manifests of the library's tests: file, errors, and the reason where upstream differs.
#[rustfmt::skip] // one line a file
const FILES: &[(&str, &[&str], &str)] = &[
    ("badAnnotationNames.csv.yaml", &["csv-annotation-case"], ""),
    ("badName.csv.yaml", &["csv-name-invalid", "deployment-no-containers"], ""),
    ("correct.csv.empty.example.yaml", &["csv-display-name-missing", "deployment-selector"], "upstream misses displayName as well, which its test does not ask for; the API server refuses a Deployment without selector"),
    ("correct.csv.olm.properties.annotation.yaml", &["alm-examples-foreign", "csv-display-name-missing", "deployment-selector"], "the same; upstream does not read a single example that is not a list"),
    ("correct.csv.with.conversion.webhook.yaml", &["webhook-deployment"], "the webhook's deployment is not there, which upstream finds when it installs"),
    ("correct.csv.yaml", &[], ""),
    ("dataTypeMismatch.csv.yaml", &["csv-shape"], ""),
    ("deprecatedVersion.crd.yaml", &["crd-versions"], ""),
    ("duplicateVersions.crd.yaml", &["crd-version-duplicate"], ""),
    ("incorrect.csv.with.conversion.webhook.yaml", &["webhook-conversion-install-mode", "webhook-deployment"], ""),
    ("invalid.alm-examples.csv.yaml", &["alm-examples-invalid"], ""),
    ("invalid_min_kube_version.csv.yaml", &["csv-min-kube-version-invalid", "csv-shape"], ""),
    ("noConversionReviewVersions.crd.yaml", &["crd-conversion-review-versions", "crd-schema-missing"], ""),
    ("noInstallMode.csv.yaml", &["install-modes-missing"], ""),
    ("v1.crd.yaml", &["crd-schema-missing"], "upstream leaves schemas out; the API server refuses a CRD of v1 without one"),
    ("v1beta1.crd.yaml", &[], ""),
];

#[test]
fn every_single_manifest_is_judged_as_its_name_states() {
    let Some(root) = common::data("upstream-testdata/api/pkg/validation/internal/testdata") else { return };
    let expected: BTreeMap<&str, BTreeSet<&str>> =
        FILES.iter().map(|(path, codes, _)| (*path, codes.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name.contains(".og.") {
            continue;
        }
        let errors = errors_of_one(file, name);
        if expected.get(name) != Some(&errors) {
            let list: Vec<&str> = errors.iter().copied().collect();
            wrong.push(format!("    ({name:?}, &{list:?}, \"\"),"));
        }
    }
    assert!(wrong.is_empty(), "differ from the table:\n{}", wrong.join("\n"));
}

/// Errors of one manifest, without those of missing parts.
fn errors_of_one(file: &Path, name: &str) -> BTreeSet<&'static str> {
    let mut files = vec![
        (
            "metadata/annotations.yaml".to_owned(),
            b"annotations: {operators.operatorframework.io.bundle.package.v1: p}".to_vec(),
        ),
        (format!("manifests/{name}"), fs::read(file).unwrap()),
    ];
    let documents = yaml::documents(name, &fs::read(file).unwrap()).unwrap();
    if documents[0].value["kind"] != "ClusterServiceVersion" {
        let csv = b"{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: p.v1.0.0}}";
        files.push(("manifests/csv.yaml".to_owned(), csv.to_vec()));
    }
    let checked = check_files("one", files, &Options::default());
    let only = format!("manifests/{name}");
    let errors = checked.findings.iter().filter(|f| f.severity == Severity::Error);
    let errors = errors.filter(|f| f.place.as_ref().is_none_or(|place| place.file == only));
    errors.map(|f| f.code).filter(|code| !matches!(*code, "crd-missing" | "crd-not-owned")).collect()
}

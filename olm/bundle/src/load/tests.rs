//! Reading of bundles, and reports about unreadable ones.

use std::fs;

use super::*;

const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n";
const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: p.v1.0.0}\nspec: {version: 1.0.0}\n";

fn bundle(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Bundle, BundleError>) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let bundle = Bundle::from_dir(dir.path());
    (dir, bundle)
}

#[test]
fn every_section_is_read_from_every_metadata_file() {
    let (_dir, bundle) = bundle(&[
        ("metadata/annotations.yaml", ANNOTATIONS),
        (
            "metadata/properties.yaml",
            "properties:\n- {type: a, value: 1}\ndependencies:\n- {type: b, value: {c: d}}\n",
        ),
        ("manifests/csv.yaml", CSV),
        ("manifests/.hidden.yaml", "not: [a manifest"),
        (
            "manifests/two.yaml",
            "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
        ),
    ]);
    let bundle = bundle.unwrap();
    assert_eq!((bundle.name(), bundle.package()), ("p.v1.0.0", Some("p")));
    assert_eq!(bundle.properties.len(), 1);
    assert_eq!(bundle.dependencies[0].type_, "b");
    assert_eq!(bundle.objects.iter().map(kind).collect::<Vec<_>>(), ["Service", "ConfigMap"]);
}

/// As in upstream's decoder, where a null in a map of texts is the empty text (flink-kubernetes-operator
/// 1.0.1).
#[test]
fn null_is_the_empty_text_of_an_annotation() {
    let csv = CSV
        .replace("{name: p.v1.0.0}", "\n  name: p.v1.0.0\n  annotations:\n    support:\n  labels: {a: ~}\n");
    let annotations = format!("{ANNOTATIONS}  com.example.empty:\n");
    let (_dir, bundle) = bundle(&[("metadata/annotations.yaml", &annotations), ("manifests/csv.yaml", &csv)]);
    let bundle = bundle.unwrap();
    assert_eq!(bundle.csv_annotation("support"), Some(""));
    assert_eq!(bundle.csv_raw["metadata"]["labels"]["a"], "");
    assert_eq!(bundle.annotations["com.example.empty"], "");
}

#[test]
fn metadata_is_read_in_the_spelling_of_upstreams_structures() {
    let (_dir, bundle) = bundle(&[
        ("metadata/annotations.yaml", &ANNOTATIONS.replace("annotations:", "Annotations:")),
        (
            "metadata/dependencies.yaml",
            "Dependencies:\n- Type: olm.package\n  Value: {packageName: q, version: '1'}\n",
        ),
        ("manifests/csv.yaml", CSV),
    ]);
    let bundle = bundle.unwrap();
    assert_eq!((bundle.package(), bundle.dependencies[0].type_.as_str()), (Some("p"), "olm.package"));
}

/// A file with only a comment before the marker of its document, as in nxrm-operator-certified.
#[test]
fn a_manifest_behind_an_empty_document_is_the_only_one_of_its_file() {
    let csv = format!("# DO NOT MODIFY. This is produced by template.\n---\n{CSV}");
    let (_dir, bundle) = bundle(&[("metadata/annotations.yaml", ANNOTATIONS), ("manifests/csv.yaml", &csv)]);
    let bundle = bundle.unwrap();
    assert_eq!(bundle.name(), "p.v1.0.0");
    assert!(bundle.provenance.notes.is_empty(), "{:?}", bundle.provenance.notes);
}

#[test]
fn what_may_be_in_an_unreadable_file_is_not_missing() {
    let csv =
        format!("{CSV}  customresourcedefinitions: {{owned: [{{name: as.b.c, kind: A, version: v1}}]}}\n")
            .replace("spec: {version: 1.0.0}\n", "spec:\n  version: 1.0.0\n");
    let loaded = read_files(
        "p",
        [
            ("metadata/annotations.yaml", ANNOTATIONS.as_bytes()),
            ("manifests/csv.yaml", csv.as_bytes()),
            ("manifests/crd.yaml", b"a: [\n".as_slice()),
        ],
    );
    let findings = loaded.bundle.unwrap().validate();
    assert!(!findings.iter().any(|finding| finding.code == "crd-missing"), "{findings:?}");
    assert_eq!(loaded.problems.len(), 1);
}

#[test]
fn what_is_wrong_is_named() {
    let cases: [(&[(&str, &str)], &str); 7] = [
        (&[("manifests/csv.yaml", CSV)], "no metadata/"),
        (&[("metadata/a.yaml", ANNOTATIONS)], "no manifests/"),
        (&[("metadata/a.yaml", "x: y\n"), ("manifests/csv.yaml", CSV)], "has annotations"),
        (
            &[("metadata/a.yaml", ANNOTATIONS), ("manifests/a.yaml", "kind: A\n")],
            "a.yaml:1:1: this is not a manifest: apiVersion is missing",
        ),
        (&[("metadata/a.yaml", ANNOTATIONS), ("manifests/a.yaml", "a: b\nc: [\n")], "a.yaml:"),
        (
            &[("metadata/a.yaml", ANNOTATIONS), ("manifests/a.yaml", CSV), ("manifests/b.yaml", CSV)],
            "has 2 ClusterServiceVersions (p.v1.0.0, p.v1.0.0)",
        ),
        (
            &[(
                "metadata/a.yaml",
                "annotations: {operators.operatorframework.io.bundle.manifests.v1: ../..}\n",
            )],
            "points outside",
        ),
    ];
    for (files, expected) in cases {
        let (_dir, bundle) = bundle(files);
        let message = bundle.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn objects_need_a_named_csv() {
    assert!(
        Bundle::from_objects(Vec::new()).unwrap_err().to_string().contains("has 0 ClusterServiceVersions")
    );
    let nameless =
        serde_json::json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion"});
    assert!(
        Bundle::from_objects(vec![nameless])
            .unwrap_err()
            .to_string()
            .contains("metadata.name: it is required")
    );
    assert!(Bundle::from_objects(vec![Value::Null]).unwrap_err().to_string().contains("object 1"));
}

fn files<'a>(more: &[(&'a str, &'a [u8])]) -> Vec<(String, &'a [u8])> {
    let base: [(&str, &[u8]); 2] =
        [("metadata/annotations.yaml", ANNOTATIONS.as_bytes()), ("manifests/csv.yaml", CSV.as_bytes())];
    base.iter().chain(more).map(|(path, content)| ((*path).to_owned(), *content)).collect()
}

/// Code and place of each finding of reading.
fn found(more: &[(&str, &[u8])]) -> Vec<String> {
    let checked = crate::check_files("test", files(more), &crate::Options::default());
    let base = crate::check_files("test", files(&[]), &crate::Options::default()).findings;
    let new = checked.findings.into_iter().filter(|finding| !base.contains(finding));
    new.map(|finding| {
        format!("{} {}", finding.code, finding.place.map(|p| p.to_string()).unwrap_or_default())
    })
    .collect()
}

#[test]
fn files_in_memory_make_the_same_bundle() {
    let bundle =
        Bundle::from_files("test", files(&[("./tests/x", b"x"), ("../manifests/y.yaml", b"[")])).unwrap();
    assert_eq!((bundle.name(), bundle.package()), ("p.v1.0.0", Some("p")));
}

#[test]
fn mistakes_are_found_beside_each_other() {
    // given a bundle with errors in several files
    let found = found(&[
        ("manifests/bad.yaml", b"a: b\nc: [\n"),
        ("manifests/none.yaml", b"text\n"),
        ("manifests/latin.yaml", b"a: \xe9\n"),
        ("manifests/twice.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n"),
        ("manifests/sub/x.yaml", b""),
        ("manifests/many.yaml", b"---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n"),
    ]);
    // then each has its finding
    assert_eq!(
        found,
        [
            "yaml-invalid manifests/bad.yaml:2:4",
            "yaml-invalid manifests/latin.yaml:1:4",
            "manifest-shape manifests/none.yaml:1:1",
            "kind-unsupported manifests/many.yaml:7:1",
            "manifest-documents manifests/many.yaml:5:1",
            "bundle-subfolder manifests/sub",
            "yaml-key-repeated manifests/twice.yaml:5:3",
        ]
    );
}

#[test]
fn malformed_metadata_is_named() {
    let one = |file: &str, text: &str| found(&[(file, text.as_bytes())]);
    assert_eq!(one("metadata/dependencies.yaml", "dependencies:\n  - type: a\n value: [\n").len(), 1);
    assert_eq!(
        one("metadata/dependencies.yaml", "see the wiki\n"),
        ["metadata-shape metadata/dependencies.yaml:1:1"]
    );
    assert_eq!(
        one("metadata/dependencies.yaml", "dependencies: text\n"),
        ["metadata-shape metadata/dependencies.yaml:1:1"]
    );
    assert_eq!(
        one("metadata/dependencies.yaml", "dependencies:\n- value: 1\n"),
        ["metadata-shape metadata/dependencies.yaml:2:3"]
    );
    assert_eq!(
        one("metadata/dependencies.yaml", "dependancies: []\n"),
        ["metadata-key-unknown metadata/dependencies.yaml:1:1"]
    );
    assert_eq!(
        one(
            "metadata/properties.yaml",
            "properties: []\ndependencies: [{type: olm.label, value: {label: x}}]\n"
        ),
        ["metadata-section-misplaced metadata/properties.yaml:2:1"]
    );
    assert_eq!(
        one("metadata/more.yaml", "annotations:\n  com.redhat.openshift.versions: 4.6\n"),
        ["metadata-section-repeated metadata/more.yaml:1:1", "annotation-not-text metadata/more.yaml:2:3"]
    );
}

#[test]
fn one_csv_is_needed_and_no_more() {
    let two = Bundle::from_files("test", files(&[("manifests/b.yaml", CSV.as_bytes())])).unwrap_err();
    assert_eq!(two.code(), "csv-count");
    let none =
        crate::check_files("test", [("metadata/a.yaml", ANNOTATIONS.as_bytes())], &crate::Options::default());
    let codes: Vec<&str> = none.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["bundle-layout", "csv-count"]);
    assert!(none.bundle.is_none() && !none.is_valid());
}

#[test]
fn a_csv_of_another_shape_names_the_field() {
    let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: p.v1.0.0}\nspec:\n  installModes:\n  - {type: AllNamespaces, supported: yes indeed}\n";
    let error = Bundle::from_files(
        "test",
        [("metadata/a.yaml", ANNOTATIONS), ("manifests/csv.yaml", csv)]
            .map(|(path, text)| (path, text.as_bytes())),
    )
    .unwrap_err();
    assert_eq!(error.place().unwrap().to_string(), "manifests/csv.yaml:6:27");
    assert!(error.to_string().contains("spec.installModes[0].supported: invalid type"), "{error}");
}

#[test]
fn large_files_are_not_read() {
    let large = vec![b' '; usize::try_from(tree::LARGEST_FILE).unwrap() + 1];
    let error = Bundle::from_files("test", files(&[("manifests/large.yaml", &large)])).unwrap_err();
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_that_lead_out_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.yaml"), "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n")
        .unwrap();
    let (dir, bundle) = bundle(&[("metadata/a.yaml", ANNOTATIONS), ("manifests/csv.yaml", CSV)]);
    bundle.unwrap();
    // mounted ConfigMaps have links inside of the bundle
    std::os::unix::fs::symlink(dir.path().join("manifests/csv.yaml"), dir.path().join("metadata/link.yaml"))
        .unwrap();
    Bundle::from_dir(dir.path()).unwrap();
    // one that leads out is rejected, and so is a dangling one
    for (target, text) in
        [(outside.path().join("secret.yaml"), "outside of the bundle"), ("/nowhere".into(), "No such file")]
    {
        let link = dir.path().join("manifests/link.yaml");
        std::os::unix::fs::symlink(target, &link).unwrap();
        let error = Bundle::from_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        fs::remove_file(&link).unwrap();
    }
}

mod hostile {
    use proptest::prelude::*;

    use super::{ANNOTATIONS, CSV};
    use crate::{Options, Suite, check_files};

    fn all() -> Options {
        Options { suites: Suite::ALL.into(), ..Options::default() }
    }

    proptest! {
        #[test]
        fn no_files_panic(files in prop::collection::vec(("(manifests|metadata)/[a-z.]{0,3}", prop::collection::vec(any::<u8>(), 0..60)), 0..5)) {
            let _ = check_files("x", files, &all());
        }

        #[test]
        fn no_damage_panics(at in 0..10_000usize, byte in any::<u8>(), cut in 0..10_000usize) {
            let mut csv = CSV.as_bytes().to_vec();
            let at = at % csv.len();
            csv[at] = byte;
            csv.truncate(cut % (CSV.len() * 2));
            let files = [("metadata/a.yaml", ANNOTATIONS.as_bytes()), ("manifests/csv.yaml", csv.as_slice())];
            let _ = check_files("x", files, &all());
        }
    }
}

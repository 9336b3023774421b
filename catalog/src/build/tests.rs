use super::*;

fn write_bundle(root: &Path, version: &str, channels: &str, spec: &str) {
    let dir = root.join("p").join(version);
    fs::create_dir_all(dir.join("manifests")).unwrap();
    fs::create_dir_all(dir.join("metadata")).unwrap();
    let annotations = format!(
        "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  operators.operatorframework.io.bundle.manifests.v1: manifests/\n  operators.operatorframework.io.bundle.metadata.v1: metadata/\n  operators.operatorframework.io.bundle.package.v1: p\n  operators.operatorframework.io.bundle.channels.v1: {channels}\n  operators.operatorframework.io.bundle.channel.default.v1: stable\n"
    );
    fs::write(dir.join("metadata/annotations.yaml"), annotations).unwrap();
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: p.v{version}\n  annotations: {{olm.skipRange: '<{version}'}}\nspec:\n  version: {version}\n  displayName: P\n  installModes: [{{type: AllNamespaces, supported: true}}]\n  install: {{strategy: deployment, spec: {{deployments: [{{name: d, spec: {{template: {{spec: {{containers: [{{name: c, image: a/b:1}}]}}}}}}}}]}}}}\n{spec}"
    );
    fs::write(dir.join("manifests/csv.yaml"), csv).unwrap();
}

#[test]
fn bundles_become_a_catalog_that_gives_them_back() {
    let dir = tempfile::tempdir().unwrap();
    write_bundle(dir.path(), "1.9.0", "stable", "");
    write_bundle(dir.path(), "1.10.0", "stable,fast", "  replaces: p.v1.9.0\n  skips: [p.v1.9.1]\n");
    let fbc = from_bundles(dir.path()).unwrap();
    assert_eq!(fbc, from_bundles(dir.path()).unwrap());

    let catalog = Catalog::from_bytes("built", fbc.files[0].1.as_bytes());
    assert_eq!(catalog.problems, []);
    let package = &catalog.packages["p"];
    assert_eq!(package.default_channel, "stable");
    assert_eq!(package.head().unwrap().name, "p.v1.10.0");
    let entry = package.channels["stable"].entry("p.v1.10.0").unwrap();
    assert_eq!((entry.replaces.as_deref(), entry.skip_range.as_deref()), (Some("p.v1.9.0"), Some("<1.10.0")));
    assert_eq!(entry.skips, ["p.v1.9.1"]);
    assert_eq!(package.channels["fast"].entries.len(), 1);
    let bundle = package.bundles["p.v1.9.0"].bundle().unwrap();
    assert_eq!((bundle.name(), bundle.package()), ("p.v1.9.0", Some("p")));
    assert_eq!(package.bundles["p.v1.9.0"].related_images[0].image, "a/b:1");
    assert_eq!(package.bundles["p.v1.9.0"].csv_metadata().unwrap().display_name, "P");
}

#[test]
fn what_is_wrong_is_refused_with_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    write_bundle(dir.path(), "1.0.0", "stable", "");
    write_bundle(dir.path(), "1.1.0", "stable", "");
    let error = from_bundles(dir.path()).unwrap_err().to_string();
    assert!(error.contains("several newest entries: p.v1.0.0, p.v1.1.0"), "{error}");
    write_bundle(dir.path(), "1.1.0", "stable", "  replaces: p.v1.0.0\n  minKubeVersion: old\n");
    let error = from_bundles(dir.path()).unwrap_err().to_string();
    assert!(error.contains("/p/1.1.0: ") && error.contains("spec.minKubeVersion"), "{error}");
}

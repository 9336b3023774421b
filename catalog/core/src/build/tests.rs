use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Writes a file and its parent directories.
fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn csv(version: &str, spec: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: p.v{version}\n  annotations: {{olm.skipRange: '<{version}'}}\nspec:\n  version: {version}\n  displayName: P\n  description: About {version}\n  installModes: [{{type: AllNamespaces, supported: true}}]\n  install: {{strategy: deployment, spec: {{deployments: [{{name: d, spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: 'a/b:1'}}]}}}}}}}}]}}}}\n{spec}"
    )
}

fn write_bundle(root: &Path, dir: &str, version: &str, channels: &str, spec: &str) {
    let annotations = format!(
        "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  operators.operatorframework.io.bundle.manifests.v1: manifests/\n  operators.operatorframework.io.bundle.metadata.v1: metadata/\n  operators.operatorframework.io.bundle.package.v1: p\n  operators.operatorframework.io.bundle.channels.v1: {channels}\n  operators.operatorframework.io.bundle.channel.default.v1: stable\n"
    );
    write(root, &format!("{dir}/{version}/metadata/annotations.yaml"), &annotations);
    write(root, &format!("{dir}/{version}/manifests/csv.yaml"), &csv(version, spec));
}

fn two_bundles() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_bundle(dir.path(), "operators/p", "1.9.0", "stable", "");
    let spec = "  replaces: p.v1.9.0\n  skips: [p.v1.9.1]\n";
    write_bundle(dir.path(), "operators/p", "1.10.0", "stable,fast", spec);
    dir
}

fn build(dir: &Path) -> Built {
    from_bundle_repository(dir, &Options::default()).unwrap()
}

fn codes(built: &Built) -> Vec<&str> {
    built.problems.iter().map(|problem| problem.code.as_ref()).collect()
}

#[test]
fn bundles_become_a_catalog_that_gives_them_back() {
    let dir = two_bundles();
    let built = build(dir.path());
    assert_eq!(built.packages, build(dir.path()).packages);
    assert_eq!(codes(&built), Vec::<&str>::new());

    let catalog = built.catalog();
    assert_eq!(catalog.problems, []);
    let package = catalog.package("p").unwrap().unwrap();
    assert_eq!(package.default_channel, "stable");
    assert_eq!(package.description, "About 1.10.0");
    assert_eq!(package.head().unwrap().name, "p.v1.10.0");
    let entry = package.channels["stable"].entry("p.v1.10.0").unwrap();
    assert_eq!((entry.replaces.as_deref(), entry.skip_range.as_deref()), (Some("p.v1.9.0"), Some("<1.10.0")));
    assert_eq!(entry.skips, ["p.v1.9.1"]);
    assert_eq!(package.channels["fast"].entries.len(), 2, "what the head leads to is in the channel");
    let bundle = package.bundles["p.v1.9.0"].bundle().unwrap();
    assert_eq!((bundle.name(), bundle.package()), ("p.v1.9.0", Some("p")));
    assert_eq!(package.bundles["p.v1.9.0"].related_images[0].image, "a/b:1");
}

#[test]
fn every_layout_of_a_checkout_is_found() {
    let dir = two_bundles();
    for below in ["", "operators", "operators/p"] {
        let built = build(&dir.path().join(below));
        assert_eq!(built.packages.len(), 1, "{below:?}");
        assert_eq!(built.packages[0].documents.len(), 5, "{below:?}");
    }
    assert_eq!(build(&dir.path().join("operators/p/1.9.0")).packages[0].documents.len(), 3);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Layout::detect(empty.path()).unwrap(), Layout::Catalog);
    let error = from_bundle_repository(empty.path(), &Options::default()).unwrap_err().to_string();
    assert!(error.ends_with("contains no bundles, expected NAME/VERSION/manifests and NAME/VERSION/metadata in it or in its directory operators/"), "{error}");
    let gone =
        from_bundle_repository(&empty.path().join("gone"), &Options::default()).unwrap_err().to_string();
    assert!(gone.starts_with("failed to read "), "{gone}");
}

/// The templates of the real operators clusterpulse, kairos-operator and others have this spelling.
#[test]
fn a_template_in_upstreams_spelling_makes_the_channels() {
    let dir = two_bundles();
    let ci = "updateGraph: replaces-mode\nfbc:\n  enabled: true\n  catalog_mapping:\n  - {template_name: semver.yaml, catalog_names: [v4.20], type: olm.semver}\n";
    write(dir.path(), "operators/p/ci.yaml", ci);
    let template = "---\nSchema: olm.semver\nGenerateMajorChannels: true\nGenerateMinorChannels: false\nCandidate:\n  Bundles:\n  - Image: quay.io/x/p:1.9.0\n  - Image: quay.io/x/p:1.10.0\n";
    write(dir.path(), "operators/p/catalog-templates/semver.yaml", template);
    let built = build(dir.path());
    assert_eq!(codes(&built), Vec::<&str>::new());
    let package = built.catalog().package("p").unwrap().unwrap();
    assert_eq!(package.channels.keys().collect::<Vec<_>>(), ["candidate-v1"]);
    assert_eq!(package.channels["candidate-v1"].entries[1].replaces.as_deref(), Some("p.v1.9.0"));
    assert_eq!(package.default_channel, "candidate-v1");
}

/// Bundles are read in any order, by several threads; the result is always the same.
#[test]
fn a_build_reports_its_progress_and_does_not_depend_on_its_threads() {
    let dir = two_bundles();
    for version in 0..20 {
        write_bundle(dir.path(), "operators/q", &format!("1.{version}.0"), "stable", "");
    }
    write(dir.path(), "operators/q/ci.yaml", "updateGraph: semver-mode\n");
    write(dir.path(), "operators/a/1.0.0/manifests/csv.yaml", "a: [");
    let first = build(dir.path());
    assert_eq!(codes(&first), ["bundle-unreadable", "package-duplicate"]);
    let package = &first.packages[0];
    assert_eq!((first.packages.len(), package.name.as_str(), package.documents.len()), (1, "p", 5));
    for _ in 0..10 {
        let again = build(dir.path());
        assert_eq!((&again.packages, &again.problems), (&first.packages, &first.problems));
        let out = tempfile::tempdir().unwrap();
        let seen = std::sync::Mutex::new(Vec::new());
        let problems = write_bundle_repository_with_progress(
            dir.path(),
            &Options::default(),
            out.path(),
            Format::Json,
            &|progress| seen.lock().unwrap().push(progress),
        );
        assert_eq!(problems.unwrap(), first.problems);
        let written = fs::read_to_string(out.path().join("p/catalog.json")).unwrap();
        assert_eq!(written, package.text(Format::Json));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_by_key(|progress| progress.bundles);
        assert_eq!(seen.len(), 23);
        assert_eq!(seen.last().unwrap(), &Progress { packages: (3, 3), bundles: (23, 23) });
    }
}

#[cfg(unix)]
#[test]
fn links_out_of_the_checkout_are_not_followed() {
    let (dir, outside) = (two_bundles(), two_bundles());
    std::os::unix::fs::symlink(outside.path().join("operators/p"), dir.path().join("operators/q")).unwrap();
    std::os::unix::fs::symlink("/", dir.path().join("operators/p/9.9.9")).unwrap();
    assert_eq!(build(dir.path()).packages[0].documents.len(), 5);
}

#[test]
fn images_follow_the_template() {
    let dir = tempfile::tempdir().unwrap();
    write_bundle(dir.path(), "p", "1.0.0+7", "stable", "");
    let options = Options {
        image_template: Some("r.example/{package}/{name}:v{version}".into()),
        ..Options::default()
    };
    let built = from_bundle_repository(dir.path(), &options).unwrap();
    let bundle = &built.packages[0].documents[2];
    assert_eq!(bundle["image"], "r.example/p/p.v1.0.0+7:v1.0.0_7");
    let types: Vec<&str> =
        bundle["properties"].as_array().unwrap().iter().map(|p| p["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["olm.package", "olm.csv.metadata"]);
}

#[test]
fn ci_yaml_chooses_the_mode() {
    let dir = two_bundles();
    write(dir.path(), "operators/p/ci.yaml", "---\nupdateGraph: semver-mode\nreviewers: [a]\n");
    let built = build(dir.path());
    let entry = &built.packages[0].documents[2]["entries"][1];
    assert_eq!(*entry, json!({"name": "p.v1.10.0", "replaces": "p.v1.9.0", "skipRange": "<1.10.0"}));

    for (text, code) in [("updateGraph: newest\n", "ci-update-graph"), ("a: [\n", "ci-unreadable")] {
        write(dir.path(), "operators/p/ci.yaml", text);
        let built = build(dir.path());
        assert_eq!(codes(&built), [code]);
        assert_eq!(built.packages[0].documents[2]["entries"][1]["skips"], json!(["p.v1.9.1"]));
    }
}

#[test]
fn a_bad_bundle_hides_nothing_else() {
    let dir = two_bundles();
    write(dir.path(), "operators/p/2.0.0/manifests/csv.yaml", "kind: [");
    write(dir.path(), "operators/p/2.0.0/metadata/annotations.yaml", "annotations: {a: b}");
    write_bundle(dir.path(), "operators/p", "2.1.x", "stable", "");
    write_bundle(dir.path(), "operators/q", "1.0.0", "stable", "");
    write(dir.path(), "operators/r/1.0.0/metadata/annotations.yaml", "");
    let built = build(dir.path());
    assert_eq!(built.packages.len(), 1);
    assert_eq!(
        codes(&built),
        ["bundle-unreadable", "bundle-version", "package-duplicate", "bundle-unreadable"]
    );
    assert!(built.problems[0].place.path.ends_with("operators/p/2.0.0"), "{}", built.problems[0]);
    assert_eq!(built.problems[1].text, "p.v2.1.x is omitted: invalid spec.version \"2.1.x\"");

    let strict = Options { strict: true, ..Options::default() };
    let error = from_bundle_repository(dir.path(), &strict).unwrap_err();
    let BuildError::Problems(problems) = &error else { panic!("{error}") };
    assert!(problems.len() >= 4 && error.to_string().contains("[bundle-version]"), "{error}");
}

#[test]
fn strict_refuses_what_the_loader_or_a_validator_would() {
    let strict = Options { strict: true, ..Options::default() };
    let dir = tempfile::tempdir().unwrap();
    write_bundle(dir.path(), "p", "1.0.0", "stable", "");
    assert!(from_bundle_repository(dir.path(), &strict).is_ok());
    write_bundle(dir.path(), "p", "1.1.0", "stable", "");
    let error = from_bundle_repository(dir.path(), &strict).unwrap_err().to_string();
    assert!(error.contains("p.v1.0.0 is omitted: not reachable in any channel"), "{error}");
    write_bundle(dir.path(), "p", "1.1.0", "stable", "  replaces: p.v1.0.0\n  minKubeVersion: old\n");
    let error = from_bundle_repository(dir.path(), &strict).unwrap_err().to_string();
    assert!(error.contains("/p/1.1.0: ") && error.contains("minKubeVersion"), "{error}");
}

#[test]
fn written_catalogs_load_as_they_were_built() {
    let dir = two_bundles();
    let built = build(dir.path());
    let digest = built.catalog().digest;
    for format in [Format::Json, Format::Yaml] {
        let out = tempfile::tempdir().unwrap();
        built.write(out.path(), format).unwrap();
        let again = tempfile::tempdir().unwrap();
        write_bundle_repository(dir.path(), &Options::default(), again.path(), format).unwrap();
        for folder in [out.path(), again.path()] {
            let catalog = load(folder).unwrap();
            assert_eq!(catalog.problems, []);
            assert_eq!(catalog.digest, digest, "{format:?}");
        }
    }
}

const NATIVE: &str = "fbc:\n  enabled: true\n  catalog_mapping:\n  - {template_name: old.yaml, type: olm.template.basic, catalog_names: [v4.9]}\n  - {template_name: new.yaml, type: olm.template.basic, catalog_names: [v4.10, v4.20]}\n";

const TEMPLATE: &str = "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: p, defaultChannel: gone, description: own words}\n- {schema: olm.channel, package: p, name: stable, entries: [{name: p.v1.9.0}, {name: p.v1.9.5, replaces: p.v1.9.0}, {name: p.v1.10.0, replaces: p.v1.9.5}]}\n- {schema: olm.channel, package: p, name: gone, entries: [{name: p.v0.1.0}]}\n- {schema: olm.bundle, image: 'r.example/p:1.9.0'}\n- {schema: olm.bundle, image: 'r.example/p@sha256:00'}\n- {schema: olm.deprecations, package: p, entries: [{reference: {schema: olm.bundle, name: p.v1.9.0}, message: old}, {reference: {schema: olm.bundle, name: p.v0.1.0}, message: older}]}\n- {schema: custom, package: p, x: 1}\n";

#[test]
fn an_operators_own_template_sets_its_channels() {
    let dir = two_bundles();
    write(dir.path(), "operators/p/ci.yaml", NATIVE);
    write(dir.path(), "operators/p/catalog-templates/new.yaml", TEMPLATE);
    write_bundle(dir.path(), "operators/p", "3.0.0", "stable", "");
    let options = Options { image_template: Some("other.example/{name}".into()), ..Options::default() };
    let built = from_bundle_repository(dir.path(), &options).unwrap();
    // then: missing bundles are reported, and edges bridge them
    assert_eq!(codes(&built), ["channel-empty", "package-default-channel", "bundle-stranded"]);
    assert!(built.problems.iter().all(|problem| problem.severity == Severity::Warning));
    let documents = &built.packages[0].documents;
    assert_eq!(
        documents[0],
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable", "description": "own words"})
    );
    assert_eq!(
        documents[1]["entries"],
        json!([{"name": "p.v1.9.0"}, {"name": "p.v1.10.0", "replaces": "p.v1.9.0"}])
    );
    assert_eq!(documents[2]["image"], "r.example/p:1.9.0");
    assert_eq!(documents[3]["image"], "other.example/p.v1.10.0", "its own is known by digest only");
    assert_eq!(documents[4]["entries"].as_array().unwrap().len(), 1);
    assert_eq!(documents[5], json!({"schema": "custom", "package": "p", "x": 1}));
    assert_eq!(built.catalog().problems.iter().filter(|p| p.severity == Severity::Error).count(), 0);
}

#[test]
fn a_semver_template_names_bundles_by_their_tags() {
    let dir = two_bundles();
    write(dir.path(), "operators/p/ci.yaml", NATIVE);
    let template = "schema: olm.semver\nstable:\n  bundles:\n  - image: r.example/p:v1.9.0\n  - image: r.example/p:1.10.0\n";
    write(dir.path(), "operators/p/catalog-templates/new.yaml", template);
    let built = build(dir.path());
    assert_eq!(codes(&built), Vec::<&str>::new());
    let documents = &built.packages[0].documents;
    assert_eq!(documents[0]["defaultChannel"], "stable-v1.10");
    assert_eq!(documents[1]["entries"], json!([{"name": "p.v1.10.0", "replaces": "p.v1.9.0"}]));
    assert_eq!(documents[3].get("image"), None, "without a template for images the manifests are inline");
    assert_eq!(built.catalog().problems, []);
}

#[test]
fn an_unusable_template_is_reported() {
    let dir = two_bundles();
    write(dir.path(), "operators/p/ci.yaml", NATIVE);
    let reported = |options: &Options| {
        let built = from_bundle_repository(dir.path(), options).unwrap();
        assert_eq!(built.packages[0].documents.len(), 5, "the bundles' own `replaces` counts");
        assert_eq!(codes(&built), ["native-template"]);
        built.problems[0].text.clone()
    };
    assert!(reported(&Options::default()).starts_with("failed to read"));
    let other = Options { catalog: Some("v5.0".into()), ..Options::default() };
    assert!(reported(&other).starts_with("ci.yaml has no template for v5.0"));
    let old = Options { catalog: Some("v4.9".into()), ..Options::default() };
    for (template, text) in [
        ("schema: other\n", "the template has no olm.channel"),
        ("schema: olm.semver\nstabel: {}\n", "unknown field \"stabel\""),
        ("schema: olm.semver\n", "the template has no bundles"),
        (
            "schema: olm.semver\nstable: {bundles: [{image: 'r.example/p@sha256:00'}]}\n",
            "failed to get bundle r.example/p@sha256:00: reference by digest, which matches no directory",
        ),
        (
            "schema: olm.semver\nstable: {bundles: [{image: 'r.example/p:v3'}]}\n",
            "failed to get bundle r.example/p:v3",
        ),
        ("schema: olm.template.substitutes\nentries: []\n", "the template defines package None"),
    ] {
        write(dir.path(), "operators/p/catalog-templates/old.yaml", template);
        assert!(reported(&old).starts_with(text), "{}", reported(&old));
    }
    write(dir.path(), "operators/p/ci.yaml", &NATIVE.replace("new.yaml", "../../../x.yaml"));
    assert!(reported(&Options::default()).contains("invalid file name"));
}

#[test]
fn a_name_that_is_no_name_makes_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    write_bundle(dir.path(), "operators/p", "1.0.0", "stable", "");
    let path = "operators/p/1.0.0/metadata/annotations.yaml";
    let text = fs::read_to_string(dir.path().join(path)).unwrap();
    write(dir.path(), path, &text.replace("package.v1: p", "package.v1: ../../escaped"));
    let out = dir.path().join("deep/down/out");
    let problems = write_bundle_repository(dir.path(), &Options::default(), &out, Format::Json).unwrap();
    assert_eq!(problems.iter().map(|problem| problem.code.as_ref()).collect::<Vec<_>>(), ["package-name"]);
    assert!(!dir.path().join("deep/escaped").exists());
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "nothing is left of the work");
}

#[test]
fn nothing_is_written_after_an_error() {
    let dir = two_bundles();
    let out = tempfile::tempdir().unwrap();
    write(out.path(), "p/catalog.yaml", "old");
    write(out.path(), ".olm-building-x/p/catalog.yaml", "left by a build that was killed");
    write_bundle(dir.path(), "operators/q", "1.0.0", "stable", "");
    let strict = Options { strict: true, ..Options::default() };
    assert!(write_bundle_repository(dir.path(), &strict, out.path(), Format::Json).is_err());
    let files = |dir: &Path| {
        let mut names: Vec<String> =
            folder::list(dir).unwrap().files.iter().map(|path| folder::name(path)).collect();
        names.sort();
        names
    };
    assert_eq!(files(&out.path().join("p")), ["catalog.yaml"]);
    // then the other format replaces it
    write_bundle_repository(dir.path(), &Options::default(), out.path(), Format::Json).unwrap();
    assert_eq!(files(&out.path().join("p")), ["catalog.json"]);
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
}

#[test]
fn an_operator_without_bundles_is_reported() {
    let dir = two_bundles();
    write(dir.path(), "operators/empty/ci.yaml", "updateGraph: semver-mode\n");
    write(dir.path(), "operators/empty/catalog-templates/basic.yaml", TEMPLATE);
    let built = build(dir.path());
    assert_eq!((built.packages.len(), codes(&built)), (1, vec!["package-empty"]));
}

//! `olm catalog build`.

use std::{fs, path::Path};

use crate::{data, folder, olm};

#[test]
fn what_is_built_is_checked_by_meaning() {
    let Some(bundles) = data("bundles") else { return };
    let repository = bundles.join("operators/etcd");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("catalog");
    let (repository, text) = (repository.to_str().unwrap(), out.to_str().unwrap());
    let template = "--image-template=registry.example/{package}:v{version}";
    // given a built catalog
    let built = olm(&["catalog", "build", repository, "-o", text, template]);
    assert_eq!(built.code, Some(0), "{}", built.err);
    let file = out.join("etcd/catalog.yaml");
    assert!(fs::read_to_string(&file).unwrap().contains("registry.example/etcd:v0.9.4"));
    assert_eq!(olm(&["catalog", "validate", text]).code, Some(0));
    // when nothing changed, then the check succeeds in either format, and a rebuild writes nothing
    let check = ["catalog", "build", repository, "-o", text, template, "--check"];
    assert_eq!(olm(&check).code, Some(0));
    assert_eq!(olm(&[&check as &[&str], &["--format", "json"]].concat()).code, Some(0));
    let again = olm(&["catalog", "build", repository, "-o", text, template]);
    assert!(again.err.contains("1 package, 0 written, 1 unchanged"), "{}", again.err);
    // when a file is edited, then the check reports the differences
    let edited = fs::read_to_string(&file)
        .unwrap()
        .replace("defaultChannel: singlenamespace-alpha", "defaultChannel: alpha");
    fs::write(&file, edited).unwrap();
    let checked = olm(&check);
    assert_eq!(checked.code, Some(1));
    assert!(
        checked.out.contains("~ etcd: package defaultChannel: alpha -> singlenamespace-alpha"),
        "{}",
        checked.out
    );
    // and a build as JSON replaces the YAML file
    let json = olm(&["catalog", "build", repository, "-o", text, template, "--format", "json"]);
    assert_eq!(json.code, Some(0), "{}", json.err);
    assert!(!file.exists() && out.join("etcd/catalog.json").exists());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::write(to, fs::read(&path).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_wrong_bundle_makes_nothing_unless_it_may_be_left_out() {
    let Some(bundles) = data("bundles/operators/etcd") else { return };
    // given a repository with a sound and a broken operator
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("repo/operators/broken/1.0.0/manifests")).unwrap();
    fs::write(at("repo/operators/broken/1.0.0/manifests/csv.yaml"), "kind: [\n").unwrap();
    copy(&bundles, &at("repo/operators/etcd"));
    let (repo, out) = (at("repo").display().to_string(), at("out").display().to_string());
    // when it is built, then nothing is made
    let refused = olm(&["catalog", "build", &repo, "-o", &out]);
    assert_eq!(refused.code, Some(4), "{}", refused.err);
    assert!(refused.err.contains("broken/1.0.0") && refused.err.contains("--keep-going"), "{}", refused.err);
    assert!(!at("out").exists());
    // and no temporary file remains
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["repo"]);
    // when invalid bundles may be skipped, then the rest is built
    let made = olm(&["catalog", "build", &repo, "-o", &out, "--keep-going"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(at("out/etcd/catalog.yaml").exists() && !at("out/broken").exists());
}

#[test]
fn a_template_of_folders_is_built_without_a_registry() {
    let Some(bundles) = data("bundles/operators/etcd") else { return };
    let at = |version: &str| bundles.join(version).display().to_string();
    let template = format!(
        "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - image: {}\n  - image: {}\n",
        at("0.9.2"),
        at("0.9.4")
    );
    let dir = folder(&[("semver.yaml", &template), ("wrong.yaml", "schema: olm.nothing\n")]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let ran = olm(&["catalog", "build", "--template", &path("semver.yaml")]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("name: stable-v0\n"), "{}", ran.out);
    let wrong = olm(&["catalog", "build", "--template", &path("wrong.yaml")]);
    assert!(wrong.code == Some(4) && wrong.err.contains("olm.nothing"), "{}", wrong.err);
    assert_eq!(olm(&["catalog", "build", "--template", &path("none.yaml")]).code, Some(3));
    assert_eq!(olm(&["catalog", "build"]).code, Some(2));
    assert_eq!(olm(&["catalog", "build", &at("0.9.4"), "-o", &path("semver.yaml")]).code, Some(2));
    let odd = olm(&["catalog", "build", &at("0.9.4"), "--image-template", "x/{pkg}"]);
    assert!(odd.code == Some(2) && odd.err.contains("{pkg}"), "{}", odd.err);
}

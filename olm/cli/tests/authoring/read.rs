//! Reading catalogs from every kind of source.

use serde_json::Value;

use crate::{CATALOG, data, folder, olm, olm_with, transcript};

fn text(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_verdict_names_places_and_ends_with_totals() {
    // given a catalog with an error and a warning in two packages
    let broken = CATALOG
        .replace("demo", "other")
        .replace("defaultChannel: stable", "defaultChannel: stabel")
        .replace("name: other\n", "name: other\nname: other\n");
    let dir = folder(&[("demo/catalog.yaml", CATALOG), ("other/catalog.yaml", &broken)]);
    let path = text(dir.path());
    // when it is validated, then both are reported
    insta::assert_snapshot!("validate_text", transcript(&olm(&["catalog", "validate", &path]), dir.path()));
    insta::assert_snapshot!(
        "validate_json",
        transcript(&olm(&["catalog", "validate", &path, "-o", "json"]), dir.path())
    );
    // and the valid one alone passes
    let sound = text(&dir.path().join("demo"));
    insta::assert_snapshot!("validate_valid", transcript(&olm(&["catalog", "validate", &sound]), dir.path()));
}

#[test]
fn warnings_fail_with_strict() {
    let dir = folder(&[("catalog.yaml", &CATALOG.replace("name: stable\n", "name: stable\nname: stable\n"))]);
    let path = text(dir.path());
    assert_eq!(olm(&["catalog", "validate", &path]).code, Some(0));
    assert_eq!(olm(&["catalog", "validate", &path, "--strict"]).code, Some(1));
}

#[test]
fn lists_and_graphs_read_like_this() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let path = text(dir.path());
    let mut all = String::new();
    for args in [
        &["catalog", "list", "packages", &path] as &[&str],
        &["catalog", "list", "channels", &path],
        &["catalog", "list", "bundles", &path, "demo"],
        &["catalog", "list", "bundles", &path, "-o", "name"],
        &["catalog", "graph", &path, "demo"],
        &["catalog", "graph", &path, "demo", "--channel", "stable", "-o", "mermaid"],
        &["catalog", "graph", &path, "demo", "--channel", "stabel"],
        &["catalog", "list", "bundles", &path, "dmo"],
        &["search", "--catalog-dir", &path],
    ] {
        let ran = olm(args);
        let line = args.join(" ").replace(&path, "DIR");
        all.push_str(&format!("$ olm {line}\n{}\n\n", transcript(&ran, dir.path())));
    }
    insta::assert_snapshot!("lists", all);
}

#[test]
fn every_form_of_a_catalog_is_the_same_catalog() {
    // given a catalog as a folder, as a file, compressed, as an archive, and on standard input
    let dir = folder(&[("demo/catalog.yaml", CATALOG)]);
    let file = text(&dir.path().join("demo/catalog.yaml"));
    let packed = dir.path().join("catalog.yaml.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, CATALOG.as_bytes()).unwrap();
    std::fs::write(&packed, gzip.finish().unwrap()).unwrap();
    let archive = dir.path().join("catalog.tar");
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    tar.append_dir_all("catalog", dir.path().join("demo")).unwrap();
    tar.finish().unwrap();
    // when each is rendered
    let expected = olm(&["catalog", "render", &file]).out;
    assert_eq!(expected.lines().count(), 4, "{expected}");
    for source in [text(&dir.path().join("demo")), text(&packed), text(&archive)] {
        let ran = olm(&["catalog", "render", &source]);
        // then the output is the same
        assert_eq!(ran.out, expected, "{source}: {}", ran.err);
    }
    assert_eq!(olm_with(&["catalog", "render", "-"], Some(CATALOG.as_bytes())).out, expected);
    // and YAML has the same content as JSON
    let yaml = olm(&["catalog", "render", &file, "-o", "yaml"]).out;
    assert_eq!(olm_with(&["catalog", "render", "-"], Some(yaml.as_bytes())).out, expected);
}

#[test]
fn a_repository_of_bundles_is_a_catalog() {
    let Some(bundles) = data("bundles") else { return };
    let etcd = text(&bundles.join("operators/etcd"));
    let ran = olm(&["catalog", "list", "channels", &etcd, "-o", "json"]);
    let channels: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {} {}", ran.out, ran.err));
    assert!(
        channels.as_array().unwrap().iter().any(|c| c["channel"] == "singlenamespace-alpha"),
        "{channels}"
    );
}

#[test]
fn diff_ends_as_diff_does() {
    let newer = CATALOG.replace("1.1.0", "1.2.0");
    let dir = folder(&[
        ("old.yaml", CATALOG),
        ("new.yaml", &newer),
        ("same.yaml", &CATALOG.replace("image: registry", "image:   registry")),
    ]);
    let path = |name: &str| text(&dir.path().join(name));
    let different = olm(&["catalog", "diff", &path("old.yaml"), &path("new.yaml")]);
    insta::assert_snapshot!("diff", transcript(&different, dir.path()));
    let same = olm(&["catalog", "diff", &path("old.yaml"), &path("same.yaml")]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), ""), "{}", same.err);
    assert_eq!(olm(&["catalog", "diff", &path("old.yaml"), &path("none.yaml")]).code, Some(3));
    let data = olm(&["catalog", "diff", &path("old.yaml"), &path("new.yaml"), "-o", "json"]);
    let data: Value = serde_json::from_str(&data.out).unwrap();
    assert_eq!(data["different"], true);
}

#[test]
fn missing_objects_are_reported_with_the_next_step() {
    let dir = folder(&[("empty/README.md", "nothing")]);
    let mut all = String::new();
    for source in [
        "nothing-here",
        "./nothing-here",
        "oci:nothing",
        "ftp://x/y",
        "http://127.0.0.1:1/catalog",
        "/dev/null",
    ] {
        all.push_str(&format!("$ olm catalog list packages {source}\n"));
        // The cause of the connection failure depends on the system.
        let ran = olm(&["catalog", "list", "packages", source]);
        if source.starts_with("http") {
            assert!(ran.code == Some(1) && ran.err.contains("127.0.0.1:1"), "{}", ran.err);
        } else {
            all.push_str(&format!("{}\n\n", transcript(&ran, dir.path())));
        }
    }
    insta::assert_snapshot!("absent", all);
    // A check that could not run is different from one that failed.
    assert_eq!(olm(&["catalog", "validate", "http://127.0.0.1:1/catalog"]).code, Some(10));
}

#[test]
fn a_closed_pipe_ends_the_output_without_an_error() {
    use std::{io::Read as _, process::Stdio};
    let Some(catalog) = data("catalogs/community-dev.json") else { return };
    // given a reader that closes the pipe
    let mut command = crate::program();
    let mut child = command
        .args(["catalog", "render", catalog.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    // then the command ends without an error
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

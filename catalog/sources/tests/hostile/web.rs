//! Catalogs from web servers.

use std::fs;

use olm_catalog_sources::{Fetched, Options, Revision, Source, SourceError, fetch};

use crate::{
    registry::Fault,
    scene::{Scene, login, status},
    support::{ETCD, expected, files, gzip, tar, zstd},
};

async fn fetch_url(scene: &Scene, path: &str, previous: Option<&Revision>) -> Result<Fetched, SourceError> {
    let url = format!("http://{}{path}", scene.registry.host());
    let credentials = login(&scene.registry.host(), "bob", "hunter2");
    let options = Options { credentials, ..scene.options.clone() };
    fetch(&Source::Http { url }, &options, previous, &scene.dest).await
}

fn revision(fetched: Fetched) -> Revision {
    match fetched {
        Fetched::New { revision, .. } => revision,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_catalog_is_read_once_per_etag() {
    // Given a catalog served as by catalogd
    let scene = Scene::new().await;
    let all = "/catalogs/x/api/v1/all";
    scene.registry.put_file(all, &[("etag", "\"1\""), ("content-encoding", "gzip")], &gzip(ETCD.as_bytes()));

    // When it is fetched
    let first = revision(fetch_url(&scene, all, None).await.expect("fetched"));

    // Then the credentials for the host were sent, the content is there, and the next fetch is conditional
    let asked = scene.registry.asked();
    assert_eq!(asked[0].authorization.as_deref(), Some("Basic Ym9iOmh1bnRlcjI="));
    assert_eq!(files(&scene.dest), expected(&[("catalog.json", ETCD)]));
    assert_eq!(first.etag.as_deref(), Some("\"1\""));
    fs::remove_dir_all(&scene.dest).expect("removed");
    let again = fetch_url(&scene, all, Some(&first)).await.expect("fetched");
    assert_eq!(again, Fetched::Unchanged { revision: first.clone() });

    // And the same content under a new tag is unchanged
    scene.registry.put_file(all, &[("etag", "\"2\""), ("content-encoding", "gzip")], &gzip(ETCD.as_bytes()));
    match fetch_url(&scene, all, Some(&first)).await.expect("fetched") {
        Fetched::Unchanged { revision } => assert_eq!(revision.etag.as_deref(), Some("\"2\"")),
        other => panic!("{other:?}"),
    }
    scene.nothing_is_left();
}

#[tokio::test]
async fn archives_and_yaml_are_read_also_when_compressed_twice() {
    let archive = gzip(&tar(&[("etcd/catalog.json", ETCD)]));
    let yaml = "schema: olm.package\nname: etcd\n";
    for (headers, bytes, found) in [
        (vec![], archive.clone(), expected(&[("etcd/catalog.json", ETCD)])),
        (vec![("content-encoding", "gzip")], gzip(&archive), expected(&[("etcd/catalog.json", ETCD)])),
        (vec![], yaml.as_bytes().to_vec(), expected(&[("catalog.yaml", yaml)])),
        (vec![], zstd(ETCD.as_bytes()), expected(&[("catalog.json", ETCD)])),
    ] {
        let scene = Scene::new().await;
        scene.registry.put_file("/file", &headers, &bytes);
        fetch_url(&scene, "/file", None).await.expect("fetched");
        assert_eq!(files(&scene.dest), found);
    }
}

#[tokio::test]
async fn non_catalog_content_is_identified() {
    let scene = Scene::new().await;
    for (name, bytes, reason) in [
        ("/page", &b"<!DOCTYPE html><p>log in"[..], "found a web page"),
        ("/nothing", b"", ": empty"),
        ("/xz", b"\xfd7zXZ\0....", "xz or bzip2"),
    ] {
        scene.registry.put_file(name, &[], bytes);
        let text = fetch_url(&scene, name, None).await.expect_err(reason).to_string();
        assert!(text.contains(reason) && !text.contains("hunter2"), "{text}");
        scene.nothing_is_left();
    }
    let error = fetch_url(&scene, "/missing", None).await.expect_err("missing");
    assert_eq!(error.code(), "NotFound");
    let error = fetch(&Source::Http { url: "ftp://x/y".into() }, &scene.options, None, &scene.dest).await;
    assert_eq!(error.expect_err("ftp").code(), "InvalidReference");
}

#[tokio::test]
async fn broken_and_endless_answers_are_handled() {
    let mut scene = Scene::new().await;
    scene.registry.put_file("/file", &[], ETCD.as_bytes());
    scene.registry.fault("/file", 1, Fault::Cut(10));
    scene.registry.fault("/file", 1, status(502));
    fetch_url(&scene, "/file", None).await.expect("fetched at the third attempt");

    fs::remove_dir_all(&scene.dest).expect("removed");
    scene.options.limits.download_bytes = 1 << 20;
    scene.registry.fault("/file", 1, Fault::Endless);
    let error = fetch_url(&scene, "/file", None).await.expect_err("endless");
    assert!(error.to_string().contains("limits.download_bytes"), "{error}");
    scene.nothing_is_left();
}

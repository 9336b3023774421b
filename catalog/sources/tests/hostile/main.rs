//! Misbehaving registries and web servers.

#![allow(clippy::panic, reason = "a test that fails panics")]

#[path = "../support/mod.rs"]
mod support;

mod copies;
mod egress;
mod faults;
mod logins;
mod pushes;
mod registry;
mod scene;
mod signatures;
mod web;

use std::fs;

use olm_catalog_sources::{Fetched, Mirror, Options, Proxy, Source, fetch};
use registry::{Fault, Registry};
use scene::{Scene, status};
use serde_json::json;
use support::{ETCD, Image, expected, files, gzip, sha256, tar};

#[tokio::test]
async fn a_poll_that_finds_nothing_new_reads_no_manifest() {
    // Given a fetched catalog
    let scene = Scene::new().await;
    let revision = scene.good().await;
    assert_eq!(revision.digest, scene.image.digest());
    scene.registry.asked();
    fs::remove_dir_all(&scene.dest).expect("removed");

    // When it is fetched again
    let again = scene.fetch("org/catalog:v1", Some(&revision)).await.expect("fetched");

    // Then one HEAD is sent
    assert_eq!(again, Fetched::Unchanged { revision: revision.clone() });
    let asked = scene.registry.asked();
    assert_eq!(asked.iter().map(|a| a.method.as_str()).collect::<Vec<_>>(), ["HEAD"]);
    scene.nothing_is_left();

    // And a digest needs no request at all
    let name = format!("org/catalog@{}", revision.digest);
    scene.fetch(&name, Some(&revision)).await.expect("fetched");
    assert!(scene.registry.asked().is_empty());
}

#[tokio::test]
async fn a_registry_without_head_is_asked_for_the_manifest() {
    let scene = Scene::new().await;
    let revision = scene.good().await;
    fs::remove_dir_all(&scene.dest).expect("removed");
    scene.registry.fault("/manifests/v1", 1, status(405));
    let again = scene.fetch("org/catalog:v1", Some(&revision)).await.expect("fetched");
    assert_eq!(again, Fetched::Unchanged { revision });
}

#[tokio::test]
async fn a_tag_that_moves_during_a_pull_gives_one_image_or_the_other() {
    // Given a tag that moves as soon as its manifest was read
    let scene = Scene::new().await;
    let next = Image::catalog("{\"schema\":\"olm.package\",\"name\":\"next\"}");
    scene.registry.fault("/manifests/v1", 1, Fault::MoveTag("v1", next.clone()));

    // When it is pulled, it is the previous image
    let revision = scene.good().await;
    assert_eq!(revision.digest, scene.image.digest());

    // And the next poll finds the other
    fs::remove_dir_all(&scene.dest).expect("removed");
    match scene.fetch("org/catalog:v1", Some(&revision)).await.expect("fetched") {
        Fetched::New { revision, .. } => assert_eq!(revision.digest, next.digest()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn indexes_and_dockers_names_are_read() {
    // Given a manifest list for several platforms, with layers under Docker's media types
    let scene = Scene::new().await;
    let mut docker: serde_json::Value = serde_json::from_slice(&scene.image.manifest).expect("JSON");
    docker["mediaType"] = json!("application/vnd.docker.distribution.manifest.v2+json");
    docker["layers"][0]["mediaType"] = json!("application/vnd.docker.image.rootfs.diff.tar.gzip");
    let docker = docker.to_string().into_bytes();
    scene.registry.push_manifest("-", "application/vnd.docker.distribution.manifest.v2+json", &docker);
    let here = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let entry = |digest: String, architecture: &str| {
        json!({"mediaType": "application/vnd.docker.distribution.manifest.v2+json", "digest": digest,
               "size": docker.len(), "platform": {"os": "linux", "architecture": architecture}})
    };
    let list = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.list.v2+json",
        "manifests": [entry(sha256(b"elsewhere"), "s390x"), entry(sha256(&docker), here)],
    })
    .to_string();
    scene.registry.push_manifest(
        "v1",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        list.as_bytes(),
    );

    // When it is pulled, the revision is the list's
    assert_eq!(scene.good().await.digest, sha256(list.as_bytes()));
}

#[tokio::test]
async fn mirrors_are_asked_in_order_and_never_trusted() {
    // Given a mirror without the image, one with damaged content, and the origin
    let mut scene = Scene::new().await;
    let (empty, damaged) = (Registry::start().await, Registry::start().await);
    damaged.push("v1", &scene.image);
    let length = scene.image.blobs[scene.layer()].len();
    damaged.fault(scene.layer(), 99, Fault::Replace(vec![0; length]));
    let host = scene.registry.host();
    scene.options.plain_http.extend([empty.host(), damaged.host()]);
    scene.options.mirrors = vec![Mirror {
        source: format!("{host}/org"),
        mirrors: vec![format!("{}/mirror", empty.host()), format!("{}/org", damaged.host())],
    }];

    // When the image is pulled, it comes complete from the origin
    scene.good().await;
    assert_eq!(empty.asked()[0].path, "/v2/mirror/catalog/manifests/v1");

    // And when no place has it, every place has its error
    fs::remove_dir_all(&scene.dest).expect("removed");
    scene.registry.fault("/manifests/", 99, status(503));
    let error = scene.bad().await;
    let text = error.to_string();
    assert_eq!(error.code(), "NoPlaceAnswered");
    for part in
        [empty.host(), damaged.host(), host, "503".to_owned(), "not found".to_owned(), "digest".to_owned()]
    {
        assert!(text.contains(&part), "{part} in {text}");
    }
}

#[tokio::test]
async fn a_proxy_is_used_unless_the_host_is_excepted() {
    // Given a registry that is only reachable through a proxy, played by the registry itself
    let mut scene = Scene::new().await;
    scene.options.plain_http = vec!["registry.invalid".to_owned()];
    let url = format!("http://{}", scene.registry.host());
    let source = Source::Image { reference: "registry.invalid/org/catalog:v1".to_owned() };
    scene.options.proxy = Proxy::Through { url: url.clone(), except: String::new() };
    fetch(&source, &scene.options, None, &scene.dest).await.expect("fetched through the proxy");

    // When it is excepted, it is requested directly, and not found
    fs::remove_dir_all(&scene.dest).expect("removed");
    scene.options.proxy = Proxy::Through { url, except: "registry.invalid".to_owned() };
    scene.options.timeouts.attempts = 1;
    let error = fetch(&source, &scene.options, None, &scene.dest).await.expect_err("no such host");
    assert_eq!(error.code(), "Unavailable");
}

#[tokio::test]
async fn a_server_without_tls_is_reported_at_the_first_attempt() {
    // Given a registry that is not listed as one without TLS
    let mut scene = Scene::new().await;
    scene.options.plain_http.clear();

    // When it is read, the error names the reason, and a retry is not worth it
    let error = scene.bad().await;
    assert_eq!(error.code(), "ServerWithoutTls", "{error}");
    assert!(error.is_without_tls() && !error.is_transient(), "{error}");
    assert!(error.to_string().ends_with("the server does not use TLS"), "{error}");
}

#[tokio::test]
async fn a_fetch_that_is_cancelled_leaves_nothing() {
    // Given a fetch in the middle of a layer
    let scene = Scene::new().await;
    scene.registry.fault(scene.layer(), 1, Fault::Hang);
    let fetching = scene.fetch("org/catalog:v1", None);

    // When it is dropped
    tokio::select! {
        result = fetching => panic!("{result:?}"),
        () = scene.registry.hanging.notified() => {}
    }

    // Then the directory is unchanged
    scene.nothing_is_left();
}

#[tokio::test]
async fn what_a_killed_process_left_is_removed() {
    let scene = Scene::new().await;
    fs::create_dir_all(scene.folder.path().join(".catalog.fetch-dead/files/x")).expect("a folder");
    scene.good().await;
    assert_eq!(fs::read_dir(scene.folder.path()).expect("read").count(), 1);
}

#[tokio::test]
async fn a_destination_that_is_full_is_not_touched() {
    let scene = Scene::new().await;
    scene.good().await;
    scene.registry.asked();
    let error = scene.fetch("org/catalog:v1", None).await.expect_err("full");
    assert!(error.to_string().contains("not empty"), "{error}");
    assert!(scene.registry.asked().is_empty());
    assert_eq!(files(&scene.dest), expected(&[("etcd/catalog.json", ETCD)]));
}

#[tokio::test]
async fn non_catalog_images_are_identified() {
    let database = "operators.operatorframework.io.index.database.v1";
    let bundle = "operators.operatorframework.io.bundle.manifests.v1";
    for (label, reason) in [
        (database, "SQLite"),
        (bundle, "found a bundle, expected a catalog"),
        ("other", "no files in /configs"),
    ] {
        let scene = Scene::new().await;
        scene.registry.push("v1", &Image::new(&[(label, "x")], &[gzip(&tar(&[("bin/x", "x")]))]));
        let text = scene.bad().await.to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn an_image_that_escapes_leaves_nothing() {
    let scene = Scene::new().await;
    let mut layer = tar(&[("configs/a.json", ETCD), ("configs/bb/passwd", "x")]);
    // The second header, with its name leading out and its checksum corrected.
    let at = 1024;
    layer[at..at + 17].copy_from_slice(b"configs/../passwd");
    layer[at + 148..at + 156].copy_from_slice(b"        ");
    let sum: u32 = layer[at..at + 512].iter().map(|b| u32::from(*b)).sum();
    layer[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    scene.registry.push("v1", &Image::new(&[], &[layer]));
    let error = scene.bad().await;
    assert_eq!(error.code(), "UnsafeArchive");
    assert!(error.to_string().contains("configs/../passwd"), "{error}");
}

/// Callers spawn them.
#[test]
fn futures_can_be_sent() {
    fn sent<T: Send>(_: T) {}
    let (source, options) = (Source::Http { url: String::new() }, Options::default());
    sent(fetch(&source, &options, None, "x".as_ref()));
    sent(olm_catalog_sources::bundle(&source, &options, "x".as_ref()));
    sent(olm_catalog_sources::copy_image("x", &options, "x".as_ref()));
}

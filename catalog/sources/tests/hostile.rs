//! Registries and web servers at their worst.

#[path = "support/registry.rs"]
mod registry;
mod support;

use std::{fs, path::PathBuf, time::Duration};

use olm_catalog_sources::{
    Credentials, Fetched, Limits, Mirror, Options, Proxy, Revision, Source, SourceError, fetch,
};
use registry::{Fault, Registry};
use serde_json::json;
use support::{ETCD, Image, expected, files, gzip, options, sha256, tar};
use tempfile::TempDir;

/// A registry with a catalog in it, and a place to fetch it to.
struct Scene {
    registry: Registry,
    image: Image,
    options: Options,
    folder: TempDir,
    dest: PathBuf,
}

impl Scene {
    async fn new() -> Self {
        let registry = Registry::start().await;
        let image = Image::catalog(ETCD);
        registry.push("v1", &image);
        let folder = TempDir::new().expect("a folder");
        let dest = folder.path().join("catalog");
        Self { options: options(&registry.host()), registry, image, folder, dest }
    }

    fn source(&self, name: &str) -> Source {
        Source::Image { reference: format!("{}/{name}", self.registry.host()) }
    }

    fn layer(&self) -> &str {
        &self.image.layers[0]
    }

    async fn fetch(&self, name: &str, previous: Option<&Revision>) -> Result<Fetched, SourceError> {
        fetch(&self.source(name), &self.options, previous, &self.dest).await
    }

    /// Fetches what must be there, and looks at it.
    async fn good(&self) -> Revision {
        match self.fetch("org/catalog:v1", None).await.expect("fetched") {
            Fetched::New { revision, .. } => {
                assert_eq!(files(&self.dest), expected(&[("etcd/catalog.json", ETCD)]));
                revision
            }
            other => panic!("{other:?}"),
        }
    }

    /// Fetches what must not be, and makes sure that nothing is left of it.
    async fn bad(&self) -> SourceError {
        let error = self.fetch("org/catalog:v1", None).await.expect_err("failed");
        self.nothing_is_left();
        error
    }

    fn nothing_is_left(&self) {
        let left: Vec<_> = fs::read_dir(self.folder.path()).expect("read").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    fn asked_for(&self, part: &str) -> usize {
        self.registry.asked().iter().filter(|asked| asked.path.contains(part)).count()
    }
}

fn status(code: u16) -> Fault {
    Fault::Status(code, Vec::new())
}

fn login(host: &str, user: &str, password: &str) -> Credentials {
    let mut credentials = Credentials::default();
    let document = json!({"auths": {host: {"username": user, "password": password}}}).to_string();
    credentials.add("secret olm/pull", document.as_bytes()).expect("a config");
    credentials
}

#[tokio::test]
async fn a_poll_that_finds_nothing_new_reads_no_manifest() {
    // Given a catalog that was fetched
    let scene = Scene::new().await;
    let revision = scene.good().await;
    assert_eq!(revision.digest, scene.image.digest());
    scene.registry.asked();
    fs::remove_dir_all(&scene.dest).expect("removed");

    // When it is asked for again
    let again = scene.fetch("org/catalog:v1", Some(&revision)).await.expect("fetched");

    // Then one HEAD tells
    assert_eq!(again, Fetched::Unchanged { revision: revision.clone() });
    let asked = scene.registry.asked();
    assert_eq!(asked.iter().map(|a| a.method.as_str()).collect::<Vec<_>>(), ["HEAD"]);
    scene.nothing_is_left();

    // And a digest needs no question at all
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

    // When it is pulled, it is the image of before
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
    // Given a manifest list for several machines, with layers by Docker's names
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
async fn a_bearer_token_is_fetched_with_the_matching_login() {
    // Given a registry that sends everybody to a token service
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    let challenge = format!("Bearer realm=\"http://{host}/token?old=1\",service=\"reg\"");
    scene.registry.guard("Bearer good-token", &challenge);
    scene.registry.put_file("/token", &[], b"{\"token\":\"good-token\"}");
    scene.options.credentials = login(&host, "bob", "hunter2");

    // When the catalog is pulled
    scene.good().await;

    // Then the service got the log-in and the scope, and was asked once
    let asked = scene.registry.asked();
    let tokens: Vec<_> = asked.iter().filter(|a| a.path.starts_with("/token")).collect();
    assert_eq!(tokens.len(), 1);
    assert_eq!(tokens[0].path, "/token?old=1&service=reg&scope=repository%3Aorg%2Fcatalog%3Apull");
    assert_eq!(tokens[0].authorization.as_deref(), Some("Basic Ym9iOmh1bnRlcjI="));
}

#[tokio::test]
async fn an_identity_token_is_exchanged() {
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Bearer good-token", &format!("Bearer realm=\"http://{host}/token\""));
    scene.registry.put_file("/token", &[], b"{\"access_token\":\"good-token\"}");
    let document = json!({"auths": {host: {"identitytoken": "refresh"}}}).to_string();
    scene.options.credentials.add("file", document.as_bytes()).expect("a config");
    scene.good().await;
    assert!(scene.registry.asked().iter().any(|a| a.method == "POST" && a.path == "/token"));
}

#[tokio::test]
async fn a_token_that_expires_is_fetched_again() {
    let scene = Scene::new().await;
    let host = scene.registry.host();
    let challenge = format!("Bearer realm=\"http://{host}/token\"");
    scene.registry.guard("Bearer good-token", &challenge);
    scene.registry.put_file("/token", &[], b"{\"token\":\"good-token\"}");
    // The fault comes after the guard: a good token that has just expired.
    scene.registry.fault(scene.layer(), 1, Fault::Status(401, vec![("www-authenticate", challenge)]));
    scene.good().await;
    assert_eq!(scene.asked_for("/token"), 2);
}

#[tokio::test]
async fn a_login_that_is_refused_is_named_and_its_secret_is_not() {
    // Given a registry that knows nobody
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Basic nobody", "Basic realm=\"x\"");
    scene.options.credentials = login(&host, "bob", "hunter2");

    // When somebody comes
    let error = scene.bad().await;

    // Then the message says who it was, and the attempt is made once
    let text = error.to_string();
    assert_eq!(error.code(), "AccessDenied");
    assert!(text.contains(&format!("secret olm/pull, entry {host} (user bob)")), "{text}");
    assert!(text.contains("log in first"), "{text}");
    assert!(!format!("{error:?}").contains("hunter2"), "{text}");
    assert_eq!(scene.asked_for("/manifests/"), 2, "one without and one with the log-in");
}

#[tokio::test]
async fn without_a_login_the_message_says_what_to_add() {
    let scene = Scene::new().await;
    scene.registry.guard("Basic nobody", "Basic realm=\"x\"");
    let text = scene.bad().await.to_string();
    assert!(text.contains("no credentials match") && text.contains("add a pull secret"), "{text}");
}

#[tokio::test]
async fn logins_are_tried_in_order_until_one_is_right() {
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Basic Ym9iOmh1bnRlcjI=", "Basic realm=\"x\"");
    let document = json!({"auths": {
        format!("{host}/org/catalog"): {"username": "eve", "password": "wrong"},
        &host: {"username": "bob", "password": "hunter2"},
    }});
    scene.options.credentials.add("file", document.to_string().as_bytes()).expect("a config");
    scene.good().await;
}

#[tokio::test]
async fn a_password_does_not_travel_in_the_clear() {
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Bearer x", "Bearer realm=\"ftp://tokens.example.com/\"");
    scene.options.credentials = login(&host, "bob", "hunter2");
    let text = scene.bad().await.to_string();
    assert!(text.contains("in the clear"), "{text}");
}

#[tokio::test]
async fn a_registry_that_is_busy_is_asked_again() {
    let scene = Scene::new().await;
    scene.registry.fault("/manifests/", 2, Fault::Status(429, vec![("retry-after", "0".to_owned())]));
    scene.registry.fault("/blobs/", 2, status(503));
    scene.good().await;
    assert_eq!(scene.asked_for("/manifests/"), 3);
}

#[tokio::test]
async fn patience_ends_with_the_last_reason() {
    let scene = Scene::new().await;
    scene.registry.fault("/manifests/", 99, status(503));
    let error = scene.bad().await;
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(
        text.contains("after 3 attempts") && text.contains("503") && text.contains("TEST: a fault"),
        "{text}"
    );
    assert_eq!(scene.asked_for("/manifests/"), 3);
}

#[tokio::test]
async fn what_is_not_there_is_asked_for_once() {
    for code in [404, 403, 400] {
        let scene = Scene::new().await;
        scene.registry.fault("/manifests/", 99, status(code));
        let error = scene.bad().await;
        assert!(!error.is_transient(), "{error}");
        assert_eq!(scene.asked_for("/manifests/"), 1, "{error}");
    }
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_broke() {
    let scene = Scene::new().await;
    scene.registry.fault(scene.layer(), 1, Fault::Cut(20));
    scene.good().await;
    let ranges: Vec<_> = scene.registry.asked().into_iter().filter_map(|a| a.range).collect();
    assert_eq!(ranges, ["bytes=20-"]);
}

#[tokio::test]
async fn a_broken_download_starts_over_where_ranges_are_unknown() {
    let scene = Scene::new().await;
    scene.registry.without_ranges();
    scene.registry.fault(scene.layer(), 2, Fault::Cut(20));
    scene.good().await;
}

#[tokio::test]
async fn a_blob_that_is_always_cut_off_says_where() {
    let scene = Scene::new().await;
    scene.registry.without_ranges();
    scene.registry.fault(scene.layer(), 99, Fault::Cut(20));
    let text = scene.bad().await.to_string();
    assert!(text.contains("cut off after 20 of") && text.contains("3 attempts"), "{text}");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    for fault in [Fault::Hang, Fault::Stall(10)] {
        let mut scene = Scene::new().await;
        scene.options.patience.read_timeout = Duration::from_millis(100);
        scene.registry.fault(scene.layer(), 99, fault);
        let error = scene.bad().await;
        assert!(error.is_transient() && error.to_string().contains("3 attempts"), "{error}");
    }
}

#[tokio::test]
async fn wrong_content_is_never_taken() {
    // Given other content of the same length behind a digest, and of another length
    let scene = Scene::new().await;
    let length = scene.image.blobs[scene.layer()].len();
    scene.registry.fault(scene.layer(), 1, Fault::Replace(vec![0; length]));
    let error = scene.bad().await;
    assert_eq!(error.code(), "DigestMismatch");
    assert_eq!(scene.asked_for(scene.layer()), 1, "asking again would not help");

    scene.registry.fault(scene.layer(), 1, Fault::Replace(vec![0; length + 1]));
    assert!(scene.bad().await.to_string().contains("longer than"));

    // And other content behind a manifest's digest
    let name = format!("org/catalog@{}", scene.image.digest());
    scene.registry.fault("/manifests/", 1, Fault::Replace(Image::catalog("other").manifest));
    let error = scene.fetch(&name, None).await.expect_err("failed");
    assert_eq!(error.code(), "DigestMismatch");
}

#[tokio::test]
async fn nothing_is_read_without_an_end() {
    let mut scene = Scene::new().await;
    scene.options.limits = Limits { manifest_bytes: 100_000, ..Limits::default() };
    scene.registry.fault("/manifests/", 1, Fault::Endless);
    let text = scene.bad().await.to_string();
    assert!(text.contains("raise `limits.manifest_bytes`"), "{text}");

    scene.registry.fault("/manifests/", 1, Fault::Replace(vec![b' '; 200_000]));
    assert_eq!(scene.bad().await.code(), "LimitExceeded");

    scene.registry.fault(scene.layer(), 1, Fault::Endless);
    assert!(scene.bad().await.to_string().contains("longer than"));

    // An error page without an end is not read either
    scene.registry.fault("/token", 1, Fault::Endless);
    scene.registry.guard("Bearer x", &format!("Bearer realm=\"http://{}/token\"", scene.registry.host()));
    assert_eq!(scene.bad().await.code(), "LimitExceeded");
}

#[tokio::test]
async fn sizes_are_limited_before_anything_is_downloaded() {
    let mut scene = Scene::new().await;
    scene.options.limits.download_bytes = 50;
    let text = scene.bad().await.to_string();
    assert!(text.contains("limits.download_bytes"), "{text}");
    assert_eq!(scene.asked_for("/blobs/"), 0);
}

#[tokio::test]
async fn blobs_may_be_elsewhere_but_secrets_stay() {
    // Given a registry that keeps its blobs on another server
    let mut scene = Scene::new().await;
    let store = Registry::start().await;
    let path = format!("/{}", scene.layer());
    store.put_file(&path, &[], &scene.image.blobs[scene.layer()]);
    scene.options.plain_http.push(store.host());
    scene.registry.guard("Basic Ym9iOmh1bnRlcjI=", "Basic realm=\"x\"");
    scene.options.credentials = login(&scene.registry.host(), "bob", "hunter2");
    // The store is reached by another host name, as it would be.
    let location = format!("http://localhost:{}{path}", store.address.port());
    scene.registry.fault(scene.layer(), 1, Fault::Status(307, vec![("location", location)]));

    // When it is pulled
    scene.good().await;

    // Then the store saw no log-in
    let asked = store.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].authorization, None);
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let scene = Scene::new().await;
    let location = format!("http://{}/v2/org/catalog/manifests/v1", scene.registry.host());
    scene.registry.fault("/manifests/", 99, Fault::Status(302, vec![("location", location)]));
    let text = scene.bad().await.to_string();
    assert!(text.contains("too many redirects"), "{text}");
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

    // When the image is pulled, it comes whole from the origin
    scene.good().await;
    assert_eq!(empty.asked()[0].path, "/v2/mirror/catalog/manifests/v1");

    // And when nobody has it, every place has its reason
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
    // Given a registry that can only be reached through a proxy, played by the registry itself
    let mut scene = Scene::new().await;
    scene.options.plain_http = vec!["registry.invalid".to_owned()];
    let url = format!("http://{}", scene.registry.host());
    let source = Source::Image { reference: "registry.invalid/org/catalog:v1".to_owned() };
    scene.options.proxy = Proxy::Through { url: url.clone(), except: String::new() };
    fetch(&source, &scene.options, None, &scene.dest).await.expect("fetched through the proxy");

    // When it is excepted, it is looked for directly, and not found
    fs::remove_dir_all(&scene.dest).expect("removed");
    scene.options.proxy = Proxy::Through { url, except: "registry.invalid".to_owned() };
    scene.options.patience.attempts = 1;
    let error = fetch(&source, &scene.options, None, &scene.dest).await.expect_err("no such host");
    assert_eq!(error.code(), "Unavailable");
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

    // Then the folder is as it was
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
    assert!(error.to_string().contains("it is not empty"), "{error}");
    assert!(scene.registry.asked().is_empty());
    assert_eq!(files(&scene.dest), expected(&[("etcd/catalog.json", ETCD)]));
}

#[tokio::test]
async fn images_of_another_sort_are_told_apart() {
    let database = "operators.operatorframework.io.index.database.v1";
    let bundle = "operators.operatorframework.io.bundle.manifests.v1";
    for (label, reason) in
        [(database, "SQLite"), (bundle, "it is a bundle"), ("other", "has no file in /configs")]
    {
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
    // The second header, with its name made a way out and its sum made right.
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

mod web {
    use super::*;

    async fn fetch_url(
        scene: &Scene,
        path: &str,
        previous: Option<&Revision>,
    ) -> Result<Fetched, SourceError> {
        let url = format!("http://bob:hunter2@{}{path}", scene.registry.host());
        fetch(&Source::Http { url }, &scene.options, previous, &scene.dest).await
    }

    fn revision(fetched: Fetched) -> Revision {
        match fetched {
            Fetched::New { revision, .. } => revision,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_catalog_is_read_once_per_etag() {
        // Given catalogd's way of serving
        let scene = Scene::new().await;
        let all = "/catalogs/x/api/v1/all";
        scene.registry.put_file(
            all,
            &[("etag", "\"1\""), ("content-encoding", "gzip")],
            &gzip(ETCD.as_bytes()),
        );

        // When it is fetched
        let first = revision(fetch_url(&scene, all, None).await.expect("fetched"));

        // Then the content is there, and the next fetch is a question
        assert_eq!(files(&scene.dest), expected(&[("catalog.json", ETCD)]));
        assert_eq!(first.etag.as_deref(), Some("\"1\""));
        fs::remove_dir_all(&scene.dest).expect("removed");
        let again = fetch_url(&scene, all, Some(&first)).await.expect("fetched");
        assert_eq!(again, Fetched::Unchanged { revision: first.clone() });

        // And the same content by a new name is no news
        scene.registry.put_file(
            all,
            &[("etag", "\"2\""), ("content-encoding", "gzip")],
            &gzip(ETCD.as_bytes()),
        );
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
            (vec![], support::zstd(ETCD.as_bytes()), expected(&[("catalog.json", ETCD)])),
        ] {
            let scene = Scene::new().await;
            scene.registry.put_file("/file", &headers, &bytes);
            fetch_url(&scene, "/file", None).await.expect("fetched");
            assert_eq!(files(&scene.dest), found);
        }
    }

    #[tokio::test]
    async fn what_is_no_catalog_is_told_apart() {
        let scene = Scene::new().await;
        for (name, bytes, reason) in [
            ("/page", &b"<!DOCTYPE html><p>log in"[..], "it is a web page"),
            ("/nothing", b"", "it is empty"),
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
}

mod copies {
    use olm_catalog_sources::copy_image;

    use super::*;

    #[tokio::test]
    async fn a_copy_goes_on_where_it_stopped_and_is_listed_when_it_is_whole() {
        // Given a registry that breaks down after the layer
        let scene = Scene::new().await;
        let config =
            scene.image.blobs.keys().find(|digest| *digest != scene.layer()).expect("a configuration");
        scene.registry.fault(config, 3, status(503));
        let (name, layout) = (format!("{}/org/catalog:v1", scene.registry.host()), scene.dest.clone());
        let error = copy_image(&name, &scene.options, &layout).await.expect_err("broken");
        assert!(error.is_transient(), "{error}");
        assert!(!layout.join("index.json").exists());
        scene.registry.asked();

        // When it is copied again
        let revision = copy_image(&name, &scene.options, &layout).await.expect("copied");

        // Then the layer did not come twice, and the copy can be read by the same name
        assert_eq!(scene.asked_for(scene.layer()), 0);
        let source = Source::OciLayout { path: layout.clone(), reference: Some(name.clone()) };
        let read = scene.folder.path().join("read");
        match fetch(&source, &scene.options, None, &read).await.expect("read") {
            Fetched::New { revision: copied, .. } => assert_eq!(copied, revision),
            other => panic!("{other:?}"),
        }
        assert_eq!(files(&read), expected(&[("etcd/catalog.json", ETCD)]));

        // And a newer image takes its place in the list
        scene.registry.push("v1", &Image::catalog("{}"));
        let newer = copy_image(&name, &scene.options, &layout).await.expect("copied");
        let index = fs::read_to_string(layout.join("index.json")).expect("an index");
        assert!(index.contains(&newer.digest) && !index.contains(&revision.digest), "{index}");
    }
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

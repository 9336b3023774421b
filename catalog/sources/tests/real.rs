//! A real registry (Debian's `docker-registry`) and an independent client (`skopeo`).

#![allow(clippy::panic, reason = "a test that fails panics")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use olm_catalog_sources::{
    Credentials, Fetched, Options, Source, bundle, copy_image, fetch, pin_image, push_image,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use support::{CONFIGS, ETCD, Image, expected, files, options, tar};
use tempfile::TempDir;

/// `secret`, as `htpasswd -B` would write it.
const HASH: &str = "$2b$04$HpFBDTf/270Met6Hu3y9EeghWq6EBpCt4YBDUIpOye6Q43OcW62We";

/// A registry of one test, stopped when it is dropped.
struct Server {
    process: Child,
    host: String,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts it on a free port, or prints why not. `http` and `auth` are part of its configuration.
    fn start(test: &str, prepare: impl FnOnce(&Path) -> (String, String)) -> Option<Self> {
        for tool in ["docker-registry", "skopeo"] {
            if Command::new(tool)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_err()
            {
                println!("skipped: {test}: {tool} is not installed");
                return None;
            }
        }
        let folder = TempDir::new().expect("a folder");
        let (http, auth) = prepare(folder.path());
        let config = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http:\n  addr: 127.0.0.1:0\n{http}{auth}",
            folder.path().join("data").display()
        );
        let path = folder.path().join("config.yml");
        fs::write(&path, config).expect("a configuration");
        let mut process = Command::new("docker-registry")
            .args(["serve".as_ref(), path.as_os_str()])
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        // It logs its port.
        let mut log = BufReader::new(process.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let mut seen = String::new();
        let port = log.by_ref().find_map(|line| {
            seen.push_str(&line);
            let (_, rest) = line.split_once("listening on 127.0.0.1:")?;
            Some(rest.chars().take_while(char::is_ascii_digit).collect::<String>())
        });
        // The log must be read, or the process blocks on a full pipe.
        std::thread::spawn(move || log.for_each(drop));
        let port = port.unwrap_or_else(|| panic!("docker-registry did not start: {seen}"));
        Some(Self { process, host: format!("127.0.0.1:{port}"), folder })
    }

    fn plain(test: &str) -> Option<Self> {
        Self::start(test, |_| (String::new(), String::new()))
    }

    fn image(&self, name: &str) -> Source {
        Source::Image { reference: format!("{}/{name}", self.host) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Number of blobs with a compression.
    fn blobs_that_start_with(&self, magic: &[u8]) -> usize {
        files(&self.path("data")).values().filter(|content| content.starts_with(magic)).count()
    }

    /// Pushes an image by an OCI layout; returns the digest in the registry.
    fn push(&self, image: &Image, name: &str, more: &[&str]) -> String {
        let (layout, digest) =
            (self.path(&format!("push-{}", name.replace(['/', ':'], "-"))), self.path("digest"));
        image.write_layout(&layout, "v1");
        let from = format!("oci:{}:v1", layout.display());
        let to = format!("docker://{}/{name}", self.host);
        let digest_file = digest.display().to_string();
        skopeo(&[&["copy", "--digestfile", &digest_file], more, &[&from, &to]].concat());
        fs::read_to_string(digest).expect("a digest").trim().to_owned()
    }
}

fn skopeo(arguments: &[&str]) {
    let out = Command::new("skopeo").arg("--insecure-policy").args(arguments).output().expect("run");
    assert!(out.status.success(), "skopeo {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
}

const PLAIN: &[&str] = &["--dest-tls-verify=false"];

/// A catalog in two layers that differ: the upper one removes and replaces.
fn catalog() -> Image {
    let below = tar(&[
        ("configs/etcd/catalog.json", "old"),
        ("configs/gone/catalog.json", "gone"),
        ("usr/bin/opm", "program"),
    ]);
    let above = tar(&[
        ("configs/etcd/catalog.json", ETCD),
        ("configs/.wh.gone", ""),
        ("configs/.indexignore", "*.md"),
        ("tmp/cache/x", "cache"),
    ]);
    Image::new(&[(CONFIGS, "/configs")], &[below, above])
}

fn catalog_files() -> std::collections::BTreeMap<String, Vec<u8>> {
    expected(&[("etcd/catalog.json", ETCD), (".indexignore", "*.md")])
}

async fn fetched(source: &Source, options: &Options, dest: &Path) -> (String, usize) {
    match fetch(source, options, None, dest).await.expect("fetched") {
        Fetched::New { revision, image, .. } => (revision.digest, image.labels.len()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_catalog_is_pulled_by_tag_and_digest_and_polled() {
    // Given a catalog pushed by skopeo, with layers in either compression; in separate registries, as it
    // would reuse existing layers
    for format in ["gzip", "zstd"] {
        let test = "a_catalog_is_pulled_by_tag_and_digest_and_polled";
        let Some(server) = Server::plain(test) else { return };
        let name = format!("org/catalog-{format}");
        let tag = format!("{name}:v1");
        let digest = server.push(&catalog(), &tag, &[PLAIN, &["--dest-compress-format", format]].concat());
        let options = options(&server.host);
        let magic: &[u8] = if format == "zstd" { &[0x28, 0xb5, 0x2f, 0xfd] } else { &[0x1f, 0x8b] };
        assert_eq!(server.blobs_that_start_with(magic), 2, "skopeo did not use the requested compression");

        // When it is pulled by tag
        let dest = server.path(&format!("by-tag-{format}"));
        let (revision, labels) = fetched(&server.image(&tag), &options, &dest).await;

        // Then it is the pushed content
        assert_eq!((revision.as_str(), labels), (digest.as_str(), 1));
        assert_eq!(files(&dest), catalog_files());

        // And by digest it is the same, and a poll finds no change
        let dest = server.path(&format!("by-digest-{format}"));
        let by_digest = server.image(&format!("{name}@{digest}"));
        assert_eq!(fetched(&by_digest, &options, &dest).await.0, digest);
        assert_eq!(files(&dest), catalog_files());
        let previous = olm_catalog_sources::Revision { digest, etag: None };
        let dest = server.path("poll");
        let again = fetch(&server.image(&tag), &options, Some(&previous), &dest).await.expect("asked");
        assert_eq!(again, Fetched::Unchanged { revision: previous });
        assert!(!dest.exists());
    }
}

#[tokio::test]
async fn what_skopeo_writes_of_it_is_read_too() {
    // Given a catalog in a registry
    let Some(server) = Server::plain("what_skopeo_writes_of_it_is_read_too") else { return };
    let digest = server.push(&catalog(), "org/catalog:v1", PLAIN);
    let from = format!("docker://{}/org/catalog:v1", server.host);
    let options = options(&server.host);
    for (transport, name, more) in [
        ("oci", "layout", ":v1"),
        ("oci-archive", "oci.tar", ":v1"),
        ("docker-archive", "docker.tar", ":org/catalog:v1"),
    ] {
        // When skopeo copies it to a file or a folder
        let path = server.path(name);
        let to = format!("{transport}:{}{more}", path.display());
        skopeo(&["copy", "--src-tls-verify=false", &from, &to]);
        let source = match transport {
            "oci" => Source::OciLayout { path: path.clone(), reference: Some("v1".to_owned()) },
            _ => Source::Tarball { path: path.clone() },
        };

        // Then it is the same catalog
        let dest = server.path(&format!("from-{transport}"));
        let (revision, labels) = fetched(&source, &options, &dest).await;
        assert_eq!(files(&dest), catalog_files(), "{transport}");
        assert_eq!(labels, 1, "{transport}");
        if transport == "oci" {
            assert_eq!(revision, digest);
        }
    }
}

#[tokio::test]
async fn what_is_copied_here_skopeo_reads() {
    // Given an image that was copied into a layout
    let Some(server) = Server::plain("what_is_copied_here_skopeo_reads") else { return };
    let digest = server.push(&catalog(), "org/catalog:v1", PLAIN);
    let name = format!("{}/org/catalog:v1", server.host);
    let layout = server.path("mirror");
    let revision = copy_image(&name, &options(&server.host), &layout).await.expect("copied").revision;
    assert_eq!(revision.digest, digest);

    // When skopeo pushes it to another name
    let from = format!("oci:{}:{name}", layout.display());
    let to = format!("docker://{}/other/catalog:v1", server.host);
    skopeo(&["copy", "--dest-tls-verify=false", &from, &to]);

    // Then it is the same image
    let dest = server.path("other");
    let (revision, _) = fetched(&server.image("other/catalog:v1"), &options(&server.host), &dest).await;
    assert_eq!(revision, digest);
    assert_eq!(files(&dest), catalog_files());
}

#[tokio::test]
async fn a_bundle_is_pulled() {
    let Some(server) = Server::plain("a_bundle_is_pulled") else { return };
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n";
    let image = Image::new(
        &[("operators.operatorframework.io.bundle.manifests.v1", "manifests/")],
        &[
            tar(&[("manifests/csv.yaml", "kind: ClusterServiceVersion\n"), ("root/x", "no")]),
            tar(&[
                ("metadata/annotations.yaml", annotations),
                ("tests/scorecard/config.yaml", "stages: []\n"),
            ]),
        ],
    );
    server.push(&image, "org/bundle:v1", PLAIN);
    let dest = server.path("bundle");
    bundle(&server.image("org/bundle:v1"), &options(&server.host), &dest).await.expect("pulled");
    assert_eq!(
        files(&dest),
        expected(&[
            ("manifests/csv.yaml", "kind: ClusterServiceVersion\n"),
            ("metadata/annotations.yaml", annotations),
            ("tests/scorecard/config.yaml", "stages: []\n"),
        ])
    );
}

#[tokio::test]
async fn docker_schema_two_is_read() {
    let Some(server) = Server::plain("docker_schema_two_is_read") else { return };
    server.push(&catalog(), "org/catalog:v2s2", &[PLAIN, &["--format", "v2s2"]].concat());
    let dest = server.path("dest");
    fetched(&server.image("org/catalog:v2s2"), &options(&server.host), &dest).await;
    assert_eq!(files(&dest), catalog_files());
}

#[tokio::test]
async fn a_private_registry_takes_the_pull_secret() {
    // Given a registry with a password
    let Some(server) = Server::start("a_private_registry_takes_the_pull_secret", |folder| {
        let path = folder.join("htpasswd");
        fs::write(&path, format!("olm:{HASH}\n")).expect("htpasswd");
        (String::new(), format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", path.display()))
    }) else {
        return;
    };
    server.push(&catalog(), "org/catalog:v1", &[PLAIN, &["--dest-creds", "olm:secret"]].concat());
    let mut options = options(&server.host);
    let (source, dest) = (server.image("org/catalog:v1"), server.path("dest"));

    // When it is pulled without, with the wrong, and with the right one
    let anonymous = fetch(&source, &options, None, &dest).await.expect_err("denied");
    let secret = |password: &str| {
        json!({"auths": {&server.host: {"username": "olm", "password": password}}}).to_string().into_bytes()
    };
    options.credentials.add("secret a", &secret("wrong")).expect("a config");
    let wrong = fetch(&source, &options, None, &dest).await.expect_err("denied");
    options.credentials = Credentials::default();
    options.credentials.add("secret b", &secret("secret")).expect("a config");
    fetched(&source, &options, &dest).await;

    // Then the messages name the case
    assert!(anonymous.to_string().contains("no credentials for"), "{anonymous}");
    assert!(wrong.to_string().contains("tried secret a"), "{wrong}");
    assert_eq!(files(&dest), catalog_files());
}

/// `openssl req -x509`: curl and skopeo accept it as its own authority, too.
#[tokio::test]
async fn a_self_signed_certificate_is_trusted_when_it_is_given() {
    let name = "a_self_signed_certificate_is_trusted_when_it_is_given";
    let Some(server) = Server::start(name, |folder| {
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1", "-out"])
            .args([&certificate, Path::new("-keyout"), &key])
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("openssl is installed").success());
        fs::create_dir(folder.join("certs")).expect("a folder");
        fs::copy(&certificate, folder.join("certs/ca.crt")).expect("a file");
        let tls = format!("  tls: {{certificate: {}, key: {}}}\n", certificate.display(), key.display());
        (tls, String::new())
    }) else {
        return;
    };
    let certs = server.path("certs").display().to_string();
    server.push(&catalog(), "org/catalog:v1", &["--dest-cert-dir", &certs]);
    let (source, dest) = (server.image("org/catalog:v1"), server.path("dest"));
    let stranger = Options { plain_http: Vec::new(), ..options(&server.host) };
    let error = fetch(&source, &stranger, None, &dest).await.expect_err("not trusted");
    assert_eq!(error.code(), "CertificateNotTrusted", "{error}");
    assert!(error.to_string().contains("self-signed"), "{error}");

    let own = fs::read(server.path("tls.crt")).expect("a file");
    let knowing = Options { ca_certificates: vec![own], ..stranger };
    fetched(&source, &knowing, &dest).await;
    assert_eq!(files(&dest), catalog_files());
}

#[tokio::test]
async fn a_private_authority_is_trusted_when_it_is_given() {
    // Given a registry with a certificate of an unknown authority
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .expect("a name")
        .signed_by(&key, &authority)
        .expect("a certificate");
    let Some(server) = Server::start("a_private_authority_is_trusted_when_it_is_given", |folder| {
        let (certificate_path, key_path) = (folder.join("tls.crt"), folder.join("tls.key"));
        fs::write(&certificate_path, certificate.pem()).expect("a file");
        fs::write(&key_path, key.serialize_pem()).expect("a file");
        fs::create_dir(folder.join("certs")).expect("a folder");
        fs::write(folder.join("certs/ca.crt"), authority.pem()).expect("a file");
        let tls =
            format!("  tls: {{certificate: {}, key: {}}}\n", certificate_path.display(), key_path.display());
        (tls, String::new())
    }) else {
        return;
    };
    let certs = server.path("certs").display().to_string();
    server.push(&catalog(), "org/catalog:v1", &["--dest-cert-dir", &certs]);
    let (source, dest) = (server.image("org/catalog:v1"), server.path("dest"));
    let stranger = Options { plain_http: Vec::new(), ..options(&server.host) };

    // When a client without that authority pulls
    let error = fetch(&source, &stranger, None, &dest).await.expect_err("not trusted");

    // Then the error is immediate
    assert_eq!(error.code(), "CertificateNotTrusted", "{error}");

    // And with the authority, or without verification, it is read
    let knowing = Options { ca_certificates: vec![authority.pem().into_bytes()], ..stranger.clone() };
    fetched(&source, &knowing, &dest).await;
    assert_eq!(files(&dest), catalog_files());
    let blind = Options { skip_tls_verify: vec![server.host.clone()], ..stranger.clone() };
    fetched(&source, &blind, &server.path("blind")).await;

    // And an invalid certificate is rejected
    let broken = Options { ca_certificates: vec![b"no PEM".to_vec()], ..stranger };
    let error = fetch(&source, &broken, None, &server.path("broken")).await.expect_err("refused");
    assert_eq!(error.code(), "InvalidOptions", "{error}");
}

#[tokio::test]
async fn an_image_is_pushed_with_its_digest_and_again_without_a_blob() {
    // Given a registry with a password, and an image in a layout
    let Some(server) =
        Server::start("an_image_is_pushed_with_its_digest_and_again_without_a_blob", |folder| {
            let path = folder.join("htpasswd");
            fs::write(&path, format!("olm:{HASH}\n")).expect("htpasswd");
            (String::new(), format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", path.display()))
        })
    else {
        return;
    };
    let (image, layout) = (catalog(), server.path("layout"));
    image.write_layout(&layout, "v1");
    let mut options = options(&server.host);
    let target = format!("{}/org/catalog:v1", server.host);

    // When it is pushed without credentials, and twice with them
    let denied = push_image(&layout, &image.digest(), &target, &options).await.expect_err("denied");
    let secret = json!({"auths": {&server.host: {"username": "olm", "password": "secret"}}});
    options.credentials.add("auth.json", secret.to_string().as_bytes()).expect("a config");
    let first = push_image(&layout, &image.digest(), &target, &options).await.expect("pushed");
    let second = push_image(&layout, &image.digest(), &target, &options).await.expect("pushed");

    // Then it is the same image, and only its manifest is written again
    let text = denied.to_string();
    assert!(text.starts_with(&format!("failed to push {target}: access denied (401")), "{text}");
    assert_eq!(denied.code(), "AccessDenied");
    assert_eq!(first.pinned, format!("{}/org/catalog@{}", server.host, image.digest()));
    assert!(first.bytes > second.bytes);
    assert_eq!(second.bytes, image.manifest.len() as u64);
    assert_eq!(pin_image(&target, &options).await.expect("there"), first.pinned);
    let dest = server.path("dest");
    fetched(&server.image("org/catalog:v1"), &options, &dest).await;
    assert_eq!(files(&dest), catalog_files());

    // And a missing tag, a digest as the target, and a damaged blob are refused
    let missing = pin_image(&format!("{}/org/catalog:v2", server.host), &options).await;
    assert_eq!(missing.expect_err("missing").code(), "NotFound");
    let by_digest = push_image(&layout, &image.digest(), &first.pinned, &options).await;
    assert_eq!(by_digest.expect_err("a digest").code(), "InvalidReference");
    fs::write(layout.join("blobs/sha256").join(&image.layers[0]["sha256:".len()..]), "damaged")
        .expect("written");
    let damaged = push_image(&layout, &image.digest(), &target, &options).await;
    assert_eq!(damaged.expect_err("damaged").code(), "InvalidContent");
}

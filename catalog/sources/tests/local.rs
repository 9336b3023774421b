//! Local sources: layouts, archives, directories, ConfigMaps.

#![allow(clippy::panic, reason = "a test that fails panics")]

mod support;

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::PathBuf};

use olm_catalog::Catalog;
use olm_catalog_sources::{Fetched, Limits, Options, Revision, Source, SourceError, bundle, fetch};
use serde_json::json;
use support::{ETCD, Image, expected, files, gzip, tar, zstd};
use tempfile::TempDir;

struct Scene {
    folder: TempDir,
    dest: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let dest = folder.path().join("out/dest");
        Self { folder, dest }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn fetch(&self, source: &Source, previous: Option<&Revision>) -> Result<Fetched, SourceError> {
        let _ = fs::remove_dir_all(&self.dest);
        fetch(source, &Options::default(), previous, &self.dest).await
    }

    /// A fetch of new content, and a second one without a change.
    async fn good(&self, source: &Source) -> BTreeMap<String, Vec<u8>> {
        let revision = new(self.fetch(source, None).await.expect("fetched"));
        let found = files(&self.dest);
        let again = self.fetch(source, Some(&revision)).await.expect("fetched");
        assert_eq!(again, Fetched::Unchanged { revision });
        assert!(!self.dest.exists());
        found
    }

    async fn bad(&self, source: &Source) -> SourceError {
        let error = self.fetch(source, None).await.expect_err("failed");
        let left: Vec<_> = fs::read_dir(self.path("out")).expect("read").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        error
    }
}

fn new(fetched: Fetched) -> Revision {
    match fetched {
        Fetched::New { revision, .. } => revision,
        Fetched::Unchanged { .. } => panic!("nothing new"),
    }
}

#[tokio::test]
async fn a_layout_is_read_by_name_by_digest_and_alone() {
    let scene = Scene::new();
    let (image, path) = (Image::catalog(ETCD), scene.path("layout"));
    image.write_layout(&path, "v1");
    for reference in [None, Some("v1".to_owned()), Some(image.digest()), Some(format!("@{}", image.digest()))]
    {
        let source = Source::OciLayout { path: path.clone(), reference };
        assert_eq!(scene.good(&source).await, expected(&[("etcd/catalog.json", ETCD)]));
    }
    let error = scene.bad(&Source::OciLayout { path, reference: Some("v2".into()) }).await;
    assert!(error.to_string().contains("available: v1"), "{error}");
}

#[tokio::test]
async fn a_layout_with_several_images_wants_a_name() {
    let scene = Scene::new();
    let (one, two, path) = (Image::catalog(ETCD), Image::catalog("{}"), scene.path("layout"));
    two.write_layout(&path, "two");
    one.write_layout(&path, "one");
    let (mut first, mut second) = (one.descriptor(), two.descriptor());
    first["annotations"] = json!({"org.opencontainers.image.ref.name": "one"});
    second["annotations"] = json!({"org.opencontainers.image.ref.name": "two"});
    let index = json!({"schemaVersion": 2, "manifests": [first, second]});
    fs::write(path.join("index.json"), index.to_string()).expect("index.json");

    let error = scene.bad(&Source::OciLayout { path: path.clone(), reference: None }).await;
    assert!(error.to_string().contains("specify one of one, two"), "{error}");
    let found = scene.good(&Source::OciLayout { path, reference: Some("two".into()) }).await;
    assert_eq!(found, expected(&[("etcd/catalog.json", "{}")]));
}

#[tokio::test]
async fn a_damaged_layout_is_refused() {
    let scene = Scene::new();
    let (image, path) = (Image::catalog(ETCD), scene.path("layout"));
    let blob = path.join("blobs/sha256").join(&image.layers[0]["sha256:".len()..]);
    let source = Source::OciLayout { path: path.clone(), reference: None };
    for (damage, code) in [(0, "DigestMismatch"), (1, "InvalidContent")] {
        image.write_layout(&path, "v1");
        let mut bytes = fs::read(&blob).expect("a blob");
        bytes[30] ^= 1;
        bytes.resize(bytes.len() + damage, 0);
        fs::write(&blob, bytes).expect("a blob");
        assert_eq!(scene.bad(&source).await.code(), code);
    }
    fs::remove_file(&blob).expect("removed");
    assert_eq!(scene.bad(&source).await.code(), "FileSystem");
    fs::write(path.join("index.json"), "{}").expect("written");
    assert_eq!(scene.bad(&source).await.code(), "InvalidContent");
}

#[tokio::test]
async fn archives_of_every_kind_are_read() {
    let scene = Scene::new();
    let archive = tar(&[("etcd/catalog.json", ETCD)]);
    let layout = scene.path("layout");
    Image::catalog(ETCD).write_layout(&layout, "v1");
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", &layout).expect("packed");
    let oci = builder.into_inner().expect("packed");
    let in_folder = expected(&[("etcd/catalog.json", ETCD)]);
    for (bytes, found) in [
        (archive.clone(), in_folder.clone()),
        (gzip(&archive), in_folder.clone()),
        (zstd(&archive), in_folder.clone()),
        (oci.clone(), in_folder.clone()),
        (gzip(&oci), in_folder.clone()),
        (zstd(ETCD.as_bytes()), expected(&[("catalog.json", ETCD)])),
        (b"\xef\xbb\xbf---\nschema: x\n".to_vec(), expected(&[("catalog.yaml", "\u{feff}---\nschema: x\n")])),
    ] {
        let path = scene.path("file");
        fs::write(&path, bytes).expect("written");
        assert_eq!(scene.good(&Source::Tarball { path }).await, found);
    }
}

#[tokio::test]
async fn a_whole_community_catalog_is_read() {
    let data = std::env::var_os("OLM_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let path = data.join("catalogs/community-full.json.zst");
    if !path.is_file() {
        println!(
            "skipped: a_whole_community_catalog_is_read: {} is not there (set OLM_SHARED_DATA)",
            path.display()
        );
        return;
    }
    let scene = Scene::new();
    let found = scene.good(&Source::Tarball { path }).await;
    assert_eq!(
        found.into_iter().map(|(name, content)| (name, content.len())).collect::<Vec<_>>(),
        [("catalog.json".to_owned(), 87_490_451)]
    );
}

#[tokio::test]
async fn an_archive_that_escapes_is_refused() {
    let scene = Scene::new();
    let path = scene.path("file.tar");
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "catalog.yaml", "/etc/passwd").expect("packed");
    fs::write(&path, builder.into_inner().expect("packed")).expect("written");
    assert_eq!(scene.bad(&Source::Tarball { path }).await.code(), "UnsafeArchive");
}

#[tokio::test]
async fn a_folder_is_copied_with_the_links_that_stay_inside() {
    // Given a directory as Kubernetes mounts it, with Git's files
    let scene = Scene::new();
    let root = scene.path("catalog");
    for folder in ["..2026/", ".git", "etcd"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    fs::write(root.join("..2026/a.json"), ETCD).expect("a file");
    symlink("..2026", root.join("..data")).expect("a link");
    symlink("..data/a.json", root.join("a.json")).expect("a link");
    fs::write(root.join(".git/config"), "git").expect("a file");
    fs::write(root.join("etcd/.indexignore"), "x").expect("a file");
    let source = Source::Directory { path: root.clone() };

    // When it is read, each file appears once
    assert_eq!(scene.good(&source).await, expected(&[("a.json", ETCD), ("etcd/.indexignore", "x")]));

    // And a link that leads out is rejected
    symlink("/etc/passwd", root.join("etcd/passwd")).expect("a link");
    let error = scene.bad(&source).await;
    assert!(error.to_string().contains("etcd/passwd"), "{error}");
}

#[tokio::test]
async fn a_folder_has_a_new_revision_for_every_change() {
    let scene = Scene::new();
    let root = scene.path("catalog");
    fs::create_dir_all(&root).expect("a folder");
    let source = Source::Directory { path: root.clone() };
    let mut revisions = Vec::new();
    for (name, content) in [("a", "1"), ("a", "2"), ("b", "2")] {
        fs::write(root.join(name), content).expect("a file");
        let revision = new(scene.fetch(&source, revisions.last()).await.expect("fetched"));
        revisions.push(revision);
    }
    let limits = Limits { unpacked_bytes: 1, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let error = fetch(&source, &options, None, &scene.path("other")).await.expect_err("too large");
    assert_eq!(error.code(), "LimitExceeded");
}

#[tokio::test]
async fn a_config_map_in_the_old_format_becomes_a_catalog() {
    // Given the keys of such a ConfigMap
    let csv = |name: &str, version: &str, replaces: Option<&str>| {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": "placeholder"},
            "spec": {"version": version, "replaces": replaces, "displayName": "Etcd",
                     "install": {"strategy": "deployment", "spec": {"deployments": []}}},
        })
    };
    let csvs = json!([csv("etcd.v1", "1.0.0", None), csv("etcd.v2", "2.0.0", Some("etcd.v1"))]);
    let packages = json!([{"packageName": "etcd", "defaultChannel": "alpha",
                           "channels": [{"name": "alpha", "currentCSV": "etcd.v2"}]}]);
    let data: BTreeMap<String, String> = [
        ("customResourceDefinitions", "[]".to_owned()),
        ("clusterServiceVersions", csvs.to_string()),
        ("packages", packages.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    let scene = Scene::new();
    let source = Source::ConfigMap { name: "ns/old".into(), data: data.clone() };

    // When it is read
    scene.fetch(&source, None).await.expect("fetched");

    // Then a loader finds the package with its edge
    let catalog = Catalog::load_dir(&scene.dest);
    let text: String = files(&scene.dest).values().map(|f| String::from_utf8_lossy(f).into_owned()).collect();
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(
        text.contains("etcd.v2") && text.contains("\"replaces\": \"etcd.v1\"")
            || text.contains("\"replaces\":\"etcd.v1\""),
        "{text}"
    );

    // And without packages it reports the problem
    let empty = Source::ConfigMap { name: "ns/old".into(), data: BTreeMap::new() };
    let error = scene.bad(&empty).await;
    assert!(error.to_string().contains("ConfigMap ns/old"), "{error}");
    scene.good(&source).await;
}

#[tokio::test]
async fn bundles_are_read_from_folders_archives_and_layouts_and_nowhere_else() {
    let scene = Scene::new();
    let content = [("manifests/csv.yaml", "a"), ("metadata/annotations.yaml", "b")];
    let path = scene.path("bundle.tar");
    fs::write(&path, gzip(&tar(&content))).expect("written");
    bundle(&Source::Tarball { path }, &Options::default(), &scene.dest).await.expect("read");
    assert_eq!(files(&scene.dest), expected(&content));

    for source in [
        Source::Grpc { address: "127.0.0.1:1".into() },
        Source::ConfigMap { name: "x".into(), data: BTreeMap::new() },
    ] {
        let error = bundle(&source, &Options::default(), &scene.path("none")).await.expect_err("no bundle");
        assert_eq!(error.code(), "UnsupportedContent");
    }
}

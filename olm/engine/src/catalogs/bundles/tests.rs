use std::path::Path;

use olm_testing::{Mood, Registry};

use super::*;
use crate::catalogs::access::tests::access;

const VERSION: &str = "0.10.1";

struct World {
    registry: Registry,
    images: Arc<BundleImages>,
    folder: tempfile::TempDir,
    image: String,
}

impl World {
    async fn new() -> Self {
        let registry = Registry::start().await;
        let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/etcd").join(VERSION);
        let image = registry.push_bundle(&bundle);
        let folder = tempfile::tempdir().unwrap();
        let images = BundleImages::new(folder.path().join("bundles"));
        Self { registry, images, folder, image }
    }

    fn request(&self, namespace: &str, bundle: &str) -> BundleRequest {
        BundleRequest {
            catalog: CatalogRef::new(namespace, "cat"),
            package: "etcd".into(),
            bundle: bundle.into(),
            image: self.image.clone(),
        }
    }

    async fn document(&self, namespace: &str, bundle: &str) -> Result<Arc<[u8]>, BundleImageError> {
        self.images.document(&self.request(namespace, bundle), &access(&self.registry, namespace)).await
    }
}

fn etcd() -> String {
    format!("etcdoperator.v{VERSION}")
}

#[tokio::test]
async fn callers_of_the_same_bundle_share_the_pull_and_the_cache() {
    let world = World::new().await;
    // when several callers need it at once
    let name = etcd();
    let all = futures::future::join_all((0..8).map(|_| world.document("olm", &name))).await;
    // then all get it from one pull
    for document in all {
        let bundle = document::bundle(&document.unwrap()).unwrap();
        assert_eq!((bundle.name(), bundle.package()), (name.as_str(), Some("etcd")));
    }
    assert_eq!(world.registry.asked("GET bundle/manifests"), 1);
    // and it is there after a restart, without the registry
    world.registry.mood(Mood::Denies);
    let images = BundleImages::new(world.folder.path().join("bundles"));
    assert!(images.document(&world.request("olm", &name), &access(&world.registry, "olm")).await.is_ok());
    assert_eq!(world.registry.asked("GET bundle/manifests"), 1);
}

#[tokio::test]
async fn what_one_catalog_may_pull_is_not_for_another() {
    let world = World::new().await;
    world.document("olm", &etcd()).await.unwrap();
    world.registry.mood(Mood::Denies);
    let error = world.document("elsewhere", &etcd()).await.unwrap_err();
    assert_eq!(error.code, DENIED);
}

#[tokio::test]
async fn a_failure_is_repeated_without_another_registry_request() {
    let world = World::new().await;
    world.registry.mood(Mood::Denies);
    let first = world.document("olm", &etcd()).await.unwrap_err();
    assert_eq!((first.code, first.image.as_str()), (DENIED, world.image.as_str()));
    assert!(first.text.contains("access denied"), "{}", first.text);
    let asked = world.registry.asked("");
    let second = world.document("olm", &etcd()).await.unwrap_err();
    assert_eq!((second.code, &second.text), (first.code, &first.text));
    assert!(second.retry <= FIRST_WAIT && second.retry > Duration::ZERO);
    assert_eq!(world.registry.asked(""), asked);
}

#[tokio::test]
async fn an_image_with_another_bundle_is_refused() {
    let world = World::new().await;
    let error = world.document("olm", "etcdoperator.v9.9.9").await.unwrap_err();
    assert_eq!(error.code, INVALID);
    assert!(error.text.contains("etcdoperator.v9.9.9") && error.text.contains(&etcd()), "{}", error.text);
}

#[tokio::test]
async fn an_image_not_found_is_reported() {
    let world = World::new().await;
    let request =
        BundleRequest { image: format!("{}/none:v1", world.registry.host), ..world.request("olm", &etcd()) };
    let error = world.images.document(&request, &access(&world.registry, "olm")).await.unwrap_err();
    assert_eq!(error.code, NOT_FOUND);
}

#[tokio::test]
async fn a_document_that_was_damaged_is_pulled_again() {
    let world = World::new().await;
    world.document("olm", &etcd()).await.unwrap();
    for entry in fs::read_dir(world.folder.path().join("bundles/documents")).unwrap().flatten() {
        fs::write(entry.path(), "{}").unwrap();
    }
    let document = world.document("olm", &etcd()).await.unwrap();
    assert!(document::bundle(&document).is_ok());
    assert_eq!(world.registry.asked("GET bundle/manifests"), 2);
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    // given room for two documents
    let folder = tempfile::tempdir().unwrap();
    let images = BundleImages::bounded(folder.path().to_owned(), 25);
    let request = |image: &str| BundleRequest {
        catalog: CatalogRef::new("olm", "cat"),
        package: "p".into(),
        bundle: "b".into(),
        image: format!("{image}@sha256:1"),
    };
    let keep = |image: &str, text: &[u8]| {
        images.keep(&request(image).name(), &request(image), text).unwrap();
        fs::File::options().append(true).open(images.reference(&request(image).name())).unwrap()
    };
    let old = SystemTime::now() - Duration::from_secs(100);
    keep("a", b"aaaaaaaaaa").set_modified(old).unwrap();
    keep("b", b"bbbbbbbbbb").set_modified(old + Duration::from_secs(1)).unwrap();
    // when the older one is used and a third is pulled
    assert!(images.cached(&request("a").name(), &request("a")).is_some());
    keep("c", b"cccccccccc");
    // then the one in between is evicted with its document
    assert!(images.cached(&request("a").name(), &request("a")).is_some());
    assert!(images.cached(&request("b").name(), &request("b")).is_none());
    assert_eq!(fs::read_dir(folder.path().join("documents")).unwrap().count(), 2);
}

#[test]
fn a_tag_is_not_taken_for_what_it_was_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let images = BundleImages::bounded(folder.path().to_owned(), 100);
    let mut request = BundleRequest {
        catalog: CatalogRef::new("olm", "cat"),
        package: "p".into(),
        bundle: "b".into(),
        image: "a/b:v1".into(),
    };
    images.keep("name", &request, b"text").unwrap();
    assert!(images.cached("name", &request).unwrap().fresh);
    // when it was pulled long ago
    let path = images.reference("name");
    let mut reference: Reference = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    reference.pulled = jiff::Timestamp::UNIX_EPOCH;
    fs::write(&path, serde_json::to_vec(&reference).unwrap()).unwrap();
    // then it is stale, unless it is named by digest
    assert!(!images.cached("name", &request).unwrap().fresh);
    request.image = "a/b@sha256:1".into();
    assert!(images.cached("name", &request).unwrap().fresh);
}

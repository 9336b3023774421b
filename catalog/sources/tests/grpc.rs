//! A running catalog server as a source.

#![allow(clippy::panic, reason = "a test that fails panics")]

mod support;

use std::{
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream};
use olm_catalog::Catalog;
use olm_catalog_sources::{Fetched, Options, Revision, Source, SourceError, fetch};
use olm_registry_api::{
    Bundle, Channel, ChannelEntry, GetAllProvidersRequest, GetAllReplacementsRequest,
    GetBundleInChannelRequest, GetBundleRequest, GetDefaultProviderRequest, GetLatestProvidersRequest,
    GetPackageRequest, GetReplacementRequest, ListBundlesRequest, ListPackageRequest, Package, PackageName,
    registry_server::{Registry, RegistryServer},
};
use serde_json::json;
use tempfile::TempDir;
use tonic::{Request, Response, Status, transport::server::TcpIncoming};

/// Behaviour of the server.
#[derive(Clone, Default)]
struct Catalogue {
    /// Number of failing requests for all bundles before one succeeds.
    failures: Arc<AtomicU32>,
    /// Bundles are sent in reverse order.
    backwards: bool,
    /// The list of packages is never sent.
    hangs: bool,
    /// Bytes of manifests in the first bundle.
    weight: usize,
}

type Items<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn nothing<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not in this test"))
}

#[tonic::async_trait]
impl Registry for Catalogue {
    type ListPackagesStream = Items<PackageName>;
    type GetChannelEntriesThatReplaceStream = Items<ChannelEntry>;
    type GetChannelEntriesThatProvideStream = Items<ChannelEntry>;
    type GetLatestChannelEntriesThatProvideStream = Items<ChannelEntry>;
    type ListBundlesStream = Items<Bundle>;

    async fn list_packages(
        &self,
        _: Request<ListPackageRequest>,
    ) -> Result<Response<Self::ListPackagesStream>, Status> {
        if self.hangs {
            return Ok(Response::new(stream::pending().boxed()));
        }
        Ok(Response::new(stream::iter([Ok(PackageName { name: "etcd".into() })]).boxed()))
    }

    async fn get_package(&self, request: Request<GetPackageRequest>) -> Result<Response<Package>, Status> {
        let channel =
            |name: &str| Channel { name: name.into(), csv_name: "etcd.v2".into(), deprecation: None };
        Ok(Response::new(Package {
            name: request.into_inner().name,
            channels: vec![channel("alpha"), channel("stable")],
            default_channel_name: "stable".into(),
            deprecation: None,
        }))
    }

    async fn list_bundles(
        &self,
        _: Request<ListBundlesRequest>,
    ) -> Result<Response<Self::ListBundlesStream>, Status> {
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            // Truncated in the middle of the list.
            let items =
                [Ok(bundle("stable", "etcd.v9", "9.0.0", "")), Err(Status::unavailable("going down"))];
            return Ok(Response::new(stream::iter(items).boxed()));
        }
        let mut bundles = vec![
            bundle("stable", "etcd.v2", "2.0.0", "etcd.v1"),
            bundle("stable", "etcd.v1", "1.0.0", ""),
            bundle("alpha", "etcd.v2", "2.0.0", ""),
        ];
        if self.weight > 0 {
            bundles[0].object = vec!["x".repeat(self.weight)];
        }
        if self.backwards {
            bundles.reverse();
        }
        Ok(Response::new(stream::iter(bundles.into_iter().map(Ok)).boxed()))
    }

    async fn get_bundle(&self, _: Request<GetBundleRequest>) -> Result<Response<Bundle>, Status> {
        nothing()
    }

    async fn get_bundle_for_channel(
        &self,
        _: Request<GetBundleInChannelRequest>,
    ) -> Result<Response<Bundle>, Status> {
        nothing()
    }

    async fn get_channel_entries_that_replace(
        &self,
        _: Request<GetAllReplacementsRequest>,
    ) -> Result<Response<Self::GetChannelEntriesThatReplaceStream>, Status> {
        nothing()
    }

    async fn get_bundle_that_replaces(
        &self,
        _: Request<GetReplacementRequest>,
    ) -> Result<Response<Bundle>, Status> {
        nothing()
    }

    async fn get_channel_entries_that_provide(
        &self,
        _: Request<GetAllProvidersRequest>,
    ) -> Result<Response<Self::GetChannelEntriesThatProvideStream>, Status> {
        nothing()
    }

    async fn get_latest_channel_entries_that_provide(
        &self,
        _: Request<GetLatestProvidersRequest>,
    ) -> Result<Response<Self::GetLatestChannelEntriesThatProvideStream>, Status> {
        nothing()
    }

    async fn get_default_bundle_that_provides(
        &self,
        _: Request<GetDefaultProviderRequest>,
    ) -> Result<Response<Bundle>, Status> {
        nothing()
    }
}

fn bundle(channel: &str, name: &str, version: &str, replaces: &str) -> Bundle {
    Bundle {
        csv_name: name.into(),
        package_name: "etcd".into(),
        channel_name: channel.into(),
        version: version.into(),
        replaces: replaces.into(),
        bundle_path: format!("quay.io/etcd/bundle:v{version}"),
        ..Bundle::default()
    }
}

struct Scene {
    source: Source,
    options: Options,
    folder: TempDir,
}

impl Scene {
    /// Starts a server; `healthy` is its health status, if it has the service.
    async fn new(catalogue: Catalogue, healthy: Option<bool>) -> Self {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = incoming.local_addr().expect("an address").to_string();
        let (reporter, health) = tonic_health::server::health_reporter();
        if healthy == Some(false) {
            reporter.set_service_status("", tonic_health::ServingStatus::NotServing).await;
        }
        let server = tonic::transport::Server::builder()
            .add_optional_service(healthy.is_some().then_some(health))
            .add_service(RegistryServer::new(catalogue));
        tokio::spawn(server.serve_with_incoming(incoming));
        let options = support::options(&address);
        Self { source: Source::Grpc { address }, options, folder: TempDir::new().expect("a folder") }
    }

    fn dest(&self) -> PathBuf {
        self.folder.path().join("catalog")
    }

    async fn fetch(&self, previous: Option<&Revision>) -> Result<Fetched, SourceError> {
        fetch(&self.source, &self.options, previous, &self.dest()).await
    }

    async fn good(&self) -> Revision {
        match self.fetch(None).await.expect("fetched") {
            Fetched::New { revision, .. } => revision,
            other => panic!("{other:?}"),
        }
    }

    async fn bad(&self) -> SourceError {
        let error = self.fetch(None).await.expect_err("failed");
        assert_eq!(std::fs::read_dir(self.folder.path()).expect("read").count(), 0);
        error
    }
}

#[tokio::test]
async fn a_catalog_is_read_whole_and_has_a_revision() {
    // Given two servers with the same catalog in different order
    let scene = Scene::new(Catalogue::default(), Some(true)).await;
    let other = Scene::new(Catalogue { backwards: true, ..Catalogue::default() }, None).await;

    // When both are read
    let revision = scene.good().await;
    assert_eq!(other.good().await, revision);

    // Then a loader finds their content
    let catalog = Catalog::load_dir(&scene.dest());
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    let text = std::fs::read_to_string(scene.dest().join("catalog.json")).expect("a file");
    let documents: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(documents.len(), 5, "two bundles, a package, two channels");
    assert!(documents.contains(&json!({
        "schema": "olm.channel", "package": "etcd", "name": "stable",
        "entries": [{"name": "etcd.v1"}, {"name": "etcd.v2", "replaces": "etcd.v1"}],
    })));

    // And the next fetch finds no change
    std::fs::remove_dir_all(scene.dest()).expect("removed");
    assert_eq!(scene.fetch(Some(&revision)).await.expect("read"), Fetched::Unchanged { revision });
}

#[tokio::test]
async fn a_list_that_breaks_off_is_read_again_from_the_start() {
    let broken = Catalogue { failures: Arc::new(AtomicU32::new(2)), ..Catalogue::default() };
    let scene = Scene::new(broken, Some(true)).await;
    scene.good().await;
    let text = std::fs::read_to_string(scene.dest().join("catalog.json")).expect("a file");
    assert!(!text.contains("etcd.v9"), "{text}");
}

#[tokio::test]
async fn patience_ends_with_the_reason() {
    let broken = Catalogue { failures: Arc::new(AtomicU32::new(99)), ..Catalogue::default() };
    let error = Scene::new(broken, Some(true)).await.bad().await;
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(text.contains("ListBundles failed with Unavailable") && !text.contains("going down"), "{text}");
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_not_read() {
    let error = Scene::new(Catalogue::default(), Some(false)).await.bad().await;
    assert!(error.to_string().contains("NOT_SERVING"), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let mut scene = Scene::new(Catalogue { hangs: true, ..Catalogue::default() }, Some(true)).await;
    scene.options.timeouts.read_timeout = Duration::from_millis(200);
    let error = scene.bad().await;
    assert!(error.to_string().contains("timed out after 0.2 s"), "{error}");
}

#[tokio::test]
async fn sizes_are_limited() {
    let mut scene = Scene::new(Catalogue { weight: 2 << 20, ..Catalogue::default() }, Some(true)).await;
    scene.options.limits.unpacked_bytes = 1 << 20;
    let error = scene.bad().await;
    assert!(error.to_string().contains("limits.unpacked_bytes"), "{error}");

    let scene = Scene::new(Catalogue { weight: 70 << 20, ..Catalogue::default() }, Some(true)).await;
    let error = scene.bad().await;
    assert!(!error.is_transient(), "{error}");
}

#[tokio::test]
async fn an_endpoint_that_is_no_server_is_reported() {
    let folder = TempDir::new().expect("a folder");
    for (address, code) in [
        ("https://catalog.example.com:50051", "InvalidReference"),
        ("catalog.example.com", "InvalidReference"),
        // A port without a listener, which only root may open.
        ("127.0.0.1:1", "Unavailable"),
    ] {
        let source = Source::Grpc { address: address.into() };
        let options = support::options(address);
        let error = fetch(&source, &options, None, &folder.path().join("x")).await.expect_err(address);
        assert_eq!(error.code(), code, "{error}");
    }
}

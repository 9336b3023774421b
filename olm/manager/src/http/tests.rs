use std::net::SocketAddr;

use axum::{body::Body, extract::ConnectInfo, http::Request};
use olm_catalog::Catalog;
use olm_catalog_sources::FoundSignatures;
use olm_engine::catalogs::{Backend, BundleImages, CatalogRef, CatalogState, LoadedCatalog, Own};
use olm_testing::{Mood, Registry};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;

use super::*;

struct World {
    router: Router,
    registry: Registry,
    _folder: tempfile::TempDir,
}

fn etcd_bundle() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/etcd/0.10.1")
}

fn operator_image() -> String {
    let bundle = olm_bundle::Bundle::from_dir(&etcd_bundle()).unwrap();
    let image =
        bundle.csv_raw.pointer("/spec/install/spec/deployments/0/spec/template/spec/containers/0/image");
    image.and_then(Value::as_str).unwrap().to_owned()
}

/// A manager with the shipped catalog and one whose only bundle is an image.
async fn world() -> World {
    let registry = Registry::start().await;
    let folder = tempfile::tempdir().unwrap();
    let image = registry.push_bundle(&etcd_bundle());
    let text = olm_testing::catalog("etcd", "0.10.1")
        .replace("etcd.v0.10.1", "etcdoperator.v0.10.1")
        .replace("example.invalid/etcd:v0.10.1", &image);
    let ctx = Arc::new(Ctx::new(reviewer(), &crate::Options::new("test")).unwrap());
    let catalogs = &ctx.catalogs;
    let put = |namespace: &str, name: &str, catalog: Arc<Catalog>| {
        let reference = CatalogRef::new(namespace, name);
        let own = Own {
            catalog: reference.clone(),
            images: BundleImages::new(folder.path().join(name)),
            signatures: Arc::default(),
            access: crate::testing::access(&registry),
            refresh: Arc::default(),
        };
        let backend = Backend::Own(Arc::new(own));
        let loaded = Some(LoadedCatalog { backend, ..LoadedCatalog::new(reference, catalog) });
        catalogs.insert(namespace, name, CatalogState { loaded, ..CatalogState::default() });
    };
    put("olm", "shipped", olm_catalog::shipped());
    put("team", "private", olm_catalog::shipped());
    put("olm", "images", Arc::new(Catalog::from_bytes("test", text.as_bytes())));
    let router = router(Serving { ctx, ready: Arc::default() });
    World { router, registry, _folder: folder }
}

/// An API server whose tokens are names of users: `admin` may do anything, `ann` reads catalogs of namespace
/// olm, and `prometheus` reads metrics.
fn reviewer() -> kube::Client {
    let service = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let body = request.into_body().collect_bytes().await?;
        let mut review: Value = serde_json::from_slice(&body)?;
        let spec = &review["spec"];
        let status = if review["kind"] == "TokenReview" {
            let known = ["admin", "ann", "prometheus"].iter().any(|user| spec["token"] == *user);
            json!({ "authenticated": known && spec.get("audiences").is_none(), "user": { "username": spec["token"] } })
        } else {
            let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
            let reads = resource["verb"] == "get"
                && resource["group"] == "operators.coreos.com"
                && resource["resource"] == "catalogsources"
                && !resource["name"].is_null();
            let allowed = match spec["user"].as_str() {
                Some("admin") => true,
                Some("ann") => reads && resource["namespace"] == "olm",
                Some("prometheus") => *path == json!({ "path": "/metrics", "verb": "get" }),
                _ => false,
            };
            json!({ "allowed": allowed })
        };
        review["status"] = status;
        Ok::<_, tower::BoxError>(http::Response::new(kube::client::Body::from(
            review.to_string().into_bytes(),
        )))
    });
    kube::Client::new(service, "default")
}

const LOCAL: Peer =
    Peer { address: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1), tls: false };

async fn ask(world: &World, path: &str, peer: Peer, headers: &[(&str, &str)]) -> (u16, Vec<u8>) {
    let mut request = Request::get(path).extension(ConnectInfo(peer));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    (status, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec())
}

async fn get_as(world: &World, user: &str, path: &str) -> (u16, Vec<u8>) {
    ask(world, path, LOCAL, &[("authorization", &format!("Bearer {user}"))]).await
}

async fn get(world: &World, path: &str) -> (u16, Vec<u8>) {
    get_as(world, "admin", path).await
}

/// Every path that serves content of the catalog `team/private`.
const PRIVATE: [&str; 10] = [
    "/catalogs/team/private/api/v1/all",
    "/catalogs/team/private/api/v1/metas?schema=olm.package",
    "/catalogs/team/private/api/v1/packages",
    "/catalogs/team/private/api/v1/packages/etcd",
    "/catalogs/team/private/api/v1/index",
    "/catalogs/team/private/api/v1/search?q=etcd",
    "/catalogs/team/private/api/v1/icons/etcd",
    "/catalogs/team/private/api/v1/bundles/etcd/etcdoperator.v0.10.1",
    "/catalogs/team/private/api/v1/signatures/etcd/etcdoperator.v0.10.1?image=x",
    // The router decodes it to the same name.
    "/catalogs/te%61m/private/api/v1/all",
];

#[tokio::test]
async fn t11_a_private_catalog_is_read_only_with_a_right_on_its_catalogsource() {
    let world = world().await;
    for path in PRIVATE {
        assert_eq!(ask(&world, path, LOCAL, &[]).await.0, 401, "{path} without a token");
        assert_eq!(get_as(&world, "forged", path).await.0, 401, "{path} with a forged token");
        let (code, body) = get_as(&world, "ann", path).await;
        assert_eq!(code, 403, "{path} without the right");
        assert!(String::from_utf8_lossy(&body).contains("catalogsources"), "{path} names the right");
        assert!(matches!(get(&world, path).await.0, 200 | 404), "{path} with the right");
    }
    assert_eq!(get_as(&world, "ann", "/catalogs/olm/shipped/api/v1/all").await.0, 200);
    assert_eq!(get_as(&world, "ann", "/catalogs/shipped/api/v1/all").await.0, 200);
    // The existence of a catalog is not revealed either.
    assert_eq!(get_as(&world, "ann", "/catalogs/team/none/api/v1/all").await.0, 403);
}

#[tokio::test]
async fn t11_the_index_lists_only_readable_catalogs() {
    let world = world().await;
    let names = async |user: &str| {
        let (code, body) = get_as(&world, user, "/catalogs").await;
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let entries = list.as_array().cloned().unwrap_or_default();
        (code, entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(names("ann").await, (200, vec!["images".to_owned(), "shipped".to_owned()]));
    assert_eq!(names("admin").await.1.len(), 3);
    assert_eq!(names("prometheus").await, (200, Vec::new()));
    assert_eq!(ask(&world, "/catalogs", LOCAL, &[]).await.0, 401);
}

#[tokio::test]
async fn t11_metrics_need_a_right_and_probes_do_not() {
    let world = world().await;
    assert_eq!(ask(&world, "/metrics", LOCAL, &[]).await.0, 401);
    assert_eq!(get_as(&world, "ann", "/metrics").await.0, 403);
    assert_eq!(get_as(&world, "prometheus", "/metrics").await.0, 200);
    assert_eq!(ask(&world, "/healthz", LOCAL, &[]).await.0, 200);
    assert_eq!(ask(&world, "/readyz", LOCAL, &[]).await.0, 503);
}

#[tokio::test]
async fn t11_a_token_without_tls_from_another_machine_is_refused() {
    let world = world().await;
    let path = "/catalogs/olm/shipped/api/v1/index";
    let remote = |tls| Peer { address: "10.244.0.7:40000".parse().unwrap(), tls };
    let token = [("authorization", "Bearer admin")];
    let (code, body) = ask(&world, path, remote(false), &token).await;
    assert_eq!(code, 403);
    assert!(String::from_utf8_lossy(&body).contains("without TLS"));
    assert_eq!(ask(&world, path, remote(true), &token).await.0, 200);
    // The API server's proxy removes Authorization.
    assert_eq!(ask(&world, path, remote(true), &[("x-olm-authorization", "Bearer admin")]).await.0, 200);
    let mapped = Peer { address: "[::ffff:127.0.0.1]:1".parse().unwrap(), tls: false };
    assert_eq!(ask(&world, path, mapped, &token).await.0, 200);
}

#[tokio::test]
async fn t11_one_port_takes_tls_and_plain_connections() {
    let world = world().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = world.router.clone().into_make_service_with_connect_info::<Peer>();
    let connections = Connections::new(listener, "olm").unwrap();
    let server = tokio::spawn(async move { axum::serve(connections, service).await });
    // A silent client does not block others.
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut plain = tokio::net::TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some("ann".to_owned().into());
    let client = kube::Client::try_from(config).unwrap();
    let request = Request::get("/catalogs/olm/shipped/api/v1/packages").body(Vec::new()).unwrap();
    let packages: Vec<Value> = client.request(request).await.unwrap();
    assert!(!packages.is_empty());
    server.abort();
}

#[tokio::test]
async fn a_bundle_that_is_an_image_is_handed_out_with_its_manifests() {
    let world = world().await;
    let path = "/catalogs/olm/images/api/v1/bundles/etcd/etcdoperator.v0.10.1";
    let (status, document) = get(&world, path).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&document));
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(
        (document["schema"].as_str(), document["package"].as_str()),
        (Some("olm.bundle"), Some("etcd"))
    );
    let objects =
        document["properties"].as_array().unwrap().iter().filter(|p| p["type"] == "olm.bundle.object");
    assert_eq!(objects.count(), 2);
}

#[tokio::test]
async fn a_failed_bundle_pull_is_reported_with_a_code() {
    let world = world().await;
    world.registry.mood(Mood::Denies);
    let path = "/catalogs/olm/images/api/v1/bundles/etcd/etcdoperator.v0.10.1";
    let (status, body) = get(&world, path).await;
    let no: NoBundle = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, no.code.as_str()), (502, "BundleImageDenied"));
    assert!(no.message.contains("access denied"), "{}", no.message);
}

#[tokio::test]
async fn t22_signatures_of_a_bundles_images_are_handed_out_and_of_no_others() {
    let world = world().await;
    let path = "/catalogs/olm/images/api/v1/signatures/etcd/etcdoperator.v0.10.1";
    // given an image that the bundle does not name, then its registry gets no request
    let other = format!("{path}?image=127.0.0.1:1/other@sha256:{}", "0".repeat(64));
    assert_eq!(get(&world, &other).await.0, 404);
    assert_eq!(get(&world, path).await.0, 400);
    // given its own image, which has none
    let image = world.registry.push_bundle(&etcd_bundle());
    let (status, found) = get(&world, &format!("{path}?image={image}")).await;
    assert_eq!(status, 200);
    let found: FoundSignatures = serde_json::from_slice(&found).unwrap();
    assert!(found.signatures.is_empty() && found.problems.is_empty(), "{found:?}");
    // given the operator's, whose registry does not answer, then the reason is reported
    let (status, body) = get(&world, &format!("{path}?image={}", operator_image())).await;
    let no: NoBundle = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, no.code.as_str()), (502, "SignaturesUnreadable"), "{}", no.message);
}

#[tokio::test]
async fn what_no_catalog_names_is_never_pulled() {
    let world = world().await;
    for path in [
        "olm/none/api/v1/bundles/etcd/a",
        "olm/images/api/v1/bundles/none/a",
        "olm/images/api/v1/bundles/etcd/a",
    ] {
        assert_eq!(get(&world, &format!("/catalogs/{path}")).await.0, 404, "{path}");
    }
    // A bundle inside the catalog is not served here.
    let inline = "/catalogs/olm/shipped/api/v1/bundles/etcd/etcdoperator.v0.10.1";
    assert_eq!(get(&world, inline).await.0, 404);
    assert_eq!(world.registry.asked(""), 0);
}

#[tokio::test]
async fn a_standby_is_alive_and_reports_what_it_waits_for() {
    let world = world().await;
    assert_eq!(get(&world, "/healthz").await, (200, b"ok\n".to_vec()));
    assert_eq!(get(&world, "/readyz").await, (503, b"loading catalogs\n".to_vec()));
    let (status, page) = get(&world, "/metrics").await;
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&page).contains("olm_leading 0\n"));
}

#[tokio::test]
async fn the_catalogs_own_routes_are_there_as_well() {
    let world = world().await;
    for path in ["/catalogs", "/catalogs/olm/shipped/api/v1/index", "/catalogs/shipped/api/v1/all"] {
        assert_eq!(get(&world, path).await.0, 200, "{path}");
    }
}

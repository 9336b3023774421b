//! The manager's HTTP port: probes, metrics, and the catalogs it has loaded.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::sync::Semaphore;

use crate::{
    catalogs::{IndexEntry, NoBundle, ReadError},
    context::Ctx,
    metrics::Seen,
};

/// Bundles that are handed out at a time: each may wait for a registry. Whoever comes on top is sent away at once.
const BUNDLES: usize = 16;

/// What the port answers from.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) ctx: Arc<Ctx>,
    /// Whether every CatalogSource that there was at the start has been looked at, and what the controllers watch was seen.
    pub(crate) ready: Arc<AtomicBool>,
}

pub(crate) fn router(serving: Serving) -> Router {
    let ctx = Arc::clone(&serving.ctx);
    let content = olm_catalog_serve::router(move |namespace: Option<&str>, name: &str| {
        ctx.catalogs.content(namespace.unwrap_or(&ctx.namespace), name)
    });
    let slots = Arc::new(Semaphore::new(BUNDLES));
    let bundles = get(move |state, path| bundle(state, path, Arc::clone(&slots)));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/catalogs", get(index))
        // The names are those that the other routes below /catalogs have at the same place.
        .route("/catalogs/{first}/{second}/api/v1/bundles/{package}/{bundle}", bundles)
        .with_state(serving)
        .merge(content)
}

/// Alive is a process whose loops turn. Anything else, such as an API server that is away, a restart would not help.
async fn healthz(State(serving): State<Serving>) -> Response {
    match serving.ctx.health.stuck(std::time::Instant::now()) {
        None => "ok\n".into_response(),
        Some((what, since)) => {
            let text = format!("{what} does not end; it was begun {} s ago\n", since.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// Ready is who can answer. Leading has nothing to do with it: the others have the catalogs as well.
async fn readyz(State(serving): State<Serving>) -> Response {
    if !serving.ready.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "loading catalogs\n").into_response();
    }
    match serving.ctx.standby.reason() {
        None => "ok\n".into_response(),
        Some(why) => format!("ok, and idle: {why}\n").into_response(),
    }
}

async fn metrics(State(serving): State<Serving>) -> impl IntoResponse {
    let ctx = &serving.ctx;
    let text = ctx.metrics.render(&Seen {
        catalogs: &ctx.catalogs,
        stores: &ctx.stores,
        leading: ctx.leads(),
        retrying: ctx.backoff.failing(),
        now: jiff::Timestamp::now(),
    });
    ([("content-type", "text/plain; version=0.0.4")], text)
}

async fn index(State(serving): State<Serving>) -> Json<Vec<IndexEntry>> {
    Json(serving.ctx.catalogs.index())
}

/// The document of a bundle with its manifests inside: for those who may not pull its image themselves.
async fn bundle(
    State(serving): State<Serving>,
    Path((namespace, name, package, bundle)): Path<(String, String, String, String)>,
    slots: Arc<Semaphore>,
) -> Response {
    let none = |what: String| {
        (StatusCode::NOT_FOUND, format!("404 Not Found: there is no {what}\n")).into_response()
    };
    let Some(loaded) = serving.ctx.catalogs.get(&namespace, &name).and_then(|entry| entry.loaded) else {
        return none(format!("catalog {namespace}/{name}"));
    };
    let Ok(_slot) = slots.try_acquire() else {
        let retry = [(header::RETRY_AFTER, "5")];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, "too many bundles are being read\n").into_response();
    };
    let found = match loaded.package(&package).await {
        Ok(found) => found,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let Some(entry) = found.as_ref().and_then(|found| found.bundles.get(&bundle)) else {
        return none(format!("bundle {bundle} of package {package} in catalog {namespace}/{name}"));
    };
    if entry.is_inline() {
        let text = format!("404 Not Found: the manifests of {bundle} are in the catalog itself\n");
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let no = |code: &str, message: String| {
        (StatusCode::BAD_GATEWAY, Json(NoBundle { code: code.to_owned(), message })).into_response()
    };
    match loaded.document(entry).await {
        Ok(document) => ([(header::CONTENT_TYPE, "application/json")], document.to_vec()).into_response(),
        Err(ReadError::Image(error)) => no(error.code, error.text),
        Err(error) => no("BundleInvalid", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use olm_catalog::Catalog;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        catalogs::{BundleImages, CatalogRef, Entry, Home, LoadedCatalog, Own},
        testing::{Mood, Registry},
    };

    struct World {
        router: Router,
        registry: Registry,
        _folder: tempfile::TempDir,
    }

    /// A manager with the shipped catalog and one whose only bundle is an image.
    async fn world() -> World {
        let registry = Registry::start().await;
        let folder = tempfile::tempdir().unwrap();
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let image = registry.push_bundle(&root.join("bundles/etcd/0.10.1"));
        let text = crate::testing::catalog("etcd", "0.10.1")
            .replace("etcd.v0.10.1", "etcdoperator.v0.10.1")
            .replace("example.invalid/etcd:v0.10.1", &image);
        let ctx =
            Arc::new(Ctx::new(crate::testing::client(Vec::new()), &crate::Options::new("test")).unwrap());
        let catalogs = &ctx.catalogs;
        let put = |name: &str, catalog: Arc<Catalog>| {
            let reference = CatalogRef::new("olm", name);
            let own = Own {
                catalog: reference.clone(),
                images: BundleImages::new(folder.path().join(name)),
                access: registry.access("olm"),
                refresh: Arc::default(),
            };
            let home = Home::Own(Arc::new(own));
            let loaded = Some(LoadedCatalog { home, ..LoadedCatalog::new(reference, catalog) });
            catalogs.put("olm", name, Entry { loaded, ..Entry::default() });
        };
        put("shipped", olm_catalog::shipped());
        put("images", Arc::new(Catalog::from_bytes("test", text.as_bytes())));
        let router = router(Serving { ctx, ready: Arc::default() });
        World { router, registry, _folder: folder }
    }

    async fn get(world: &World, path: &str) -> (u16, Vec<u8>) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = world.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        (status, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec())
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
    async fn a_bundle_that_cannot_be_pulled_says_why_with_a_code() {
        let world = world().await;
        world.registry.mood(Mood::Denies);
        let path = "/catalogs/olm/images/api/v1/bundles/etcd/etcdoperator.v0.10.1";
        let (status, body) = get(&world, path).await;
        let no: NoBundle = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, no.code.as_str()), (502, "BundleImageDenied"));
        assert!(no.message.contains("access denied"), "{}", no.message);
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
        // What is in the catalog is read there.
        let inline = "/catalogs/olm/shipped/api/v1/bundles/etcd/etcdoperator.v0.10.1";
        assert_eq!(get(&world, inline).await.0, 404);
        assert_eq!(world.registry.asked(""), 0);
    }

    #[tokio::test]
    async fn who_does_not_lead_is_alive_and_says_what_it_waits_for() {
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
}

//! The HTTP API.

mod conditional;
mod documents;
mod icons;
mod packages;
mod parameters;
mod search;
mod stream;
mod target;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use olm_catalog::Catalog;
use tokio::sync::Semaphore;

use target::{CachedState, Key};

/// Concurrent document streams, each on its own thread; further requests wait for one to end.
const STREAMS: usize = 32;

type Find = Box<dyn Fn(Option<&str>, &str) -> Option<Arc<Catalog>> + Send + Sync>;

pub(crate) struct Served {
    find: Find,
    known: Mutex<HashMap<Key, CachedState>>,
    streams: Arc<Semaphore>,
}

/// The catalogs' API below `/catalogs/{name}` and `/catalogs/{namespace}/{name}`.
///
/// `find` looks up the catalog of a namespace (none for a cluster-wide catalog) and name on every request, and only
/// for valid Kubernetes names.
///
/// | path | answer |
/// | --- | --- |
/// | `/api/v1/all` | every document as JSON lines, as in catalogd |
/// | `/api/v1/metas?schema=&package=&name=` | those with a schema, package and name, as in catalogd |
/// | `/api/v1/packages` | the packages in short, as a JSON array |
/// | `/api/v1/packages/{package}` | every document of a package, with that of the package itself, as JSON lines |
/// | `/api/v1/index` | the index for listing, search and resolution in another process: `Catalog::from_index` reads it |
/// | `/api/v1/search?q=` | the packages that match a text, best first, as a JSON array |
/// | `/api/v1/icons/{package}` | a package's icon |
///
/// Everything has a strong `ETag` except searches; documents and the index are compressed for clients that accept it.
pub fn router<F>(find: F) -> Router
where
    F: Fn(Option<&str>, &str) -> Option<Arc<Catalog>> + Send + Sync + 'static,
{
    let served = Arc::new(Served {
        find: Box::new(find),
        known: Mutex::default(),
        streams: Arc::new(Semaphore::new(STREAMS)),
    });
    let routes: [(&str, MethodRouter<Arc<Served>>); 7] = [
        ("all", get(documents::all)),
        ("metas", get(documents::metas)),
        ("packages", get(packages::packages)),
        ("packages/{package}", get(documents::package)),
        ("index", get(packages::index)),
        ("search", get(search::search)),
        ("icons/{package}", get(icons::icon)),
    ];
    let mut router = Router::new();
    for (path, handler) in routes {
        // A path parameter at the same place must have the same key in all routes, whatever it means in each.
        router = router
            .route(&format!("/catalogs/{{first}}/api/v1/{path}"), handler.clone())
            .route(&format!("/catalogs/{{first}}/{{second}}/api/v1/{path}"), handler);
    }
    router.with_state(served)
}

/// An answer with one line of text.
fn text(status: StatusCode, message: &str) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, format!("{message}\n")).into_response()
}

#[cfg(test)]
mod tests;

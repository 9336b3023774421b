//! The documents of a catalog: `/all` and `/metas`, as catalogd serves them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use olm_catalog::Filter;
use serde::Deserialize;

use super::conditional::{Encoding, Validators};
use super::target::Target;
use super::{Served, parameters, stream, text};

/// As in catalogd, and expected by readers of JSON lines.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/jsonl");

/// The whole catalog. Parameters are ignored, as in catalogd.
pub(super) async fn all(
    State(served): State<Arc<Served>>,
    target: Target,
    method: Method,
    headers: HeaderMap,
) -> Response {
    answer(&served, target, DocumentFilter::default(), &method, &headers).await
}

/// The documents with a schema, package and name.
pub(super) async fn metas(
    State(served): State<Arc<Served>>,
    target: Target,
    RawQuery(query): RawQuery,
    method: Method,
    headers: HeaderMap,
) -> Response {
    match parameters::read(query.as_deref(), ["schema", "package", "name"]) {
        Ok([schema, package, name]) => {
            let selection = DocumentFilter::new(Filter { schema, package, name });
            answer(&served, target, selection, &method, &headers).await
        }
        Err(message) => text(StatusCode::BAD_REQUEST, &message),
    }
}

/// Every document of a package, with that of the package itself.
pub(super) async fn package(
    State(served): State<Arc<Served>>,
    target: Target,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let name = target.package.clone().unwrap_or_default();
    if target.catalog.summary(&name).is_none() {
        return text(StatusCode::NOT_FOUND, "404 Not Found: package not found");
    }
    let filter = Filter { package: Some(name), ..Filter::default() };
    answer(&served, target, DocumentFilter { filter, by_key: false }, &method, &headers).await
}

async fn answer(
    served: &Served,
    target: Target,
    selection: DocumentFilter,
    method: &Method,
    headers: &HeaderMap,
) -> Response {
    let encoding = Encoding::accepted(headers);
    // Other parameters are another resource: the catalog's digest is sufficient.
    let validators = Validators::new(&target.catalog.digest, encoding, Some(target.known.modified()));
    if let Some(response) = validators.unmet(headers) {
        return response;
    }
    let body = match *method {
        Method::HEAD => Body::empty(),
        _ => match stream::body(target.catalog, selection, encoding, Arc::clone(&served.streams)).await {
            Ok(body) => body,
            Err(failed) => return failed,
        },
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    encoding.add_to(headers);
    validators.add_to(headers);
    response
}

/// Selects documents.
#[derive(Debug, Clone, Default)]
pub(super) struct DocumentFilter {
    pub filter: Filter,
    /// Here a package document belongs to its package. In catalogd only documents with the key `package`
    /// belong to one, and `olm.package` documents have none.
    by_key: bool,
}

impl DocumentFilter {
    fn new(filter: Filter) -> Self {
        let by_key =
            filter.package.is_some() && filter.schema.as_deref().is_none_or(|schema| schema == "olm.package");
        Self { filter, by_key }
    }

    pub fn has(&self, document: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Keys {
            #[serde(default)]
            schema: String,
            package: Option<String>,
        }
        if !self.by_key {
            return true;
        }
        let keys = serde_json::from_slice::<Keys>(document);
        keys.is_ok_and(|keys| keys.schema != "olm.package" || keys.package == self.filter.package)
    }
}

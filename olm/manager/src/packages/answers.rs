//! Responses to requests.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use kube::{Api, ResourceExt as _, api::ListParams};
use olm_api::CatalogSource;
use olm_engine::catalogs::{CatalogVisibility, Key, LoadedCatalog};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{
    GROUP, KIND, RESOURCE, VERSION, api_version,
    listing::{self, Catalog},
    manifest::Source,
    selector::QuerySelector,
    table::{self, Form},
};
use crate::{
    context::Ctx,
    reviews::{Act, Refusal, User},
    secure::Caller,
};

/// Concurrent responses that read catalogs; each holds one package in memory. Further ones wait.
const READERS: usize = 4;

/// The icon of packages without one.
const NO_ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect x="8" y="8" width="48" height="48" rx="8" fill="none" stroke="#888" stroke-width="4"/><path d="M8 24h48M24 24v32" stroke="#888" stroke-width="4"/></svg>"##;

struct Answers {
    ctx: Arc<Ctx>,
    readers: Arc<Semaphore>,
}

/// The router of the API; the connection adds the [`Caller`].
pub(crate) fn router(ctx: Arc<Ctx>) -> Router {
    let api = Arc::new(Answers { ctx, readers: Arc::new(Semaphore::new(READERS)) });
    Router::new().fallback(answer).with_state(api)
}

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target<'a> {
    Health,
    Discovery,
    /// Of a namespace, or of all.
    List(Option<&'a str>),
    One(&'a str, &'a str),
    Icon(&'a str, &'a str),
}

fn target(path: &str) -> Option<Target<'_>> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    if matches!(segments[..], ["healthz" | "livez" | "readyz", ..]) {
        return Some(Target::Health);
    }
    if let ["" | "version"] | ["apis"] | ["openapi", "v2" | "v3"] = segments[..] {
        return Some(Target::Discovery);
    }
    let ["apis", group, rest @ ..] = &segments[..] else { return None };
    if *group != GROUP {
        return None;
    }
    match rest {
        [] => Some(Target::Discovery),
        [version] if *version == VERSION => Some(Target::Discovery),
        [version, rest @ ..] if *version == VERSION => match rest {
            [resource] if *resource == RESOURCE => Some(Target::List(None)),
            ["namespaces", namespace, resource, rest @ ..] if *resource == RESOURCE => match rest {
                [] => Some(Target::List(Some(namespace))),
                [name] => Some(Target::One(namespace, name)),
                [name, "icon"] => Some(Target::Icon(namespace, name)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

async fn answer(
    State(api): State<Arc<Answers>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Response {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path();
    let Some(target) = target(path) else {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    };
    if target == Target::Health {
        return "ok".into_response();
    }
    let Some(user) = caller.user(&parts.headers) else {
        return status(401, "Unauthorized", "Unauthorized");
    };
    let query = query(parts.uri.query().unwrap_or_default());
    let get = |key: &str| query.get(key).map(String::as_str).unwrap_or_default();
    let watches = matches!(get("watch"), "true" | "1");
    if !matches!(parts.method, Method::GET | Method::HEAD) || watches {
        let text = "the server does not allow this method on the requested resource: PackageManifests can be listed and read";
        return status(405, "MethodNotAllowed", text);
    }
    let act = match target {
        Target::Health | Target::Discovery => Act::Path(path.to_owned()),
        Target::List(namespace) => act("list", None, namespace, None),
        Target::One(namespace, name) => act("get", None, Some(namespace), Some(name)),
        Target::Icon(namespace, name) => act("get", Some("icon"), Some(namespace), Some(name)),
    };
    match api.ctx.reviews.may(&user, &act).await {
        Ok(()) => {}
        Err(refusal) => return refused(refusal),
    }
    match target {
        Target::Health | Target::Discovery => json_answer(200, &discovery(path)),
        Target::List(namespace) => api.list(&user, namespace, &parts.headers, &get).await,
        Target::One(namespace, name) => {
            api.one(&user, namespace, name, &parts.headers, get("includeObject")).await
        }
        Target::Icon(namespace, name) => {
            api.icon(&user, namespace, name, &parts.headers, get("resourceVersion")).await
        }
    }
}

fn act(
    verb: &'static str,
    subresource: Option<&'static str>,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Act {
    let (namespace, name) = (namespace.map(str::to_owned), name.map(str::to_owned));
    Act::Resource { verb, group: GROUP, version: VERSION, resource: RESOURCE, subresource, namespace, name }
}

fn refused(refusal: Refusal) -> Response {
    match refusal {
        Refusal::Unauthorized => status(401, "Unauthorized", "Unauthorized"),
        Refusal::Forbidden(message) => status(403, "Forbidden", &message),
        Refusal::Unknown(message) => status(500, "InternalError", &message),
    }
}

impl Answers {
    async fn list<'a>(
        &self,
        user: &User,
        namespace: Option<&str>,
        headers: &HeaderMap,
        get: &impl Fn(&str) -> &'a str,
    ) -> Response {
        let Some(form) = Form::of(headers, get("includeObject")) else { return not_acceptable() };
        let selector = match QuerySelector::read(get("labelSelector"), get("fieldSelector")) {
            Ok(selector) => selector,
            Err(message) => return status(400, "BadRequest", &message),
        };
        // Held until the last package is read.
        let Ok(reader) = Arc::clone(&self.readers).acquire_owned().await else { return busy() };
        match self.catalogs(user, namespace).await {
            Ok(catalogs) => {
                let body = listing::body(catalogs, namespace.map(str::to_owned), selector, form, reader);
                ([(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Err(refusal) => refused(refusal),
        }
    }

    async fn one(
        &self,
        user: &User,
        namespace: &str,
        name: &str,
        headers: &HeaderMap,
        include_object: &str,
    ) -> Response {
        let Some(form) = Form::of(headers, include_object) else { return not_acceptable() };
        let Ok(_reader) = self.readers.acquire().await else { return busy() };
        let catalogs = match self.catalogs(user, Some(namespace)).await {
            Ok(catalogs) => catalogs,
            Err(refusal) => return refused(refusal),
        };
        let Some((_, found)) = listing::find(catalogs, name, namespace).await else { return none(name) };
        json_answer(
            200,
            &match form {
                Form::Whole => found,
                Form::Metadata => table::metadata(&found),
                Form::Table(rows) => json!({
                    "apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": {},
                    "columnDefinitions": table::columns(),
                    "rows": [table::row(&found, rows, jiff::Timestamp::now())],
                }),
            },
        )
    }

    /// The icon. It changes with the offered version, which clients name by `resourceVersion`.
    async fn icon(
        &self,
        user: &User,
        namespace: &str,
        name: &str,
        headers: &HeaderMap,
        version: &str,
    ) -> Response {
        if headers.contains_key(header::IF_NONE_MATCH) && !version.is_empty() {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        let Ok(_reader) = self.readers.acquire().await else { return busy() };
        let catalogs = match self.catalogs(user, Some(namespace)).await {
            Ok(catalogs) => catalogs,
            Err(refusal) => return refused(refusal),
        };
        let Some((catalog, found)) = listing::find(catalogs, name, namespace).await else {
            return none(name);
        };
        let Ok(Some(icon)) = catalog.loaded.icon(name).await else {
            return ([(header::CONTENT_TYPE, "image/svg+xml")], NO_ICON).into_response();
        };
        let default = &found["status"]["defaultChannel"];
        let channels = found["status"]["channels"].as_array().map(Vec::as_slice).unwrap_or_default();
        let current = channels.iter().find(|c| c["name"] == *default).map(|c| &c["currentCSV"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tag = format!("\"{name}.{}.{}\"", text(default), current.map(text).unwrap_or_default());
        let mut response = ([(header::CONTENT_TYPE, icon.mediatype)], icon.data).into_response();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }

    /// The catalogs that are visible from a namespace and that the user may read, its own before the global
    /// ones; without a namespace, all that the user may read.
    async fn catalogs(&self, user: &User, namespace: Option<&str>) -> Result<Vec<Catalog>, Refusal> {
        let ctx = &self.ctx;
        let seen: Vec<LoadedCatalog> = match namespace {
            Some(namespace) => ctx.catalogs.within(&CatalogVisibility::of(namespace, &ctx.namespace, &[])),
            None => ctx.catalogs.all().into_values().filter_map(|entry| entry.loaded).collect(),
        };
        let mut loaded = ctx.reviews.readable(user, seen, |catalog| &catalog.reference).await?;
        loaded.sort_by_key(|catalog| Some(catalog.reference.namespace.as_str()) != namespace);
        let mut sources = self.sources(namespace).await.map_err(Refusal::Unknown)?;
        let source = |loaded: LoadedCatalog| {
            let key = (loaded.reference.namespace.clone(), loaded.reference.name.clone());
            // A catalog that is being deleted is still readable.
            Catalog { source: sources.remove(&key).unwrap_or_default(), loaded }
        };
        Ok(loaded.into_iter().map(source).collect())
    }

    /// The settings of CatalogSources.
    async fn sources(&self, namespace: Option<&str>) -> Result<BTreeMap<Key, Source>, String> {
        let scopes = match namespace {
            None => vec![None],
            Some(namespace) if namespace == self.ctx.namespace => vec![Some(namespace)],
            Some(namespace) => vec![Some(namespace), Some(self.ctx.namespace.as_str())],
        };
        let mut sources = BTreeMap::new();
        for scope in scopes {
            let client = self.ctx.client.clone();
            let api = match scope {
                Some(namespace) => Api::<CatalogSource>::namespaced(client, namespace),
                None => Api::all(client),
            };
            let list = api.list_metadata(&ListParams::default()).await;
            for source in list.map_err(|error| format!("failed to list CatalogSources: {error}"))? {
                let key = (source.namespace().unwrap_or_default(), source.name_any());
                let labels = source.labels().clone();
                sources.insert(key, Source { labels, created: source.metadata.creation_timestamp });
            }
        }
        Ok(sources)
    }
}

/// The discovery documents of the API.
fn discovery(path: &str) -> Value {
    let version = json!({ "groupVersion": api_version(), "version": VERSION });
    let group = json!({ "name": GROUP, "versions": [version], "preferredVersion": version });
    match path.trim_matches('/').split('/').collect::<Vec<_>>()[..] {
        ["apis"] => json!({ "apiVersion": "v1", "kind": "APIGroupList", "groups": [group] }),
        ["apis", _] => {
            let mut group = group;
            group["apiVersion"] = "v1".into();
            group["kind"] = "APIGroup".into();
            group
        }
        ["apis", _, _] => json!({
            "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": api_version(),
            "resources": [
                { "name": RESOURCE, "singularName": "packagemanifest", "namespaced": true, "kind": KIND, "verbs": ["get", "list"] },
                { "name": format!("{RESOURCE}/icon"), "singularName": "", "namespaced": true, "kind": KIND, "verbs": ["get"] },
            ],
        }),
        // No schema is published: the objects are read-only.
        ["openapi", "v3"] => json!({ "paths": {} }),
        ["openapi", "v2"] => {
            json!({ "swagger": "2.0", "info": { "title": GROUP, "version": VERSION }, "paths": {} })
        }
        ["version"] => json!({ "gitVersion": format!("v{}", env!("CARGO_PKG_VERSION")) }),
        _ => json!({ "paths": ["/apis", format!("/apis/{GROUP}"), format!("/apis/{}", api_version())] }),
    }
}

/// The parameters of a URL.
fn query(text: &str) -> BTreeMap<String, String> {
    let url = format!("http://x/?{text}");
    let uri: Result<http::Uri, _> = url.parse();
    let query =
        uri.ok().and_then(|uri| axum::extract::Query::<BTreeMap<String, String>>::try_from_uri(&uri).ok());
    query.map(|query| query.0).unwrap_or_default()
}

fn json_answer(code: u16, value: &Value) -> Response {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn status(code: u16, reason: &str, message: &str) -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    json_answer(code, &status)
}

fn none(name: &str) -> Response {
    let mut response = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": format!("{RESOURCE}.{GROUP} {name:?} not found"), "reason": "NotFound", "code": 404,
    });
    response["details"] = json!({ "name": name, "group": GROUP, "kind": RESOURCE });
    json_answer(404, &response)
}

fn not_acceptable() -> Response {
    status(406, "NotAcceptable", "only the following media types are accepted: application/json")
}

fn busy() -> Response {
    status(503, "ServiceUnavailable", "the server is shutting down")
}

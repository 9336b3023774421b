//! Handles one request from arrival to response.

use std::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicI64, Ordering},
};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use olm_devcluster_machinery::backend::NodeBackend;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    aggregation::{self, Aggregation},
    authn::{self, Identity, TokenAuthenticator, Tokens},
    authz::{self, Attributes},
    discovery, faults,
    format::Format,
    kinds, nodes,
    policies::Policies,
    registry::{Registry, Resource},
    request::{Info, Query},
    request_counts::RequestCounts,
    rest, reviews, rights,
    status::{ApiError, ApiResult, json_response},
    store::Store,
    texts::Texts,
    watch,
    webhooks::{self, Webhooks},
};

/// Kubernetes' limit of 3 MiB.
const MAX_BODY: usize = 3 << 20;

/// State shared by requests.
pub(crate) struct Server {
    pub store: Store,
    pub registry: Registry,
    pub tokens: Tokens,
    pub authenticator: RwLock<Option<Arc<dyn TokenAuthenticator>>>,
    pub backend: RwLock<Option<Arc<dyn NodeBackend>>>,
    pub shutdown: CancellationToken,
    /// Held while a Service gets its addresses, so that each is allocated once.
    pub addresses: Arc<tokio::sync::Mutex<()>>,
    /// Held while the registry is updated to the stored CRDs.
    pub definitions: Mutex<()>,
    /// Time of the last purge of events, in seconds since 1970.
    pub purged: AtomicI64,
    pub webhooks: Webhooks,
    pub policies: Policies,
    pub texts: Texts,
    pub aggregation: Aggregation,
    pub rights: RequestCounts,
}

/// A request to a resource, with the context of its handler.
pub(crate) struct Call<'a> {
    pub server: &'a Arc<Server>,
    pub resource: &'a Arc<Resource>,
    pub info: &'a Info,
    pub query: &'a Query,
    pub who: &'a Identity,
    pub headers: &'a HeaderMap,
    pub format: Format,
    pub warnings: Mutex<Vec<String>>,
}

impl Call<'_> {
    /// A warning for the user, shown by kubectl; does not change the outcome.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub(crate) fn dry_run(&self) -> ApiResult<bool> {
        match self.query.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let message = format!("dryRun: Unsupported value: \"{other}\": supported values: \"All\"");
                Err(ApiError::new(422, "Invalid", message))
            }
        }
    }
}

impl Server {
    pub(crate) fn backend(&self) -> Option<Arc<dyn NodeBackend>> {
        self.backend.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a minute has passed since the last purge of events; a caller that gets true performs it.
    pub(crate) fn purge_is_due(&self) -> bool {
        let (now, last) = (super::meta::now_unix(), self.purged.load(Ordering::Relaxed));
        now - last > 60
            && self.purged.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) async fn handle(self: &Arc<Self>, request: Request) -> Response {
        Aggregation::start_checks(self);
        let (parts, body) = request.into_parts();
        let head = parts.method == http::Method::HEAD;
        let mut response = match self.route(parts, body).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        };
        if head {
            *response.body_mut() = Body::empty();
        }
        response
    }

    async fn route(self: &Arc<Self>, mut parts: Parts, body: Body) -> ApiResult<Response> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let mut info = Info::parse(&parts.method, parts.uri.path(), &query);
        let known = parts.extensions.get::<Identity>().cloned();
        let external = match authn::bearer(&parts.headers) {
            Some(token) => authn::external(self, token).await,
            None => None,
        };
        let who = authn::identify(&self.tokens, &self.store, &parts.headers, known, external)?;
        if matches!(info.verb.as_str(), "list" | "watch" | "deletecollection")
            && let Some(name) = only_name(query.get("fieldSelector"))
        {
            // As in Kubernetes, a list of one named object needs only the permission for that object.
            info.name = name;
        }
        self.authorize(&who, &info)?;
        if info.resource == "pods" && info.subresource == "portforward" && info.verb == "get" {
            // WebSockets begin with GET: without this, a permission to read would open connections
            // (Kubernetes since 1.35).
            self.authorize(&who, &Info { verb: "create".to_owned(), ..info.clone() })?;
        }
        if matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
            info.name.clear();
        }
        if let Some(remote) = self.aggregation.find(&info.path) {
            return aggregation::forward(self, &remote, &parts, body, &who).await;
        }
        if let Some(remote) =
            info.path.strip_prefix("/openapi/v3").and_then(|path| self.aggregation.find(path))
        {
            return aggregation::fetch_openapi(self, &remote).await;
        }
        if info.path == olm_devcluster_machinery::fault::PATH {
            return faults::serve(self, &parts.method, body).await;
        }
        if info.path.starts_with(rights::PATH) {
            return self.rights.serve(&parts.method, &info.path);
        }
        if !info.is_resource {
            return discovery::serve(self, &info, &parts.method, &parts.headers);
        }
        if info.verb.is_empty() {
            return Err(ApiError::method_not_allowed());
        }
        if let Some(review) = review_of(&info) {
            return reviews::serve(self, review, &info, &who, &parts.headers, &read_body(body).await?).await;
        }
        let served = self.registry.served();
        let nobodys = || unserved(&info.group);
        let resource = served.find(&info.group, &info.version, &info.resource).ok_or_else(nobodys)?;
        if resource.namespaced && info.namespace.is_empty() && !matches!(info.verb.as_str(), "list" | "watch")
        {
            return Err(if info.verb == "create" || info.verb == "deletecollection" {
                ApiError::method_not_allowed()
            } else {
                nobodys()
            });
        }
        if !resource.namespaced && !info.namespace.is_empty() && info.resource != "namespaces" {
            return Err(nobodys());
        }
        let needs_node =
            matches!(info.subresource.as_str(), "log" | "exec" | "proxy" | "attach" | "portforward");
        if needs_node && resource.group.is_empty() {
            if matches!(info.subresource.as_str(), "exec" | "portforward" | "proxy") {
                // Connections cannot carry warnings.
                let warnings = Mutex::default();
                webhooks::connect(self, resource, &info, &query, &who, &warnings).await?;
            }
            return nodes::serve(self, &mut parts, body, &info, &query).await;
        }
        let format = Format::negotiate(&parts.headers, query.get("includeObject"))?;
        format.check(resource, matches!(info.verb.as_str(), "list" | "deletecollection"), &info.verb)?;
        let call = Call {
            server: self,
            resource,
            info: &info,
            query: &query,
            who: &who,
            headers: &parts.headers,
            format,
            warnings: Mutex::default(),
        };
        deprecation(&call);
        let mut response = self.dispatch(&call, body).await?;
        let warnings = call.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        for text in warnings {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        Ok(response)
    }

    fn authorize(&self, who: &Identity, info: &Info) -> ApiResult<()> {
        let wanted = Attributes::of(info);
        let allowed = authz::check(&self.store, who, &wanted);
        self.rights.note(who, &wanted, allowed.is_ok());
        allowed
    }

    async fn dispatch(self: &Arc<Self>, call: &Call<'_>, body: Body) -> ApiResult<Response> {
        let info = call.info;
        match (info.subresource.as_str(), info.verb.as_str()) {
            ("", "list") => super::list::list(call).await,
            ("", "watch") => watch::watch(call).await,
            ("", "get") => rest::get(call).await,
            ("", "create") if info.name.is_empty() => rest::create(call, &read_body(body).await?).await,
            ("", "update") if !info.name.is_empty() => rest::update(call, &read_body(body).await?).await,
            ("", "patch") if !info.name.is_empty() => rest::patch(call, &read_body(body).await?).await,
            ("", "delete") => super::delete::delete(call, &read_body(body).await?).await,
            ("", "deletecollection") => super::delete::delete_collection(call, &read_body(body).await?).await,
            ("", _) => Err(ApiError::method_not_allowed()),
            ("status", verb) if call.resource.status => match verb {
                "get" => rest::get(call).await,
                "update" => rest::update(call, &read_body(body).await?).await,
                "patch" => rest::patch(call, &read_body(body).await?).await,
                _ => Err(ApiError::method_not_allowed()),
            },
            ("scale", verb) if call.resource.scale.is_some() => match verb {
                "get" => super::scale::get(call).await,
                "update" => super::scale::update(call, &read_body(body).await?).await,
                "patch" => super::scale::patch(call, &read_body(body).await?).await,
                _ => Err(ApiError::method_not_allowed()),
            },
            ("finalize", "update") if call.resource.is("", "namespaces") => {
                rest::update(call, &read_body(body).await?).await
            }
            ("binding", "create") if call.resource.is("", "pods") => {
                rest::bind(call, &read_body(body).await?).await
            }
            ("token", "create") if call.resource.is("", "serviceaccounts") => {
                reviews::token_request(call, &read_body(body).await?)
            }
            ("eviction", "create") if call.resource.is("", "pods") => {
                super::eviction::evict(call, &read_body(body).await?).await
            }
            ("ephemeralcontainers" | "resize", _) if call.resource.is("", "pods") => {
                Err(ApiError::not_implemented(&format!("pods/{}", info.subresource)))
            }
            _ => Err(ApiError::no_route()),
        }
    }
}

/// The error of a path in a group without a served resource.
pub(crate) fn unserved(group: &str) -> ApiError {
    let built_in = kinds::BUILTINS.iter().any(|builtin| builtin.group == group)
        || kinds::REVIEWS.iter().any(|review| review.group == group);
    if built_in { ApiError::no_route() } else { ApiError::page_not_found() }
}

/// The name in a field selector that selects one object by name.
fn only_name(selector: &str) -> Option<String> {
    selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        Some(value.trim_start_matches('=').to_owned())
    })
}

fn review_of(info: &Info) -> Option<&'static kinds::Review> {
    kinds::REVIEWS.iter().find(|r| r.group == info.group && r.plural == info.resource && info.version == "v1")
}

fn deprecation(call: &Call<'_>) {
    if let Some(version) = call.resource.custom().filter(|v| v.deprecated) {
        let usual = || format!("{} {} is deprecated", call.resource.api_version(), call.resource.kind);
        call.warn(version.deprecation_warning.clone().unwrap_or_else(usual));
    }
}

/// Reads a body of limited size.
pub(crate) async fn read_body(body: Body) -> ApiResult<Bytes> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(ApiError::too_large(format!("Request entity too large: limit is {MAX_BODY}")))
        }
        Err(error) => Err(ApiError::bad_request(format!("failed to read the request body: {error}"))),
    }
}

/// Decodes a body: JSON, YAML or Kubernetes' protobuf.
pub(crate) fn decode(headers: &HeaderMap, bytes: &[u8]) -> ApiResult<Value> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
    let media = media.split(';').next().unwrap_or_default().trim();
    match media {
        "application/json" | "*/*" | "" => serde_json::from_slice(bytes).map_err(|error| {
            ApiError::bad_request(format!("failed to decode the request body as JSON: {error}"))
        }),
        "application/yaml" | "application/x-yaml" | "text/yaml" => yaml(bytes),
        "application/vnd.kubernetes.protobuf" => super::protobuf::decode(bytes),
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf (got {other})"
        ))),
    }
}

pub(crate) fn yaml(bytes: &[u8]) -> ApiResult<Value> {
    serde_yaml::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("failed to decode the request body as YAML: {error}")))
}

/// A JSON response.
pub(crate) fn answer(code: u16, value: &Value) -> Response {
    json_response(code, value)
}

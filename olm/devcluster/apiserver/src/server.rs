//! The router: handles one request from arrival to response.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header, request::Parts};

use super::{
    aggregation,
    authn::{self, Identity},
    authz::{self, Attributes},
    body::read_body,
    builtin::Review,
    call::Call,
    delete,
    discovery::{self, unserved},
    eviction, faults,
    format::Format,
    kinds, list, nodes,
    request::{Info, Query},
    rest, reviews, rights, scale,
    state::Server,
    status::{ApiError, ApiResult},
    watch, webhooks,
};

impl Server {
    pub(crate) async fn handle(self: &Arc<Self>, request: Request) -> Response {
        aggregation::start_checks(self);
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
            Some(token) => self.external_user(token).await,
            None => None,
        };
        let caller = authn::identify(&self.tokens, &self.store, &parts.headers, known, external)?;
        if matches!(info.verb.as_str(), "list" | "watch" | "deletecollection")
            && let Some(name) = only_name(query.get("fieldSelector"))
        {
            // As in Kubernetes, a list of one named object needs only the permission for that object.
            info.name = name;
        }
        self.authorize(&caller, &info)?;
        if info.resource == "pods" && info.subresource == "portforward" && info.verb == "get" {
            // WebSockets begin with GET: without this, a permission to read would open connections
            // (Kubernetes since 1.35).
            self.authorize(&caller, &Info { verb: "create".to_owned(), ..info.clone() })?;
        }
        if matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
            info.name.clear();
        }
        if let Some(remote) = self.aggregation.find(&info.path) {
            return aggregation::forward(self, &remote, &parts, body, &caller).await;
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
            return self.request_counts.serve(&parts.method, &info.path);
        }
        if !info.is_resource {
            return discovery::serve(self, &info, &parts.method, &parts.headers);
        }
        if info.verb.is_empty() {
            return Err(ApiError::method_not_allowed());
        }
        if let Some(review) = review_of(&info) {
            return reviews::serve(self, review, &info, &caller, &parts.headers, &read_body(body).await?)
                .await;
        }
        let served = self.registry.served();
        let not_served = || unserved(&info.group);
        let resource = served.find(&info.group, &info.version, &info.resource).ok_or_else(not_served)?;
        if resource.namespaced && info.namespace.is_empty() && !matches!(info.verb.as_str(), "list" | "watch")
        {
            return Err(if info.verb == "create" || info.verb == "deletecollection" {
                ApiError::method_not_allowed()
            } else {
                not_served()
            });
        }
        if !resource.namespaced && !info.namespace.is_empty() && info.resource != "namespaces" {
            return Err(not_served());
        }
        let needs_node =
            matches!(info.subresource.as_str(), "log" | "exec" | "proxy" | "attach" | "portforward");
        if needs_node && resource.group.is_empty() {
            if matches!(info.subresource.as_str(), "exec" | "portforward" | "proxy") {
                // Connections cannot carry warnings.
                let warnings = Mutex::default();
                webhooks::connect(self, resource, &info, &query, &caller, &warnings).await?;
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
            caller: &caller,
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

    fn authorize(&self, caller: &Identity, info: &Info) -> ApiResult<()> {
        let wanted = Attributes::of(info);
        let allowed = authz::check(&self.store, caller, &wanted);
        self.request_counts.note(caller, &wanted, allowed.is_ok());
        allowed
    }

    async fn dispatch(self: &Arc<Self>, call: &Call<'_>, body: Body) -> ApiResult<Response> {
        let info = call.info;
        match (info.subresource.as_str(), info.verb.as_str()) {
            ("", "list") => list::list(call).await,
            ("", "watch") => watch::watch(call).await,
            ("", "get") => rest::get(call).await,
            ("", "create") if info.name.is_empty() => rest::create(call, &read_body(body).await?).await,
            ("", "update") if !info.name.is_empty() => rest::update(call, &read_body(body).await?).await,
            ("", "patch") if !info.name.is_empty() => rest::patch(call, &read_body(body).await?).await,
            ("", "delete") => delete::delete(call, &read_body(body).await?).await,
            ("", "deletecollection") => delete::delete_collection(call, &read_body(body).await?).await,
            ("", _) => Err(ApiError::method_not_allowed()),
            ("status", verb) if call.resource.status => match verb {
                "get" => rest::get(call).await,
                "update" => rest::update(call, &read_body(body).await?).await,
                "patch" => rest::patch(call, &read_body(body).await?).await,
                _ => Err(ApiError::method_not_allowed()),
            },
            ("scale", verb) if call.resource.scale.is_some() => match verb {
                "get" => scale::get(call).await,
                "update" => scale::update(call, &read_body(body).await?).await,
                "patch" => scale::patch(call, &read_body(body).await?).await,
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
                eviction::evict(call, &read_body(body).await?).await
            }
            ("ephemeralcontainers" | "resize", _) if call.resource.is("", "pods") => {
                Err(ApiError::not_implemented(&format!("pods/{}", info.subresource)))
            }
            _ => Err(ApiError::no_route()),
        }
    }
}

/// The name in a field selector that selects one object by name.
fn only_name(selector: &str) -> Option<String> {
    selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        Some(value.trim_start_matches('=').to_owned())
    })
}

fn review_of(info: &Info) -> Option<&'static Review> {
    kinds::REVIEWS.iter().find(|r| r.group == info.group && r.plural == info.resource && info.version == "v1")
}

fn deprecation(call: &Call<'_>) {
    if let Some(version) = call.resource.custom().filter(|v| v.deprecated) {
        let usual = || format!("{} {} is deprecated", call.resource.api_version(), call.resource.kind);
        call.warn(version.deprecation_warning.clone().unwrap_or_else(usual));
    }
}

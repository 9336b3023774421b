//! Discovery: versions, groups, resources, OpenAPI, health.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, Method, header};
use olm_devcluster_machinery::{KUBERNETES_MINOR, KUBERNETES_VERSION, openapi};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    aggregation,
    kinds::{BUILTINS, REVIEWS, SUBRESOURCES},
    registry::Served,
    request::Info,
    resource::Resource,
    state::Server,
    status::{ApiError, ApiResult, bytes_response, json_response},
};

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// Serves non-resource paths.
pub(crate) fn serve(
    server: &Arc<Server>,
    info: &Info,
    method: &Method,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    if method != Method::GET && method != Method::HEAD {
        return Err(ApiError::method_not_allowed());
    }
    let served = server.registry.served();
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let aggregated =
        accept.split(',').map(str::trim).take_while(|c| *c != "application/json").any(|clause| {
            clause.contains("as=APIGroupDiscoveryList")
                && clause.contains("v=v2")
                && !clause.contains("v=v2beta1")
        });
    let path = info.path.trim_matches('/');
    let segments: Vec<&str> = path.split('/').collect();
    match segments.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => Ok(bytes_response(200, "text/plain; charset=utf-8", "ok")),
        ["version"] => Ok(json_response(200, &version())),
        [""] => Ok(json_response(200, &json!({ "paths": paths(server) }))),
        ["api"] if aggregated => aggregate(server, &served, true),
        ["apis"] if aggregated => aggregate(server, &served, false),
        ["api"] => Ok(json_response(
            200,
            &json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }),
        )),
        ["apis"] => Ok(json_response(
            200,
            &json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups(server) }),
        )),
        ["api", "v1"] => resource_list(&served, "", "v1"),
        ["apis", group] => match groups(server).into_iter().find(|g| g["name"] == *group) {
            Some(mut found) => {
                found["kind"] = "APIGroup".into();
                found["apiVersion"] = "v1".into();
                Ok(json_response(200, &found))
            }
            None => Err(ApiError::page_not_found()),
        },
        ["apis", group, version] => resource_list(&served, group, version),
        ["openapi", "v3"] => Ok(openapi_index(server, &served)),
        ["openapi", "v3", "api", "v1"] => openapi_document(&served, "", "v1"),
        ["openapi", "v3", "apis", group, version] => openapi_document(&served, group, version),
        ["openapi", "v2"] => Ok(openapi_v2(&served, accept)),
        [".well-known", "openid-configuration"] => Ok(json_response(
            200,
            &json!({
                "issuer": super::authn::ISSUER,
                "jwks_uri": format!("{}/openid/v1/jwks", super::authn::ISSUER),
                "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            }),
        )),
        _ => Err(ApiError::page_not_found()),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": KUBERNETES_MINOR.to_string(), "gitVersion": KUBERNETES_VERSION,
        "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" }),
    })
}

/// Groups with their versions, those of extension API servers after this server's own.
fn all_groups(server: &Server) -> Vec<(String, Vec<String>)> {
    let mut groups = server.registry.served().groups();
    aggregation::merge_groups(server, &mut groups);
    groups
}

/// The paths listed at `/`.
pub(crate) fn paths(server: &Server) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for (group, versions) in all_groups(server) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.sort();
    paths
}

fn groups(server: &Server) -> Vec<Value> {
    let one = |(group, versions): (String, Vec<String>)| {
        let versions: Vec<Value> = versions
            .iter()
            .map(|v| json!({ "groupVersion": format!("{group}/{v}"), "version": v }))
            .collect();
        json!({ "name": group, "versions": versions, "preferredVersion": versions[0] })
    };
    all_groups(server).into_iter().map(one).collect()
}

/// `discoveryHash` of kubectl's cache.
fn storage_hash(resource: &Resource) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(&Sha256::digest(resource.stored.as_bytes())[..8])
}

fn resource_list(served: &Served, group: &str, version: &str) -> ApiResult<Response> {
    let mut resources = Vec::new();
    let mut add = |name: String,
                   singular: &str,
                   namespaced: bool,
                   gvk: (&str, &str, &str),
                   verbs: &[&str],
                   resource: Option<&Resource>| {
        let mut entry = json!({ "name": name, "singularName": singular, "namespaced": namespaced, "kind": gvk.2, "verbs": verbs });
        if (gvk.0, gvk.1) != (group, version) {
            entry["group"] = gvk.0.into();
            entry["version"] = gvk.1.into();
        }
        if let Some(resource) = resource {
            if !resource.short_names.is_empty() {
                entry["shortNames"] = json!(resource.short_names);
            }
            if !resource.categories.is_empty() {
                entry["categories"] = json!(resource.categories);
            }
            entry["storageVersionHash"] = storage_hash(resource).into();
        }
        resources.push(entry);
    };
    for r in served.resources.iter().filter(|r| r.group == group && r.version == version) {
        add(r.plural.clone(), &r.singular, r.namespaced, (group, version, &r.kind), VERBS, Some(r));
        for sub in subresources(r) {
            add(
                format!("{}/{}", r.plural, sub.name),
                "",
                r.namespaced,
                (sub.group, sub.version, sub.kind),
                sub.verbs,
                None,
            );
        }
    }
    for review in REVIEWS.iter().filter(|r| r.group == group && version == "v1") {
        let singular = review.kind.to_lowercase();
        add(
            review.plural.to_owned(),
            &singular,
            review.namespaced,
            (group, version, review.kind),
            &["create"],
            None,
        );
    }
    if resources.is_empty() {
        return Err(unserved(group));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(json_response(
        200,
        &json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources }),
    ))
}

struct Sub<'a> {
    name: &'a str,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: &'a [&'a str],
}

fn subresources(resource: &Resource) -> Vec<Sub<'_>> {
    let (group, version) = (resource.group.as_str(), resource.version.as_str());
    let mut all = Vec::new();
    if group.is_empty() {
        for sub in SUBRESOURCES.iter().filter(|s| s.of == resource.plural) {
            let version = if sub.version.is_empty() { version } else { sub.version };
            all.push(Sub { name: sub.name, group: sub.group, version, kind: sub.kind, verbs: sub.verbs });
        }
    }
    if resource.scale.is_some() {
        all.push(Sub {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: "Scale",
            verbs: STATUS_VERBS,
        });
    }
    if resource.status {
        all.push(Sub { name: "status", group, version, kind: &resource.kind, verbs: STATUS_VERBS });
    }
    all
}

/// Aggregated discovery: all resources in one response.
fn aggregate(server: &Server, served: &Served, core: bool) -> ApiResult<Response> {
    let kind =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let resources = |group: &str, version: &str| -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        for r in served.resources.iter().filter(|r| r.group == group && r.version == version) {
            let mut entry = json!({
                "resource": r.plural, "responseKind": kind(group, version, &r.kind), "singularResource": r.singular,
                "scope": if r.namespaced { "Namespaced" } else { "Cluster" }, "verbs": VERBS,
            });
            if !r.short_names.is_empty() {
                entry["shortNames"] = json!(r.short_names);
            }
            if !r.categories.is_empty() {
                entry["categories"] = json!(r.categories);
            }
            let subs: Vec<Value> = subresources(r)
                .iter()
                .map(|s| json!({ "subresource": s.name, "responseKind": kind(s.group, s.version, s.kind), "verbs": s.verbs }))
                .collect();
            if !subs.is_empty() {
                entry["subresources"] = subs.into();
            }
            all.push(entry);
        }
        for review in REVIEWS.iter().filter(|r| r.group == group && version == "v1") {
            all.push(json!({
                "resource": review.plural, "responseKind": kind(group, version, review.kind),
                "singularResource": review.kind.to_lowercase(),
                "scope": if review.namespaced { "Namespaced" } else { "Cluster" }, "verbs": ["create"],
            }));
        }
        all
    };
    let all = if core { vec![(String::new(), vec!["v1".to_owned()])] } else { all_groups(server) };
    let remotes = server.aggregation.remotes();
    let items: Vec<Value> = all
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|v| match remotes.get(&(group.clone(), v.clone())) {
                    None => json!({ "version": v, "resources": resources(group, v), "freshness": "Current" }),
                    Some(remote) => {
                        let offered = server.aggregation.documents(&remote.name);
                        let fresh = remote.available && offered.is_some();
                        let resources = offered.map(|o| o.resources.clone()).unwrap_or_default();
                        let freshness = if fresh { "Current" } else { "Stale" };
                        json!({ "version": v, "resources": resources, "freshness": freshness })
                    }
                })
                .collect();
            let metadata = if group.is_empty() {
                json!({ "creationTimestamp": null })
            } else {
                json!({ "name": group, "creationTimestamp": null })
            };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    let list = json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items });
    let bytes = serde_json::to_vec(&list).unwrap_or_default();
    Ok(bytes_response(200, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", bytes))
}

fn openapi_input<'a>(resource: &'a Resource) -> openapi::Served<'a> {
    openapi::Served {
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        plural: &resource.plural,
        namespaced: resource.namespaced,
        verbs: VERBS,
        schema: resource.custom().map(|custom| custom.schema.source()),
        status: resource.status,
        scale: resource.scale.is_some(),
    }
}

fn document_bytes(served: &Served, group: &str, version: &str) -> Option<Vec<u8>> {
    let inputs: Vec<_> = served
        .resources
        .iter()
        .filter(|r| r.group == group && r.version == version)
        .map(|r| openapi_input(r))
        .collect();
    if inputs.is_empty() {
        return None;
    }
    serde_json::to_vec(&openapi::document_v3(group, version, &inputs)).ok()
}

/// A hash of a document's inputs: cheaper than the document, and changes with it.
fn document_hash(served: &Served, group: &str, version: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    for r in served.resources.iter().filter(|r| r.group == group && r.version == version) {
        hash.update(&r.plural);
        hash.update(&r.kind);
        hash.update([u8::from(r.namespaced), u8::from(r.status), u8::from(r.scale.is_some())]);
        if let Some(custom) = r.custom() {
            hash.update(custom.schema.source().to_string());
        }
    }
    hash.finalize().iter().map(|b| format!("{b:02X}")).collect()
}

fn openapi_index(server: &Server, served: &Served) -> Response {
    let mut documents = vec![("api/v1".to_owned(), document_hash(served, "", "v1"))];
    for (group, versions) in served.groups() {
        for version in versions {
            if served.resources.iter().any(|r| r.group == group && r.version == version) {
                documents.push((format!("apis/{group}/{version}"), document_hash(served, &group, &version)));
            }
        }
    }
    for remote in server.aggregation.remotes().values() {
        let offered = server.aggregation.documents(&remote.name);
        if let Some(url) = offered.as_ref().and_then(|o| o.openapi.as_deref()) {
            let hash = url.split_once("hash=").map_or("", |(_, hash)| hash);
            documents.push((format!("apis/{}/{}", remote.group, remote.version), hash.to_owned()));
        }
    }
    json_response(200, &openapi::index_v3(&documents))
}

fn openapi_document(served: &Served, group: &str, version: &str) -> ApiResult<Response> {
    let bytes = document_bytes(served, group, version).ok_or_else(ApiError::page_not_found)?;
    Ok(bytes_response(200, "application/json", bytes))
}

fn openapi_v2(served: &Served, accept: &str) -> Response {
    let inputs: Vec<_> = served.resources.iter().map(|r| openapi_input(r)).collect();
    let document = openapi::document_v2(&inputs);
    // As in Kubernetes: the media type of the response is `com.github.proto-openapi.spec.v2@v1.0+protobuf`,
    // which requests use too.
    if accept.contains("protobuf") && !accept.contains("json") {
        let format = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        return bytes_response(200, format, openapi::encode_v2(&document));
    }
    json_response(200, &document)
}

/// The error of a path in a group without a served resource.
pub(crate) fn unserved(group: &str) -> ApiError {
    let built_in = BUILTINS.iter().any(|builtin| builtin.group == group)
        || REVIEWS.iter().any(|review| review.group == group);
    if built_in { ApiError::no_route() } else { ApiError::page_not_found() }
}

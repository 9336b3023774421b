//! Discovery documents of extension API servers, as this server's discovery shows them.

use axum::body::Body;
use axum::response::Response;
use http::{Request, header};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use super::{proxy, registered::RemoteDocuments, remote::Remote};
use crate::{
    authn::Identity,
    meta::{list, text},
    state::Server,
    status::{ApiError, ApiResult, bytes_response},
};

/// Size limit of discovery and OpenAPI documents of one group: large ones have some megabytes.
const MAX_DOCUMENT: usize = 16 << 20;

/// The documents of a remote, from its APIResourceList.
pub(super) fn documents(list: &Value, openapi: Option<String>) -> RemoteDocuments {
    RemoteDocuments { resources: resources(list), openapi }
}

/// Converts to the form of aggregated discovery: subresources below their resources. Untrusted input is
/// normalized, so that one server cannot make the whole response unreadable.
fn resources(document: &Value) -> Vec<Value> {
    let group_version = text(document, "/groupVersion");
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let word = |entry: &Value, key: &str, other: &str| match entry[key].as_str() {
        Some(given) if !given.is_empty() => given.to_owned(),
        _ => other.to_owned(),
    };
    let words = |entry: &Value, key: &str| -> Vec<Value> {
        list(entry, &format!("/{key}")).iter().filter(|v| v.is_string()).cloned().collect()
    };
    let kind = |entry: &Value| {
        json!({
            "group": word(entry, "group", group), "version": word(entry, "version", version),
            "kind": word(entry, "kind", ""),
        })
    };
    let mut all: Vec<Value> = Vec::new();
    for entry in list(document, "/resources") {
        let name = text(entry, "/name");
        let Some((parent, sub)) = name.split_once('/') else {
            let namespaced = entry["namespaced"] == true;
            let mut resource = json!({
                "resource": name, "responseKind": kind(entry), "singularResource": word(entry, "singularName", ""),
                "scope": if namespaced { "Namespaced" } else { "Cluster" }, "verbs": words(entry, "verbs"),
            });
            for key in ["shortNames", "categories"] {
                let given = words(entry, key);
                if !given.is_empty() {
                    resource[key] = given.into();
                }
            }
            all.push(resource);
            continue;
        };
        let subresource =
            json!({ "subresource": sub, "responseKind": kind(entry), "verbs": words(entry, "verbs") });
        if let Some(parent) = all.iter_mut().find(|r| r["resource"] == parent) {
            match parent["subresources"].as_array_mut() {
                Some(subresources) => subresources.push(subresource),
                None => parent["subresources"] = json!([subresource]),
            }
        }
    }
    all
}

/// Adds the groups and versions of extension API servers to those of this server, in their order.
pub(crate) fn merge_groups(server: &Server, groups: &mut Vec<(String, Vec<String>)>) {
    let remotes = server.aggregation.remotes();
    let mut sorted: Vec<_> = remotes.values().collect();
    sorted.sort_by(|a, b| {
        let key = |r: &Remote| (-r.group_priority, r.group.clone(), -r.version_priority, r.version.clone());
        key(a).cmp(&key(b))
    });
    for remote in sorted {
        match groups.iter_mut().find(|(group, _)| *group == remote.group) {
            Some((_, versions)) if versions.contains(&remote.version) => {}
            Some((_, versions)) => versions.push(remote.version.clone()),
            None => groups.push((remote.group.clone(), vec![remote.version.clone()])),
        }
    }
}

/// Purpose of a request to an extension API server. It decides the identity: as in Kubernetes, only one kind
/// of request is made as an administrator; for the others the extension API server has to accept an
/// authenticated user without groups.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// Availability.
    Availability,
    /// Discovery.
    Discovery,
    /// OpenAPI document.
    OpenApi,
}

impl Purpose {
    fn identity(self) -> Identity {
        let (user, groups) = match self {
            Self::Availability => ("system:kube-aggregator", vec!["system:masters".to_owned()]),
            Self::Discovery => ("system:kube-aggregator", Vec::new()),
            Self::OpenApi => ("system:aggregator", Vec::new()),
        };
        Identity { user: user.to_owned(), groups, ..Identity::default() }
    }
}

/// Reads a document of a remote; the error holds the status code or the connection failure.
pub(super) async fn document(
    server: &Server,
    remote: &Remote,
    path: &str,
    purpose: Purpose,
) -> Result<Value, Refused> {
    let endpoint = remote.endpoint.as_ref().map_err(|why| Refused::Unreachable(why.clone()))?;
    let mut request = Request::builder()
        .uri(path)
        .header(header::ACCEPT, "application/json")
        .body(Body::empty())
        .map_err(|error| Refused::Unreachable(error.to_string()))?;
    proxy::identify(request.headers_mut(), &purpose.identity())
        .map_err(|error| Refused::Unreachable(error.message().to_owned()))?;
    let answer = endpoint.send(&server.network(), request).await.map_err(Refused::Unreachable)?;
    let code = answer.status().as_u16();
    if !(200..300).contains(&code) {
        return Err(Refused::Code(code));
    }
    let body = Limited::new(answer.into_body(), MAX_DOCUMENT).collect().await;
    let bytes = body.map_err(|error| Refused::Unreachable(error.to_string()))?.to_bytes();
    Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// A failed request for a document.
#[derive(Debug)]
pub(super) enum Refused {
    Code(u16),
    Unreachable(String),
}

/// The OpenAPI document of a remote.
pub(crate) async fn fetch_openapi(server: &Server, remote: &Remote) -> ApiResult<Response> {
    let path = format!("/openapi/v3/apis/{}/{}", remote.group, remote.version);
    match document(server, remote, &path, Purpose::OpenApi).await {
        Ok(document) => Ok(bytes_response(200, "application/json", document.to_string())),
        Err(Refused::Code(404)) => Err(ApiError::no_route()),
        Err(Refused::Code(code)) => {
            Err(ApiError::unavailable(format!("APIService {}: bad status: {code}", remote.name)))
        }
        Err(Refused::Unreachable(why)) => {
            Err(ApiError::unavailable(format!("error trying to reach service: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_documents_become_readable_lists() {
        for odd in
            [Value::Null, json!("x"), json!({"resources": "x"}), json!({"resources": [1, {"name": 2}]})]
        {
            for resource in resources(&odd) {
                assert!(
                    resource["singularResource"].is_string() && resource["verbs"].is_array(),
                    "{resource}"
                );
            }
        }
        let odd = json!({"groupVersion": "a/v1", "resources": [{"name": "x", "verbs": [1, "get"]}, {"name": "y/z"}]});
        let listed = resources(&odd);
        assert_eq!(listed.len(), 1, "a subresource of nothing is none");
        assert_eq!(listed[0]["responseKind"], json!({"group": "a", "version": "v1", "kind": ""}));
        assert_eq!(listed[0]["verbs"], json!(["get"]));
    }
}

//! The server with in-process clients; each test has a separate server.

mod access;
mod admission;
mod aggregation;
mod conversion;
mod crds;
mod disk;
pub(super) mod kubectl;
mod objects;
mod outside;
mod pod_security;
mod policies;
mod portforward;
mod quota;
mod rules;
mod storage;
mod watches;

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use super::{ApiServer, Config, Identity};

/// A server in memory and an administrator's client.
fn server() -> (ApiServer, Client) {
    let server = ApiServer::open(Config::default()).expect("a server in memory always opens");
    let client = server.client(Identity::admin());
    (server, client)
}

/// Sends a request unchanged; returns code and body.
async fn send(
    server: &ApiServer,
    caller: Identity,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> (u16, Value) {
    let (code, _, body) = send_full(server, caller, method, path, headers, body).await;
    (code, body)
}

async fn send_full(
    server: &ApiServer,
    caller: Identity,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> (u16, Vec<String>, Value) {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let mut request = http::Request::builder().method(method).uri(path).extension(caller);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).expect("JSON") };
    let request = request.body(axum::body::Body::from(bytes)).expect("a valid request");
    let response = server.router().oneshot(request).await.expect("the router cannot fail");
    let code = response.status().as_u16();
    let warnings =
        response.headers().get_all("warning").iter().map(|v| v.to_str().expect("text").to_owned()).collect();
    let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (code, warnings, serde_json::from_slice(&bytes).unwrap_or(Value::String(text)))
}

async fn post(server: &ApiServer, path: &str, body: Value) -> (u16, Value) {
    send(server, Identity::admin(), "POST", path, &[], body).await
}

async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    send(server, Identity::admin(), "GET", path, &[], Value::Null).await
}

async fn patch(server: &ApiServer, kind: &str, path: &str, body: Value) -> (u16, Value) {
    let media = format!("application/{kind}");
    send(server, Identity::admin(), "PATCH", path, &[("content-type", &media)], body).await
}

async fn delete(server: &ApiServer, path: &str) -> (u16, Value) {
    send(server, Identity::admin(), "DELETE", path, &[], Value::Null).await
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": name}}, "data": {"a": "1"}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
    }})
}

async fn service_account(server: &ApiServer, namespace: &str, name: &str) {
    let (code, body) = post(
        server,
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        json!({"metadata": {"name": name}}),
    )
    .await;
    assert_eq!(code, 201, "{body}");
}

fn cron_tab_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["cronSpec"], "properties": {
                        "cronSpec": {"type": "string"}, "image": {"type": "string", "default": "img"},
                        "replicas": {"type": "integer", "maximum": 7},
                    }},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

fn cron_tabs(client: &Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("stable.example.com", "v1", "CronTab");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk_with_plural(&gvk, "crontabs"))
}

fn params() -> PostParams {
    PostParams::default()
}

//! A cluster without answers from the API server delays no other.

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::super::*;
use crate::addressing::InCluster;
use crate::lease;

const STUCK: usize = 20;
const GOOD: &str = "quick";

/// Time and kind of each created object.
type Created = mpsc::UnboundedSender<(String, String)>;

fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "1" },
        "spec": { "size": 1 }
    })
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

/// The part of an API server that an observation needs. Lists for the stuck clusters are never answered.
async fn serve(State(created): State<Created>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let kind = path.rsplit('/').next().unwrap_or_default().to_owned();
    if query.contains("watch=true") {
        return Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>())
            .into_response();
    }
    if query.contains("etcd_cluster%3Dstuck") {
        std::future::pending::<()>().await;
    }
    let names = || (0..STUCK).map(|n| format!("stuck-{n}")).chain([GOOD.to_owned()]);
    match parts.method {
        Method::GET if kind == "etcdclusters" => {
            let items: Vec<Value> = names().map(|name| cluster(&name)).collect();
            answer(
                StatusCode::OK,
                &json!({ "kind": "List", "metadata": { "resourceVersion": "1" }, "items": items }),
            )
        }
        Method::GET if names().any(|name| name == kind) => answer(StatusCode::OK, &cluster(&kind)),
        Method::GET if path.contains("/leases/") || path.contains("/poddisruptionbudgets/") => answer(
            StatusCode::NOT_FOUND,
            &json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found" }),
        ),
        Method::GET => answer(
            StatusCode::OK,
            &json!({ "kind": "List", "metadata": { "resourceVersion": "1" }, "items": [] }),
        ),
        Method::PATCH => answer(StatusCode::OK, &cluster(GOOD)),
        _ => {
            let bytes = to_bytes(body, 1 << 20).await.unwrap_or_default();
            let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let owner = object["metadata"]["labels"]["etcd_cluster"].as_str().unwrap_or_default().to_owned();
            let _ = created.send((kind, owner));
            answer(StatusCode::CREATED, &object)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unresponsive_clusters_delay_no_other() {
    let (created, mut news) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(serve).with_state(created);
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let stop = CancellationToken::new();
    let elector = lease::elector(&client, "shop", lease::NAME, "test");
    assert!(elector.acquire(&stop).await.is_some());
    let scope = Scope::Namespaces(vec!["shop".into()]);
    let context = Context::new(client, Arc::new(InCluster), elector, Arc::default(), scope, None);
    let work = tokio::spawn(run(Arc::new(context), stop.clone()));

    // The limit only bounds a failure: without blocking between clusters this takes no time.
    let pod = async {
        loop {
            let (kind, owner) = news.recv().await.unwrap();
            if kind == "pods" {
                return owner;
            }
        }
    };
    let owner = tokio::time::timeout(Duration::from_secs(120), pod)
        .await
        .expect("the quick cluster waits for the others");
    assert_eq!(owner, GOOD);
    stop.cancel();
    work.abort();
    server.abort();
}

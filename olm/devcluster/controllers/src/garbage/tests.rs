use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::*;
use crate::inventory::{Kind, graph::Identity};

fn node(kind: &str, namespace: &str, name: &str, owners: &[(&str, &str, bool)]) -> Node {
    Node {
        id: Identity {
            kind: Arc::new(Kind::for_tests("v1", kind, !namespace.is_empty())),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
        },
        owners: owners
            .iter()
            .map(|(kind, name, block)| -> OwnerReference {
                serde_json::from_value(json!({
                    "apiVersion": "v1", "kind": kind, "name": name, "uid": name, "blockOwnerDeletion": block,
                }))
                .unwrap()
            })
            .collect(),
        deleting: false,
        finalizers: Vec::new(),
    }
}

fn going(mut node: Node, finalizer: &str) -> Node {
    node.deleting = true;
    node.finalizers = vec![finalizer.to_owned()];
    node
}

fn graph(nodes: &[Node]) -> Graph {
    let mut graph = Graph::default();
    for node in nodes {
        graph.insert(node.clone());
    }
    graph
}

fn owner_of(graph: &Graph, node: &Node) -> Owner {
    graph.owner(node, &node.owners[0])
}

#[test]
fn owners_are_looked_up_by_uid_and_place() {
    let map = node("ConfigMap", "n", "m", &[("Secret", "s", false)]);
    assert_eq!(owner_of(&graph(&[]), &map), Owner::Unknown);
    assert_eq!(owner_of(&graph(&[node("Secret", "n", "s", &[])]), &map), Owner::Solid);
    assert_eq!(
        owner_of(&graph(&[node("Secret", "elsewhere", "s", &[])]), &map),
        Owner::Unknown,
        "wrong namespace"
    );
    assert_eq!(owner_of(&graph(&[node("Pod", "n", "s", &[])]), &map), Owner::Unknown, "wrong kind");
    let cluster = node("ConfigMap", "n", "m", &[("Node", "s", false)]);
    assert_eq!(owner_of(&graph(&[node("Node", "", "s", &[])]), &cluster), Owner::Solid);
}

#[test]
fn a_foreground_owner_waits_for_its_blocking_dependents() {
    let owner = going(node("Secret", "n", "s", &[]), FOREGROUND);
    let blocking = node("ConfigMap", "n", "m", &[("Secret", "s", true)]);
    let other = node("ConfigMap", "n", "o", &[("Secret", "s", false)]);
    let graph = graph(&[owner, blocking.clone(), other.clone()]);
    assert_eq!(owner_of(&graph, &blocking), Owner::Waiting);
    assert_eq!(owner_of(&graph, &other), Owner::Solid);
    assert!(Graph::blocks(&blocking, "s"));
    assert!(!Graph::blocks(&other, "s"));
}

#[test]
fn verdicts() {
    let graph = graph(&[node("ConfigMap", "n", "child", &[("ConfigMap", "parent", false)])]);
    let leaf = node("ConfigMap", "n", "leaf", &[]);
    let parent = node("ConfigMap", "n", "parent", &[]);
    let judge = |node: &Node, owners: &[(&str, Owner)]| {
        let owners: Vec<_> = owners.iter().map(|(uid, owner)| ((*uid).to_owned(), *owner)).collect();
        graph.decide(node, &owners)
    };
    assert_eq!(judge(&leaf, &[]), GarbageAction::Keep);
    assert_eq!(judge(&leaf, &[("a", Owner::Solid)]), GarbageAction::Keep);
    assert_eq!(judge(&leaf, &[("a", Owner::Absent)]), GarbageAction::Delete(Policy::Background));
    assert_eq!(
        judge(&leaf, &[("a", Owner::Absent), ("b", Owner::Unknown)]),
        GarbageAction::Keep,
        "unsure means keep"
    );
    assert_eq!(
        judge(&leaf, &[("a", Owner::Absent), ("b", Owner::Solid)]),
        GarbageAction::Forget(vec!["a".to_owned()])
    );
    assert_eq!(judge(&leaf, &[("a", Owner::Waiting)]), GarbageAction::Delete(Policy::Background));
    assert_eq!(judge(&parent, &[("a", Owner::Waiting)]), GarbageAction::Delete(Policy::Foreground));
    let mut orphaning = leaf.clone();
    orphaning.finalizers = vec![ORPHAN.to_owned()];
    assert_eq!(judge(&orphaning, &[("a", Owner::Absent)]), GarbageAction::Delete(Policy::Orphan));
}

#[test]
fn affected_objects() {
    let owner = node("Secret", "n", "s", &[]);
    let child = node("ConfigMap", "n", "m", &[("Secret", "s", true)]);
    let event =
        |node: &Node, removed: bool| ObjectChange { node: node.clone(), removed, former_owners: Vec::new() };

    let with_owner = graph(&[owner.clone(), child.clone()]);
    assert!(affected(&with_owner, &event(&child, false)).is_empty(), "all is well");
    assert!(affected(&with_owner, &event(&owner, false)).is_empty());

    let without = graph(std::slice::from_ref(&child));
    assert_eq!(affected(&without, &event(&owner, true)), ["m"], "an owner went");
    assert_eq!(affected(&without, &event(&child, false)), ["m"], "an unknown owner");

    let waiting = graph(&[going(owner.clone(), FOREGROUND)]);
    assert_eq!(affected(&waiting, &event(&child, true)), ["s"], "the owner may go now");
    assert_eq!(affected(&waiting, &event(&going(owner, FOREGROUND), false)), ["s"]);
    let mut released = event(&node("ConfigMap", "n", "m", &[]), false);
    released.former_owners = vec!["s".to_owned()];
    assert_eq!(affected(&waiting, &released), ["s"], "it lost what blocked it");
}

#[test]
fn the_graph_drops_removed_objects() {
    let child = node("ConfigMap", "n", "m", &[("Secret", "s", true)]);
    let mut graph = graph(std::slice::from_ref(&child));
    assert_eq!(graph.dependents("s").len(), 1);
    assert_eq!(graph.insert(node("ConfigMap", "n", "m", &[])), ["s"]);
    assert!(graph.dependents("s").is_empty());
    graph.insert(child);
    assert!(graph.remove("m").is_some());
    assert!(graph.remove("m").is_none());
    assert!(graph.dependents("s").is_empty());
}

/// A controller whose server has a dependent and, until it is deleted, its owner; the graph has only the
/// dependent.
fn behind(requests: &Arc<std::sync::Mutex<Vec<String>>>, owner_exists: bool) -> Controller {
    let requests = requests.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        requests.lock().unwrap().push(format!("{method} {path}"));
        let child = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "namespace": "n", "uid": "m",
            "resourceVersion": "1", "ownerReferences": [{ "apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "s" }] } });
        let owner = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "n", "uid": "s" } });
        let (code, answer) = match path.rsplit('/').next() {
            Some("m") => (200, child),
            Some("s") if owner_exists => (200, owner),
            _ => {
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404 });
                (404, status)
            }
        };
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        let response = http::Response::builder().status(code).body(body).unwrap();
        std::future::ready(Ok::<_, std::convert::Infallible>(response))
    });
    let client = Client::new(service, "n");
    let kinds = ["ConfigMap", "Secret"].map(|kind| Kind::for_tests("v1", kind, true));
    let inventory = Inventory::for_tests(client.clone(), kinds.to_vec());
    inventory.graph().insert(node("ConfigMap", "n", "m", &[("Secret", "s", false)]));
    Controller {
        events: Recorder::new(client.clone(), "garbage-collector"),
        queue: Queue::new("garbage"),
        client,
        inventory,
    }
}

#[tokio::test]
async fn an_object_with_an_unwatched_owner_is_rechecked() {
    let requests = Arc::default();
    let recheck = behind(&requests, true).reconcile("m".to_owned()).await.unwrap();
    assert_eq!(recheck, Some(UNWATCHED_OWNER));
    let recheck = behind(&requests, false).reconcile("m".to_owned()).await.unwrap();
    assert_eq!(recheck, None);
    let last = requests.lock().unwrap().last().cloned();
    assert_eq!(last.as_deref(), Some("DELETE /api/v1/namespaces/n/configmaps/m"));
}

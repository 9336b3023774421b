use std::pin::pin;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{WatchEvent, WatchParams},
    runtime::watcher,
};

use super::*;

const CMS: &str = "/api/v1/namespaces/default/configmaps";

fn describe(event: WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(o) => format!("ADDED {}", o.name_any()),
        WatchEvent::Modified(o) => format!("MODIFIED {}", o.name_any()),
        WatchEvent::Deleted(o) => format!("DELETED {}", o.name_any()),
        WatchEvent::Bookmark(b) => {
            format!("BOOKMARK {}", b.metadata.annotations.contains_key("k8s.io/initial-events-end"))
        }
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    }
}

#[tokio::test]
async fn a_watch_sees_what_its_selector_matches() {
    let (server, client) = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let rv = api.list(&Default::default()).await.expect("a list").metadata.resource_version.expect("set");
    let watch = api.watch(&WatchParams::default().labels("app=a"), &rv).await.expect("a watch");
    let mut watch = pin!(watch.map_ok(describe));
    post(&server, CMS, config_map("a")).await;
    post(&server, CMS, config_map("b")).await;
    patch(&server, "merge-patch+json", &format!("{CMS}/a"), json!({"data": {"a": "2"}})).await;
    patch(&server, "merge-patch+json", &format!("{CMS}/a"), json!({"metadata": {"labels": {"app": "x"}}}))
        .await;
    patch(&server, "merge-patch+json", &format!("{CMS}/b"), json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    delete(&server, &format!("{CMS}/b")).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(watch.next().await.expect("an event").expect("valid"));
    }
    assert_eq!(seen, ["ADDED a", "MODIFIED a", "DELETED a", "ADDED b", "DELETED b"]);
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let (server, client) = server();
    post(&server, CMS, config_map("a")).await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let streaming = WatchParams { send_initial_events: true, ..WatchParams::default() };
    let watch = api.watch(&streaming, "0").await.expect("a watch");
    let seen: Vec<String> = watch.map_ok(describe).take(2).try_collect().await.expect("events");
    assert_eq!(seen, ["ADDED a", "BOOKMARK true"]);
}

#[tokio::test]
async fn a_version_before_the_history_is_gone() {
    let (server, client) = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let rv = api.list(&Default::default()).await.expect("a list").metadata.resource_version.expect("set");
    for index in 0..1100 {
        post(&server, CMS, config_map(&format!("c{index}"))).await;
    }
    let (code, body) = get(&server, &format!("{CMS}?watch=true&resourceVersion={rv}")).await;
    assert_eq!((code, &body["reason"]), (410, &json!("Expired")));
    let (code, _) = get(&server, &format!("{CMS}?watch=true&resourceVersion=99999999")).await;
    assert_eq!(code, 504);
}

#[tokio::test]
async fn the_watchers_of_kube_work() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let (server, client) = server();
        post(&server, CMS, config_map("a")).await;
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let mut events = pin!(watcher(api, config));
        let mut names = Vec::new();
        while names.len() < 2 {
            match events.next().await.expect("an event").expect("valid") {
                watcher::Event::InitApply(o) | watcher::Event::Apply(o) => names.push(o.name_any()),
                watcher::Event::InitDone => {
                    post(&server, CMS, config_map("b")).await;
                }
                _ => {}
            }
        }
        assert_eq!(names, ["a", "b"]);
    }
}

#[tokio::test]
async fn shutdown_ends_watches() {
    let (server, client) = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let watch = api.watch(&WatchParams::default(), "0").await.expect("a watch");
    server.shutdown();
    assert_eq!(watch.count().await, 0);
}

/// A single object cannot be shown as a list: an error is better than a watch on which clients would wait
/// forever.
#[tokio::test]
async fn metadata_is_shown_in_the_form_that_fits() {
    let (server, _client) = server();
    post(&server, "/api/v1/namespaces/default/configmaps", config_map("a")).await;
    let accept = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1,application/json");
    let ask = async |kind: &str, path: &str| {
        let accept = accept(kind);
        send(&server, Identity::admin(), "GET", path, &[("accept", &accept)], Value::Null).await
    };
    let (all, one) = ("/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/a");
    let (code, list) = ask("PartialObjectMetadataList", all).await;
    assert_eq!((code, &list["kind"]), (200, &json!("PartialObjectMetadataList")));
    // as in Kubernetes: null instead of an empty list
    let (code, list) = ask("PartialObjectMetadataList", &format!("{all}?labelSelector=a%3Db")).await;
    assert_eq!((code, &list["items"]), (200, &Value::Null));
    assert!(list.as_object().is_some_and(|list| list.contains_key("items")), "{list}");
    let (code, object) = ask("PartialObjectMetadata", one).await;
    assert_eq!((code, &object["kind"]), (200, &json!("PartialObjectMetadata")));
    let (code, error) = ask("PartialObjectMetadataList", one).await;
    assert_eq!(
        (code, &error["message"]),
        (
            406,
            &json!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
            )
        )
    );
    let (code, error) = ask("PartialObjectMetadata", all).await;
    assert_eq!((code, &error["reason"]), (406, &json!("NotAcceptable")));
    // A watch ends at its first event.
    let (code, nothing) = ask("PartialObjectMetadataList", &format!("{all}?watch=true")).await;
    assert_eq!((code, nothing), (200, json!("")));
}

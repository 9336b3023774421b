//! Tabs of an operator, the review of a plan, and keyboard shortcuts.

use http::StatusCode;
use serde_json::json;

use super::{
    Browser,
    fake::{Fake, TOKEN},
    lifecycle::{self, BASE, HOME, failing, upgraded, watch_one_namespace},
};
use crate::{
    api_server::Token,
    rights::{ReviewedRights, Right},
};

const TABS: [&str; 8] =
    ["", "/updates", "/instances", "/workloads", "/permissions", "/history", "/events", "/yaml"];

/// A Deployment with a pod that does not start.
pub(super) fn workload(fake: &Fake) {
    watch_one_namespace(fake);
    let image = "localhost/etcd-operator:0.10.1";
    let template = json!({"metadata": {"labels": {"name": "etcd-operator"}},
        "spec": {"containers": [{"name": "operator", "image": image}]}});
    fake.insert(
        "/apis/apps/v1/namespaces/etcd/deployments/etcd-operator",
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "etcd-operator", "namespace": "etcd", "labels": {"olm.owner": "etcdoperator.v0.10.1"}},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"name": "etcd-operator"}}, "template": template},
            "status": {"replicas": 1}}),
    );
    fake.insert(
        "/api/v1/namespaces/etcd/pods/etcd-operator-1",
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "etcd-operator-1", "namespace": "etcd", "labels": {"name": "etcd-operator"}},
            "spec": {"nodeName": "worker-1", "containers": [{"name": "operator", "image": image}]},
            "status": {"phase": "Pending", "containerStatuses": [{"name": "operator", "image": image, "imageID": "",
                "ready": false, "restartCount": 3,
                "state": {"waiting": {"reason": "ErrImagePull", "message": "manifest <unknown>"}}}]}}),
    );
    fake.insert(
        "/api/v1/namespaces/etcd/events/one",
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "one", "namespace": "etcd"},
            "involvedObject": {"kind": "Pod", "name": "etcd-operator-1"}, "type": "Warning", "reason": "Failed",
            "message": "Error: ErrImagePull", "lastTimestamp": "2026-11-21T10:00:00Z"}),
    );
}

#[tokio::test]
async fn each_tab_has_a_url_one_primary_action_and_at_most_one_banner() {
    for change in [workload, failing, |_: &Fake| {}] {
        let (browser, _) = Browser::at(change).await;
        for tab in TABS {
            let path = format!("{HOME}{tab}");
            let page = browser.get(&path).await;
            assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
            let text = page.text;
            assert!(text.contains(&format!("href=\"{path}\" aria-current=\"page\"")), "{path}: {text}");
            let live = format!("tab={}\"", if tab.is_empty() { "overview" } else { &tab[1..] });
            assert!(text.contains(&live), "{path}: {text}");
            assert!(text.matches("button primary").count() <= 1, "{path}: {text}");
            assert_eq!(text.matches("id=\"banner\"").count(), 1, "{path}: {text}");
        }
    }
    let (browser, _) = Browser::at(|_| {}).await;
    let overview = browser.get(&format!("{HOME}/overview")).await;
    assert_eq!((overview.status, overview.location()), (StatusCode::PERMANENT_REDIRECT, HOME));
    assert_eq!(browser.get(&format!("{HOME}/nothing")).await.status, StatusCode::NOT_FOUND);
    // a healthy operator has no banner
    let (browser, _) = Browser::at(upgraded).await;
    let page = browser.get(HOME).await.text;
    assert!(!page.contains("id=\"banner\"") && page.contains("Create EtcdCluster"), "{page}");
    assert!(page.contains("id=\"progress-done\""), "the progress is one line: {page}");
}

#[tokio::test]
async fn workloads_and_events_are_those_of_the_operator() {
    let (browser, _) = Browser::at(workload).await;
    let deployment = &browser.json(&format!("{HOME}/workloads")).await["deployments"][0];
    assert_eq!((&deployment["ready"], &deployment["replicas"]), (&json!(0), &json!(1)), "{deployment}");
    assert_eq!(deployment["pods"][0]["restarts"], 3, "{deployment}");
    let page = browser.get(&format!("{HOME}/workloads")).await.text;
    for text in [
        "0 of 1 ready",
        "3 restarts",
        "worker-1",
        "container operator, image localhost/etcd-operator:0.10.1: ErrImagePull: manifest &lt;unknown&gt;",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let events = browser.json(&format!("{HOME}/events")).await;
    assert_eq!(events["events"][0]["object"], "Pod etcd-operator-1", "{events}");
    assert!(browser.get(&format!("{HOME}/events")).await.text.contains("Error: ErrImagePull"));
}

#[tokio::test]
async fn a_tab_that_the_user_may_not_read_names_the_missing_rights() {
    let (browser, fake) = Browser::at(workload).await;
    for plural in ["deployments", "pods", "events", "installplans"] {
        fake.deny(plural);
    }
    for (tab, why) in [
        (
            "workloads",
            "Missing permissions: list deployments in namespace etcd; list pods in namespace etcd.",
        ),
        ("events", "Missing permission: list events in namespace etcd."),
        ("yaml", "Missing permission: get installplans in namespace etcd."),
    ] {
        let path = format!("{HOME}/{tab}");
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{tab}");
        // the other tabs stay in reach, and the content is left out
        assert!(page.text.contains(why) && page.text.contains(&format!("{HOME}/history")), "{}", page.text);
        assert!(!page.text.contains("ErrImagePull") && !page.text.contains("apiVersion"), "{}", page.text);
        let json = browser.json(&path).await;
        assert_eq!((&json["code"], &json["why"]), (&json!("forbidden"), &json!(why)), "{json}");
    }
    assert_eq!(browser.get(&format!("{HOME}/permissions")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn redraws_of_a_live_tab_keep_the_reviewed_rights() {
    let fake = lifecycle::scene();
    workload(&fake);
    fake.deny("events");
    let client = fake.api_server().client(&Token::new(TOKEN)).unwrap();
    let mut rights = ReviewedRights::default();
    let list = |group, plural| Right { verb: "list", group, plural, namespace: Some("etcd") };
    let workloads = [list("apps", "deployments"), list("", "pods")];
    let events = [list("", "events")];
    for _ in 0..5 {
        assert_eq!(rights.all_missing(&client, &workloads).await, None);
        let why = rights.all_missing(&client, &events).await;
        assert_eq!(why.as_deref(), Some("Missing permission: list events in namespace etcd."));
    }
    assert_eq!(fake.access_reviews(), 3);
    // a page that is opened is reviewed anew
    fake.allow();
    assert_eq!(ReviewedRights::default().all_missing(&client, &events).await, None);
    assert_eq!(fake.access_reviews(), 4);
}

#[tokio::test]
async fn permissions_are_words_and_yaml_has_no_secrets() {
    let (browser, _) = Browser::at(|fake| {
        watch_one_namespace(fake);
        fake.change(&format!("{BASE}/subscriptions/etcd"), |s| {
            s["metadata"]["labels"] = json!({"olm.managed": "true", "team": "db"});
            s["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
            s["spec"]["config"] = json!({"env": [{"name": "S3_SECRET_KEY", "value": "hunter2"}]});
        });
        fake.change(&format!("{BASE}/clusterserviceversions/etcdoperator.v0.10.1"), |csv| {
            let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]});
            csv["spec"]["install"]["spec"]["clusterPermissions"] =
                json!([{"serviceAccountName": "etcd-operator", "rules": [rule]}]);
        });
    })
    .await;
    let page = browser.get(&format!("{HOME}/permissions")).await.text;
    assert!(page.contains("Reads all Secrets.") && page.contains("get, list secrets"), "{page}");
    assert!(page.contains("whole cluster") && page.contains("in namespace etcd"), "{page}");
    assert!(page.find(">High<").unwrap() < page.find(">Low<").unwrap_or(page.len()), "{page}");
    let list = browser.json(&format!("{HOME}/permissions")).await;
    assert_eq!(list["permissions"][0]["level"], "HIGH", "{list}");

    let page = browser.get(&format!("{HOME}/yaml")).await.text;
    let json = browser.json(&format!("{HOME}/yaml")).await.to_string();
    for hidden in ["hunter2", "managedFields", "olm.managed"] {
        assert!(!page.contains(hidden) && !json.contains(hidden), "{hidden}: {page}");
    }
    assert!(page.contains("team: db") && page.contains("S3_SECRET_KEY"), "{page}");
    for kind in ["Subscription", "ClusterServiceVersion", "InstallPlan"] {
        assert!(page.contains(&format!("id=\"yaml-{kind}\"")), "{kind}: {page}");
    }
}

#[tokio::test]
async fn instances_are_listed_with_their_state() {
    let (browser, _) = Browser::at(|_| {}).await;
    let page = browser.get(&format!("{HOME}/instances")).await.text;
    let href = "/instances/etcdclusters.etcd.database.coreos.com/default/example-etcd-cluster";
    assert!(page.contains(href) && page.contains("Running"), "{page}");
    let json = browser.json(&format!("{HOME}/instances")).await;
    assert_eq!(json["instances"][0]["name"], "example-etcd-cluster", "{json}");
}

#[tokio::test]
async fn a_review_shows_numbers_then_permissions_then_findings_then_objects() {
    let (browser, fake) = Browser::at(watch_one_namespace).await;
    let path = format!("{HOME}/plan");
    let plan = browser.json(&path).await["plan"].clone();
    fake.change(&format!("{BASE}/installplans/install-abc"), |pending| {
        pending["spec"]["planDigest"] = plan["digest"].clone();
    });
    let page = browser.get(&path).await.text;
    let order =
        ["class=\"totals\"", "Added permissions", "Findings", "<h3>Objects</h3>", "class=\"decision\""];
    let places: Vec<usize> =
        order.iter().map(|part| page.find(part).unwrap_or_else(|| panic!("no {part}: {page}"))).collect();
    assert!(places.is_sorted(), "{places:?}: {page}");
    // a group for each kind, with the diff of a changed object
    assert!(page.contains("id=\"plan-kind-CustomResourceDefinition\" open"), "{page}");
    assert!(page.contains("class=\"changes\"") && page.contains("class=\"diff\""), "{page}");
    let skip = format!("href=\"{HOME}/change?what=skip&amp;version=0.11.0\"");
    assert!(page.contains(&skip) && !page.contains(" disabled"), "{page}");
    // without the rights both are disabled, and the rights are named
    fake.deny("installplans");
    fake.deny("subscriptions");
    let page = browser.get(&path).await.text;
    for resource in ["installplans", "subscriptions"] {
        let why = format!("Missing permission: patch {resource} in namespace etcd.");
        assert!(page.contains(&why), "{why}: {page}");
    }
    assert!(!page.contains(&skip) && page.matches(" disabled").count() == 2, "{page}");
}

#[tokio::test]
async fn shortcuts_are_those_of_the_navigation() {
    let (browser, _) = Browser::at(|_| {}).await;
    let page = browser.get("/help/keyboard").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("<a href=\"/installed\" data-key=\"i\">"), "{}", page.text);
    let list = browser.json("/help/keyboard").await["shortcuts"].clone();
    for shortcut in [
        json!({"keys": "g c", "action": "Open Catalog"}),
        json!({"keys": "g a", "action": "Open Activity"}),
        json!({"keys": "?", "action": "Show this list"}),
    ] {
        assert!(list.as_array().unwrap().contains(&shortcut), "{list}");
    }
}

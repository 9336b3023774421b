//! Events and approvals of all operators.

use http::StatusCode;
use serde_json::json;

use super::{
    Browser,
    lifecycle::{BASE, HOME},
};

#[tokio::test]
async fn events_and_approvals_are_listed_newest_first() {
    let (browser, _) = Browser::at(|fake| {
        let event = |name: &str, kind: &str, version: &str, namespace: &str, at: &str| {
            let object = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {"apiVersion": version, "kind": kind, "name": "etcd", "namespace": namespace},
                "type": "Warning", "reason": name, "message": "<b>of the cluster", "lastTimestamp": at,
                "reportingComponent": "olm-manager"});
            fake.insert(&format!("/api/v1/namespaces/{namespace}/events/{name}"), object);
        };
        event("Resolved", "Subscription", "operators.coreos.com/v1alpha1", "etcd", "2026-11-20T10:00:00Z");
        event("Elsewhere", "Subscription", "operators.coreos.com/v1alpha1", "other", "2026-11-20T11:00:00Z");
        // one that imitates an approval, another API group, and another kind
        event("Approved", "Subscription", "operators.coreos.com/v1alpha1", "etcd", "2026-11-20T12:00:00Z");
        event("Alike", "InstallPlan", "operators.coreos.com.example/v1", "etcd", "2026-11-20T12:00:00Z");
        event("Foreign", "Subscription", "messaging.knative.dev/v1", "etcd", "2026-11-20T12:00:00Z");
        event("Pulled", "Pod", "v1", "etcd", "2026-11-20T12:00:00Z");
    })
    .await;
    let log = browser.json("/activity").await;
    let entries: Vec<(&str, &str, Option<&str>)> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str();
            (text("reason").unwrap(), text("who").unwrap(), text("operator"))
        })
        .collect();
    assert_eq!(
        entries,
        [
            ("Elsewhere", "olm-manager", None),
            ("Resolved", "olm-manager", Some("etcd")),
            ("Approved", "ada", Some("etcd")),
            ("Approved", "automatic, requested by ada", Some("etcd")),
        ],
        "{log}"
    );
    let page = browser.get("/activity").await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        &format!("href=\"{HOME}\""),
        "&lt;b&gt;of the cluster",
        "automatic, requested by ada",
        "install etcd 0.9.4",
        "datetime=\"2026-11-20T09:31:00Z\"",
        "<option value=\"other\">",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("Foreign") && !page.text.contains("Pulled"), "{}", page.text);
    // the filter is a query
    let other = browser.json("/activity?namespace=other").await;
    assert_eq!(other["entries"].as_array().unwrap().len(), 1, "{other}");
    let page = browser.get("/activity?namespace=other").await;
    assert!(page.text.contains("<option value=\"other\" selected>"), "{}", page.text);
    let none = browser.get("/activity?namespace=none").await;
    assert!(none.text.contains("No activity") && none.text.contains("href=\"/activity\""), "{}", none.text);
}

#[tokio::test]
async fn an_unapproved_plan_is_no_activity() {
    let (browser, fake) = Browser::etcd().await;
    assert_eq!(browser.json("/activity").await["entries"], json!([]));
    fake.change(&format!("{BASE}/installplans/install-abc"), |plan| {
        plan["spec"]["approved"] = true.into();
        plan["metadata"]["annotations"]["olm.approvedBy"] = "eve".into();
    });
    let log = browser.json("/activity").await;
    assert_eq!(
        (&log["entries"][0]["who"], &log["entries"][0]["time"]),
        (&"eve".into(), &"2026-11-21T09:30:00Z".into())
    );
}

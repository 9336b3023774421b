use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;

/// An API server with one Subscription that logs requests; the first `conflicts` changes are refused.
fn cluster(spec: &Value, conflicts: usize) -> (Client, Arc<Mutex<Vec<Value>>>) {
    let patches: Arc<Mutex<Vec<Value>>> = Arc::default();
    let mut full = json!({ "name": "etcd", "source": "c", "sourceNamespace": "olm" });
    for (key, value) in spec.as_object().unwrap() {
        full[key] = value.clone();
    }
    let subscription = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": { "name": "etcd", "namespace": "db", "uid": "u", "resourceVersion": "7" }, "spec": full,
    });
    let plan = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": { "name": "install-a", "namespace": "db", "ownerReferences": [
            { "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "etcd", "uid": "u" }] },
        "spec": { "approval": "Manual", "approved": false, "clusterServiceVersionNames": ["etcd.v0.11.0"] },
    });
    let kept = Arc::clone(&patches);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (subscription, plan, kept) = (subscription.clone(), plan.clone(), Arc::clone(&kept));
        async move {
            let path = request.uri().path().to_owned();
            let list = |items: Vec<Value>| json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items });
            let (status, body) = if request.method() == http::Method::PATCH {
                let bytes = request.into_body().collect_bytes().await?;
                let mut kept = kept.lock().unwrap();
                kept.push(serde_json::from_slice(&bytes)?);
                if kept.len() <= conflicts {
                    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409, "reason": "Conflict" });
                    (409, body)
                } else {
                    (200, subscription)
                }
            } else if path.ends_with("/subscriptions") {
                (200, list(vec![subscription]))
            } else if path.ends_with("/installplans") {
                (200, list(vec![plan]))
            } else {
                (200, list(vec![]))
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            let response = http::Response::builder().status(status).body(body)?;
            Ok::<_, tower::BoxError>(response)
        }
    });
    (Client::new(service, "default"), patches)
}

fn specs(patches: &Arc<Mutex<Vec<Value>>>) -> Vec<Value> {
    patches.lock().unwrap().iter().map(|patch| patch["spec"].clone()).collect()
}

#[tokio::test]
async fn what_is_offered_is_skipped_when_no_version_is_named() {
    let (client, patches) = cluster(&json!({ "skipVersions": ["0.9.0"] }), 0);
    let setting = set(&client, &[], Some("db"), "etcd", &SettingChange::Skip(vec![])).await.unwrap();
    assert_eq!((setting.changed, setting.text.as_str()), (true, "etcd skips 0.11.0"));
    assert_eq!(specs(&patches), [json!({ "skipVersions": ["0.9.0", "0.11.0"] })]);
    // on condition of the version that was read
    assert_eq!(patches.lock().unwrap()[0]["metadata"]["resourceVersion"], "7");
}

#[tokio::test]
async fn an_existing_setting_is_not_written_again() {
    let (client, patches) = cluster(&json!({ "skipVersions": ["0.9.0"], "paused": true }), 0);
    assert!(
        !set(&client, &[], Some("db"), "etcd", &SettingChange::Skip(vec!["v0.9.0".into()]))
            .await
            .unwrap()
            .changed
    );
    assert!(!set(&client, &[], Some("db"), "etcd", &SettingChange::Pause).await.unwrap().changed);
    assert!(patches.lock().unwrap().is_empty());
    // and reverting is a change
    assert!(
        set(&client, &[], Some("db"), "etcd", &SettingChange::Unskip(vec!["0.9.0".into()]))
            .await
            .unwrap()
            .changed
    );
    assert!(set(&client, &[], Some("db"), "etcd", &SettingChange::Resume).await.unwrap().changed);
    assert_eq!(specs(&patches), [json!({ "skipVersions": [] }), json!({ "paused": null })]);
}

#[tokio::test]
async fn a_change_at_the_same_moment_is_not_written_over() {
    let (client, patches) = cluster(&json!({}), 1);
    assert!(set(&client, &[], Some("db"), "etcd", &SettingChange::Pause).await.unwrap().changed);
    assert_eq!(patches.lock().unwrap().len(), 2, "it is read again and written again");
    let (client, _) = cluster(&json!({}), 100);
    assert!(set(&client, &[], Some("db"), "etcd", &SettingChange::Pause).await.is_err(), "and not for ever");
}

#[tokio::test]
async fn a_pin_outlasts_a_pause_and_is_reported() {
    let pinned = json!({ "paused": true, "version": "=0.10.0", "upgradeConstraintPolicy": "SelfCertified" });
    let (client, patches) = cluster(&pinned, 0);
    let setting = set(&client, &[], Some("db"), "etcd", &SettingChange::Resume).await.unwrap();
    assert!(setting.text.contains("is resumed and pinned to =0.10.0"), "{}", setting.text);
    set(&client, &[], Some("db"), "etcd", &SettingChange::Unpin).await.unwrap();
    assert_eq!(specs(&patches)[1], json!({ "version": null, "upgradeConstraintPolicy": null }));
}

/// The catalog of the Subscription, with two channels.
fn catalogs() -> Vec<LoadedCatalog> {
    let text = "---\n{schema: olm.package, name: etcd, defaultChannel: alpha}\n---\n\
        {schema: olm.channel, package: etcd, name: alpha, entries: [{name: etcd.v0.11.0}]}\n---\n\
        {schema: olm.channel, package: etcd, name: beta, entries: [{name: etcd.v0.11.0}]}\n";
    let content = Arc::new(olm_catalog::Catalog::from_bytes("test", text.as_bytes()));
    vec![LoadedCatalog::new(olm_resolver::CatalogRef::new("olm", "c"), content)]
}

#[tokio::test]
async fn a_channel_that_does_not_exist_is_refused_with_those_that_do() {
    let (client, patches) = cluster(&json!({ "channel": "alpha" }), 0);
    let channel = SettingChange::Channel("nochan".into());
    for error in [
        set(&client, &catalogs(), Some("db"), "etcd", &channel).await.unwrap_err(),
        preview_set(&client, &catalogs(), Some("db"), "etcd", &channel).await.unwrap_err(),
    ] {
        let expected = "channel `nochan` not found in package etcd, which has channels alpha, beta";
        assert_eq!((error.to_string().as_str(), error.kind().exit_code()), (expected, 3));
    }
    // nor is one set that cannot be checked
    let error = set(&client, &[], Some("db"), "etcd", &channel).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { what: "catalog", .. }), "{error}");
    assert!(patches.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_preview_has_the_same_text_and_changes_nothing() {
    let (client, patches) = cluster(&json!({ "channel": "alpha" }), 0);
    let channel = SettingChange::Channel("beta".into());
    let preview = preview_set(&client, &catalogs(), Some("db"), "etcd", &channel).await.unwrap();
    assert!(preview.setting.changed && patches.lock().unwrap().is_empty());
    // the catalog of the test has no bundles for a plan
    assert!(preview.plan.is_none() && preview.problem.is_some());
    let setting = set(&client, &catalogs(), Some("db"), "etcd", &channel).await.unwrap();
    assert_eq!(setting.text, "etcd follows channel beta");
    assert_eq!(setting, preview.setting);
    assert_eq!(specs(&patches), [json!({ "channel": "beta" })]);
    // where nothing is to happen there is no plan, and none is missing
    let paused = preview_set(&client, &[], Some("db"), "etcd", &SettingChange::Pause).await.unwrap();
    assert!(paused.paused && paused.plan.is_none() && paused.problem.is_none());
}

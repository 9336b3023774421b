//! Details of the controller, and many clusters with an API server that does not answer for most of them.

mod many;

use std::sync::Mutex;

use super::*;
use crate::{lease, names};

#[test]
fn a_failure_is_reported_again_only_after_an_interval() {
    let reported_at: Timestamp = "2026-11-21T11:00:00Z".parse().unwrap();
    let degraded = |reason: &str| EtcdClusterStatus {
        conditions: vec![crate::crd::Condition {
            type_: "Degraded".into(),
            status: "True".into(),
            reason: reason.into(),
            message: "failed to create pod a: quota".into(),
            last_update_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(reported_at)),
            ..crate::crd::Condition::default()
        }],
        ..EtcdClusterStatus::default()
    };
    let at = |status: &EtcdClusterStatus, seconds: i64| {
        recent_failure(status, reported_at + jiff::SignedDuration::from_secs(seconds))
    };
    assert_eq!(at(&degraded("ActionFailed"), 30).as_deref(), Some("failed to create pod a: quota"));
    assert_eq!(at(&degraded("ActionFailed"), 61), None);
    assert_eq!(at(&degraded("NoSpace"), 30), None);
    assert_eq!(at(&EtcdClusterStatus::default(), 30), None);
}

#[test]
fn what_etcd_does_not_do_yet_counts_as_done_nowhere() {
    use crate::maintenance::Step;
    use crate::plan::{Progress, Removal};
    let late = Action::RemoveMember {
        id: 7,
        name: "orders-bcdfghjklm".into(),
        via: "orders-mlkjhgfdcb".into(),
        why: Removal::LateLearner("not in sync within ten minutes".into()),
    };
    let compact = Action::Maintain(Step::Compact { revision: 5, via: "orders-mlkjhgfdcb".into() });
    let cluster = validate(&crate::validate::tests::cluster(json!({ "size": 3 }))).unwrap();
    let (old, observed) =
        (EtcdClusterStatus { size: 2, ..EtcdClusterStatus::default() }, Observed::default());
    for action in [late, compact] {
        let mut decision = Decision::act(Progress::ScalingUp, action.clone(), "adding a member");
        let reported = status::status(&old, &cluster, &observed, &decision).learner_failure.is_some();
        assert_eq!(reported, matches!(action, Action::RemoveMember { .. }));
        postpone(&mut decision, "etcdserver: unhealthy cluster");
        // `finish` and the status take the applied action from here.
        assert_eq!(decision.action, None);
        assert_eq!(decision.message, "adding a member; etcdserver: unhealthy cluster");
        assert_eq!(status::status(&old, &cluster, &observed, &decision).learner_failure, None);
    }
}

pub(crate) fn context(elector: &str) -> Context {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
    let elector = lease::elector(&client, "shop", "a", elector);
    let addressing = Arc::new(crate::addressing::InCluster);
    Context::new(client, addressing, elector, Arc::default(), Scope::All, None)
}

#[tokio::test]
async fn a_cluster_whose_turn_comes_while_the_lease_is_late_has_it_a_little_later() {
    let cluster = crate::validate::tests::cluster(json!({ "size": 1 }));
    let turn = reconcile(Arc::new(DeserializeGuard(Ok(cluster))), Arc::new(context("late"))).await;
    assert_eq!(turn.unwrap(), Requeue::requeue(UNLED));
}

#[tokio::test]
async fn contexts_share_the_state_of_a_cluster_until_it_is_deleted() {
    let context = context("me");
    let other = context.with_elector(lease::elector(&context.client, "shop", "b", "me"));
    assert!(Arc::ptr_eq(&context.tls, &other.tls) && Arc::ptr_eq(&context.backups, &other.backups));
    let mut paces = Vec::new();
    for _ in 0..8 {
        paces.push(context.pace("shop/orders", false, None));
        assert_eq!(paces.last(), Some(&other.pace("shop/orders", false, None)), "they count apart");
    }
    assert!(paces[0] < paces[7], "{paces:?}");
    context.metrics.members("shop/orders", 3, 3, true, false);
    assert!(context.metrics.render().contains("orders"));
    context.forget("shop/orders");
    assert_eq!(context.pace("shop/orders", false, None), paces[0], "its quiet looks are forgotten");
    assert!(!context.metrics.render().contains("orders"), "{}", context.metrics.render());
}

#[test]
fn what_is_gone_from_the_status_is_taken_away_by_the_patch() {
    let old = EtcdClusterStatus {
        pending_member: Some("a".into()),
        members: crate::crd::MembersStatus { ready: vec![], unready: vec!["a".into()] },
        ..EtcdClusterStatus::default()
    };
    let new = EtcdClusterStatus { phase: "Running".into(), ..EtcdClusterStatus::default() };
    let patch = differences(&old, &new);
    assert_eq!(patch["pendingMember"], json!(null));
    assert_eq!(patch["members"]["unready"], json!(null));
    assert_eq!(patch["phase"], "Running");
}

#[test]
fn a_stale_observation_does_not_overwrite_fields_of_a_restore() {
    let looked = EtcdClusterStatus {
        cluster_id: Some("aa".into()),
        phase: "Running".into(),
        size: 3,
        reason: "a".into(),
        ..EtcdClusterStatus::default()
    };
    let report = EtcdClusterStatus { ready_members: 1, reason: "b".into(), ..looked.clone() };
    // The restore owns id and size by now: a reconciliation does not write fields that it did not change.
    assert_eq!(differences(&looked, &report), json!({ "readyMembers": 1, "reason": "b" }));
}

#[test]
fn a_status_that_was_not_there_is_written_whole() {
    let new = EtcdClusterStatus { phase: "Creating".into(), ..EtcdClusterStatus::default() };
    assert_eq!(differences(&EtcdClusterStatus::default(), &new), serde_json::to_value(&new).unwrap());
}

#[test]
fn annotated_clusters_belong_to_the_operator_of_the_whole_cluster() {
    let mut cluster = crate::validate::tests::cluster(json!({ "size": 1 }));
    let namespaced = Scope::Namespaces(vec!["shop".into()]);
    assert!(
        namespaced.includes(&cluster)
            && Scope::All.includes(&cluster)
            && !Scope::Annotated.includes(&cluster)
    );
    cluster.annotations_mut().insert(names::ANNOTATION_SCOPE.into(), "clusterwide".into());
    assert!(
        !namespaced.includes(&cluster)
            && Scope::All.includes(&cluster)
            && Scope::Annotated.includes(&cluster)
    );
}

/// An API server that answers one kind of request with an error, and records the patches of the EtcdCluster.
fn failing_api(method: http::Method, resource: &'static str, error: serde_json::Value) -> (Client, Patches) {
    let patches = Patches::default();
    let recorded = patches.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (recorded, error) = (recorded.clone(), error.clone());
        let fails = request.method() == method && request.uri().path().contains(resource);
        async move {
            let (verb, path) = (request.method().clone(), request.uri().path().to_owned());
            let body = request.into_body().collect_bytes().await.unwrap();
            let sent = || serde_json::from_slice::<serde_json::Value>(&body).unwrap();
            let meta = |name: &str| json!({ "name": name, "namespace": "shop" });
            let (code, answer) = if fails {
                (u16::try_from(error["code"].as_u64().unwrap()).unwrap(), error)
            } else if verb == http::Method::POST {
                (201, sent())
            } else if verb == http::Method::PATCH && path.contains("/etcdclusters/") {
                recorded.lock().unwrap().push(sent());
                (200, json!({ "metadata": meta("orders"), "spec": { "size": 1 } }))
            } else if verb == http::Method::PATCH {
                (200, json!({ "metadata": meta("orders") }))
            } else if path.contains("/leases/") {
                (
                    404,
                    json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "" }),
                )
            } else {
                // The Service for members has an outdated spec, the one for clients is missing, and the claim
                // has no owner.
                let owners =
                    json!([{ "apiVersion": "v1", "kind": "EtcdCluster", "name": "orders", "uid": "u-1" }]);
                let mut items = Vec::new();
                if path.ends_with("/services") {
                    items.push(json!({ "metadata": meta("orders") }));
                    items[0]["metadata"]["ownerReferences"] = owners;
                } else if path.ends_with("/persistentvolumeclaims") {
                    items.push(json!({ "metadata": meta("orders-a") }));
                    items[0]["metadata"]["labels"] = json!({ names::LABEL_CLUSTER_UID: "u-1" });
                }
                (200, json!({ "kind": "List", "metadata": { "resourceVersion": "1" }, "items": items }))
            };
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
        }
    });
    (Client::new(service, "shop"), patches)
}

type Patches = Arc<Mutex<Vec<serde_json::Value>>>;

#[tokio::test]
async fn an_api_error_before_an_observation_reaches_the_status() {
    use http::Method;
    let (forbidden, webhook) = ((403, "Forbidden"), (500, "InternalError"));
    let create = Some("failed to create Service orders-client: denied");
    for (method, resource, (code, reason), failures, reported) in [
        (Method::GET, "/services", forbidden, 0, Some("failed to list the Services: denied")),
        (Method::PATCH, "/services", forbidden, 0, Some("failed to apply Service orders: denied")),
        (Method::POST, "/services", forbidden, 0, create),
        (
            Method::PATCH,
            "/persistentvolumeclaims",
            forbidden,
            0,
            Some("failed to patch claim orders-a: denied"),
        ),
        // Waiting may help, until the error has repeated.
        (Method::POST, "/services", webhook, 0, None),
        (Method::POST, "/services", webhook, REPEATED - 1, None),
        (Method::POST, "/services", webhook, REPEATED, create),
        (Method::GET, "/services", (429, "TooManyRequests"), 0, None),
    ] {
        let row = format!("{method} {resource} {code} after {failures} failures");
        // given an API server that refuses this request, and earlier failed reconciliations
        let error = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
                            "code": code, "message": "denied" });
        let (client, patches) = failing_api(method, resource, error);
        let mut context = context("me");
        context.client = client;
        context.elector = lease::elector(&context.client, "shop", lease::NAME, "test");
        assert!(context.elector.acquire(&CancellationToken::new()).await.is_some());
        context.keep("shop/orders", |state| state.failures = failures);
        // when a cluster is reconciled
        let cluster = crate::validate::tests::cluster(json!({ "size": 1 }));
        let error = Reconciliation::new(&context).run(cluster).await.unwrap_err();
        // then the status reports it, if waiting alone does not help
        assert_eq!(error.category(), "Kubernetes", "{row}");
        let patches = patches.lock().unwrap().clone();
        let conditions =
            patches.iter().filter_map(|patch| patch["status"]["conditions"].as_array()).flatten();
        let degraded: Vec<_> = conditions.filter(|c| c["type"] == "Degraded").collect();
        let found = degraded.first().map(|c| (c["reason"].as_str(), c["message"].as_str()));
        assert_eq!(found, reported.map(|text| (Some("ActionFailed"), Some(text))), "{row}: {patches:?}");
    }
}

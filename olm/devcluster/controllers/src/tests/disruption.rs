//! Budgets and evictions.

use super::*;
use kube::api::EvictParams;

async fn budget(cluster: &Cluster, spec: Value) {
    cluster.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
}

fn web_budget(limits: Value) -> Value {
    let mut spec = limits;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    spec
}

async fn allowed(cluster: &Cluster, wanted: i32) -> PodDisruptionBudget {
    let api: Api<PodDisruptionBudget> = cluster.api();
    eventually(&format!("{wanted} disruptions allowed"), || async {
        let budget = api.get("web").await.unwrap();
        let status = budget.status.clone()?;
        let current = status.observed_generation == budget.metadata.generation;
        (current && status.disruptions_allowed == Some(wanted)).then_some(budget)
    })
    .await
}

async fn deployed(cluster: &Cluster, replicas: i32) {
    cluster.create::<Deployment>(web(replicas, "a")).await;
    available(cluster, replicas).await;
}

/// The API server's response to an eviction.
async fn evict(cluster: &Cluster, pod: &str) -> Result<(), Box<kube::core::Status>> {
    match cluster.api::<Pod>().evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_pods_are_evicted_as_the_budget_has() {
    // given three pods of which two must be available
    let cluster = Cluster::with_node().await;
    deployed(&cluster, 3).await;
    budget(&cluster, web_budget(json!({"minAvailable": 2}))).await;
    let counted = allowed(&cluster, 1).await;
    let status = counted.status.unwrap();
    assert_eq!(
        (status.current_healthy, status.desired_healthy, status.expected_pods),
        (Some(3), Some(2), Some(3))
    );
    let condition = &status.conditions.unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_str()),
        ("DisruptionAllowed", "SufficientPods")
    );
    // when all are evicted at once, and the node accepts no new ones
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.cordon(NODE).await.unwrap();
    let names: Vec<String> = cluster.pods().await.iter().map(ResourceExt::name_any).collect();
    let answers = futures::future::join_all(names.iter().map(|name| evict(&cluster, name))).await;
    // then one eviction succeeds
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 2);
    assert_eq!((refused[0].code, refused[0].reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(refused[0].message, "Cannot evict pod as it would violate the pod's disruption budget.");
    eventually("two pods that run", || async { (cluster.running().await.len() == 2).then_some(()) }).await;
    eventually("two pods to be counted", || async {
        (allowed(&cluster, 0).await.status?.current_healthy == Some(2)).then_some(())
    })
    .await;
    let running = cluster.running().await[0].name_any();
    let refused = evict(&cluster, &running).await.unwrap_err();
    let cause = refused.details.as_ref().map(|details| details.causes[0].message.clone());
    assert_eq!(cause.as_deref(), Some("The disruption budget web needs 2 healthy pods and has 2 currently"));
    // when replacements can run again, then another one is allowed; a pod that is not running needs no budget
    nodes.uncordon(NODE).await.unwrap();
    allowed(&cluster, 1).await;
    evict(&cluster, &running).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn percentages_are_of_the_controllers_replicas() {
    let cluster = Cluster::with_node().await;
    deployed(&cluster, 4).await;
    budget(&cluster, web_budget(json!({"maxUnavailable": "50%"}))).await;
    allowed(&cluster, 2).await;
    // when the Deployment is scaled up, the new pods must be ready first
    let deployments: Api<Deployment> = cluster.api();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.cordon(NODE).await.unwrap();
    let more = Patch::Merge(json!({"spec": {"replicas": 8}}));
    deployments.patch("web", &PatchParams::default(), &more).await.unwrap();
    let counted = allowed(&cluster, 0).await.status.unwrap();
    assert_eq!((counted.expected_pods, counted.desired_healthy), (Some(8), Some(4)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_pod_count_no_eviction_is_allowed() {
    // given a pod of a controller without a scale subresource
    let cluster = Cluster::with_node().await;
    let accounts: Api<ServiceAccount> = cluster.api();
    let account = accounts.get("default").await.unwrap();
    let owner = json!([{"apiVersion": "v1", "kind": "ServiceAccount", "name": "default", "uid": account.uid(),
        "controller": true}]);
    cluster
        .create::<Pod>(json!({"metadata": {"name": "p", "labels": {"app": "web"}, "ownerReferences": owner},
            "spec": {"containers": [{"name": "c", "image": "x"}]}}))
        .await;
    eventually("the pod to run", || async { (cluster.running().await.len() == 1).then_some(()) }).await;
    // when a budget needs it
    budget(&cluster, web_budget(json!({"maxUnavailable": 1}))).await;
    let api: Api<PodDisruptionBudget> = cluster.api();
    let message = eventually("a failure", || async {
        let conditions = api.get("web").await.unwrap().status?.conditions?;
        conditions.into_iter().find(|c| c.reason == "SyncFailed").map(|c| c.message)
    })
    .await;
    assert_eq!(message, "serviceaccounts does not implement the scale subresource");
    // then evictions are refused
    assert_eq!(evict(&cluster, "p").await.unwrap_err().code, 429);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_drains_the_node() {
    let cluster = Cluster::with_node().await;
    let Some(kubectl) = Kubectl::of(&cluster) else { return };
    deployed(&cluster, 2).await;
    budget(&cluster, web_budget(json!({"maxUnavailable": 2}))).await;
    allowed(&cluster, 2).await;
    let drain = format!("drain {NODE} --timeout=20s --ignore-daemonsets");
    let (ok, out, err) = kubectl.run(&drain, String::new()).await;
    let text = out + &err;
    assert!(ok && text.contains("drained"), "{text}");
    assert!(cluster.running().await.is_empty());
}

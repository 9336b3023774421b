//! The controllers against the real API server in this process, with a simulated kubelet.

use std::{
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::Event, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
    core::ApiResource,
    runtime::WatchStreamExt,
};
use olm_devcluster_apiserver::{ApiServer, Identity};
use serde_json::{Value, json};

mod disruption;
mod garbage;
mod jobs;
mod volumes;

use super::*;

const NODE: &str = "olm-node";
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    client: Client,
    shutdown: CancellationToken,
    _server: ApiServer,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::open(olm_devcluster_apiserver::Config::default()).unwrap();
        let client = server.client(Identity::system("system:kube-controller-manager"));
        let shutdown = CancellationToken::new();
        let config = ControllerConfig {
            root_ca_pem: "CA".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            node_name: NODE.to_owned(),
            volumes_dir: Some("/nonexistent/volumes".into()),
        };
        spawn(client.clone(), config, shutdown.clone());
        let cluster = Self { client: server.client(Identity::admin()), shutdown, _server: server };
        // Pods are refused until the service account of their namespace exists.
        let accounts: Api<ServiceAccount> = cluster.api();
        eventually("the default service account", || async { accounts.get("default").await.ok() }).await;
        cluster
    }

    /// With a node and a kubelet.
    async fn with_node() -> Self {
        Self::with_node_that_is("True").await
    }

    async fn with_node_that_is(ready: &str) -> Self {
        let cluster = Self::start().await;
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        cluster.node_is(ready).await;
        tokio::spawn(kubelet(cluster.client.clone(), cluster.shutdown.clone()));
        cluster
    }

    async fn node_is(&self, ready: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "message": "run it as root"}]}});
        nodes.patch_status(NODE, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.api().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    async fn pods(&self) -> Vec<Pod> {
        let pods: Api<Pod> = self.api();
        pods.list(&ListParams::default()).await.unwrap().items
    }

    async fn running(&self) -> Vec<Pod> {
        self.pods().await.into_iter().filter(|pod| pods::is_active(pod) && pods::is_ready(pod)).collect()
    }
}

/// Marks bound pods as running, and removes terminating pods.
async fn kubelet(client: Client, shutdown: CancellationToken) {
    static NEXT_IP: AtomicU8 = AtomicU8::new(1);
    let all: Api<Pod> = Api::all(client.clone());
    let pods = watcher(all, watcher::Config::default()).default_backoff().touched_objects();
    let pods = pods.take_until(shutdown.cancelled_owned());
    tokio::pin!(pods);
    while let Some(pod) = pods.next().await {
        let Ok(pod) = pod else { continue };
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(NODE));
        if !bound {
            continue;
        }
        if pods::is_terminating(&pod) {
            let _ = api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        } else if !pods::is_ready(&pod) && pod.annotations().get("never-ready").is_none() {
            let ip = format!("10.244.0.{}", NEXT_IP.fetch_add(1, Ordering::Relaxed));
            let now = jiff::Timestamp::now().to_string();
            let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]}});
            let _ = api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
        }
    }
}

/// Polls until there is a result.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = look().await {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn web(replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]},
            },
        },
    })
}

async fn available(cluster: &Cluster, replicas: i32) -> Deployment {
    let api: Api<Deployment> = cluster.api();
    eventually(&format!("{replicas} available replicas"), || async {
        let deployment = api.get("web").await.unwrap();
        let status = deployment.status.clone().unwrap_or_default();
        let done = status.available_replicas.unwrap_or(0) == replicas
            && status.updated_replicas.unwrap_or(0) == replicas
            && status.replicas.unwrap_or(0) == replicas
            && status.observed_generation == deployment.metadata.generation;
        done.then_some(deployment)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_gets_its_pods_and_heals() {
    let cluster = Cluster::with_node().await;
    let begin = Instant::now();
    let created: Deployment = cluster.create(web(3, "a")).await;
    eventually("three pods", || async { (cluster.pods().await.len() == 3).then_some(()) }).await;
    eprintln!("Deployment to three pods: {:?}", begin.elapsed());
    let deployment = available(&cluster, 3).await;
    eprintln!("Deployment to available: {:?}", begin.elapsed());
    assert_eq!(deployment.annotations()["deployment.kubernetes.io/revision"], "1");
    // The controller does not change the spec.
    assert_eq!(deployment.metadata.generation, Some(1));
    let condition = |ty: &str| {
        let list =
            deployment.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        list.into_iter().find(|c| c.type_.as_deref() == Some(ty)).map(|c| (c.status, c.reason)).unwrap()
    };
    assert_eq!(condition("Available").0.as_deref(), Some("True"));
    assert_eq!(condition("Progressing").1.as_deref(), Some("NewReplicaSetAvailable"));
    let sets: Api<ReplicaSet> = cluster.api();
    let sets = sets.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 1);
    assert!(claim::is_controlled_by(&sets[0], &created.uid().unwrap()));
    assert!(sets[0].name_any().starts_with("web-"));

    // After a deletion a replacement is created, and never a fourth pod.
    let victim = cluster.pods().await[0].name_any();
    cluster.api::<Pod>().delete(&victim, &DeleteParams::default()).await.unwrap();
    eventually("a new pod", || async {
        let running = cluster.running().await;
        assert!(running.len() <= 3);
        (running.len() == 3 && running.iter().all(|pod| pod.name_any() != victim)).then_some(())
    })
    .await;

    // Scales up and down.
    let api: Api<Deployment> = cluster.api();
    for replicas in [5, 2] {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        api.patch("web", &PatchParams::default(), &patch).await.unwrap();
        available(&cluster, replicas).await;
    }
    eventually("two pods", || async { (cluster.pods().await.len() == 2).then_some(()) }).await;

    // Deleted with all its dependents.
    api.delete("web", &DeleteParams::background()).await.unwrap();
    eventually("no pods", || async { cluster.pods().await.is_empty().then_some(()) }).await;
    let sets: Api<ReplicaSet> = cluster.api();
    assert!(sets.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_update_keeps_pods_available() {
    let cluster = Cluster::with_node().await;
    let mut web = web(4, "a");
    web["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    web["spec"]["revisionHistoryLimit"] = json!(1);
    let _: Deployment = cluster.create(web).await;
    available(&cluster, 4).await;
    let api: Api<Deployment> = cluster.api();
    for image in ["b", "c"] {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        api.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        let stop = CancellationToken::new();
        let observer = {
            let (stop, pods) = (stop.clone(), cluster.api::<Pod>());
            tokio::spawn(async move {
                let mut least = usize::MAX;
                let mut most = 0;
                while !stop.is_cancelled() {
                    let all = pods.list(&ListParams::default()).await.unwrap().items;
                    least = least
                        .min(all.iter().filter(|pod| pods::is_active(pod) && pods::is_ready(pod)).count());
                    most = most.max(all.iter().filter(|pod| pods::is_active(pod)).count());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                (least, most)
            })
        };
        available(&cluster, 4).await;
        eventually("all of them new", || async {
            let pods = cluster.running().await;
            let new = |pod: &Pod| {
                pod.spec.as_ref().is_some_and(|s| s.containers[0].image.as_deref() == Some(image))
            };
            (pods.len() == 4 && pods.iter().all(new)).then_some(())
        })
        .await;
        stop.cancel();
        let (least, most) = observer.await.unwrap();
        assert!(least >= 3, "{least} ready pods");
        assert!(most <= 5, "{most} pods");
    }
    let deployment = available(&cluster, 4).await;
    assert_eq!(deployment.annotations()["deployment.kubernetes.io/revision"], "3");
    let sets: Api<ReplicaSet> = cluster.api();
    eventually("the history to be cut", || async {
        (sets.list(&ListParams::default()).await.unwrap().items.len() == 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreate_waits_for_the_old_pods() {
    let cluster = Cluster::with_node().await;
    let mut web = web(2, "a");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    let _: Deployment = cluster.create(web).await;
    available(&cluster, 2).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}});
    let api: Api<Deployment> = cluster.api();
    api.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    eventually("the new pods alone", || async {
        let pods = cluster.pods().await;
        let images: std::collections::BTreeSet<_> =
            pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.clone()).collect();
        assert!(images.len() <= 1, "old and new pods at the same time");
        (pods.len() == 2 && images.contains("b")).then_some(())
    })
    .await;
    available(&cluster, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_get_endpoints() {
    let cluster = Cluster::with_node().await;
    let _: Service = cluster
        .create(json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}}))
        .await;
    let _: Deployment = cluster.create(web(2, "a")).await;
    let (endpoints, slices): (Api<Endpoints>, Api<EndpointSlice>) = (cluster.api(), cluster.api());
    let of_web = ListParams::default().labels("kubernetes.io/service-name=web");
    let ready = || async {
        let list = slices.list(&of_web).await.unwrap().items;
        let all = list.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        let ready = all.filter(|e| e.conditions.as_ref().and_then(|c| c.ready) == Some(true));
        ready.flat_map(|e| e.addresses.clone()).collect::<Vec<String>>()
    };
    eventually("two ready endpoints", || async { (ready().await.len() == 2).then_some(()) }).await;
    let subset = eventually("endpoints", || async {
        let subsets = endpoints.get("web").await.ok()?.subsets?;
        (subsets[0].addresses.as_ref()?.len() == 2).then(|| subsets[0].clone())
    })
    .await;
    assert_eq!(subset.ports.as_ref().map(|ports| ports[0].port), Some(8080));

    // A terminating pod is removed at once.
    let leaving = cluster.pods().await[0].clone();
    let ip = leaving.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap();
    cluster.api::<Pod>().delete(&leaving.name_any(), &DeleteParams::default()).await.unwrap();
    eventually("the address to go", || async { (!ready().await.contains(&ip)).then_some(()) }).await;

    cluster.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    eventually("everything gone", || async {
        let slices = slices.list(&of_web).await.unwrap().items;
        (slices.is_empty() && endpoints.get("web").await.is_err()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_wait_for_the_node_and_report_the_reason() {
    let cluster = Cluster::with_node_that_is("False").await;
    let _: Pod = cluster
        .create(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await;
    let pods: Api<Pod> = cluster.api();
    let condition = eventually("the condition", || async {
        // The node has its condition before the pod exists, and the scheduler may see the pod first.
        let condition = pods::condition(&pods.get("p").await.unwrap(), "PodScheduled").cloned();
        condition.filter(|found| found.message.as_deref().is_some_and(|text| text.contains("run it as root")))
    })
    .await;
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("Unschedulable")));
    let events: Api<Event> = cluster.api();
    eventually("the event", || async {
        let list = events.list(&ListParams::default()).await.unwrap().items;
        list.into_iter().find(|event| event.reason.as_deref() == Some("FailedScheduling"))
    })
    .await;
    cluster.node_is("True").await;
    eventually("the pod to run", || async { pods::is_ready(&pods.get("p").await.unwrap()).then_some(()) })
        .await;
}

fn crd() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .unwrap()
}

async fn crontabs(cluster: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let _ = crds.create(&PostParams::default(), &crd()).await;
    eventually("the CRD", || async {
        let crd = crds.get("crontabs.stable.example.com").await.unwrap();
        let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Established" && c.status == "True").then_some(())
    })
    .await;
    let resource = ApiResource {
        group: "stable.example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "stable.example.com/v1".to_owned(),
        kind: "CronTab".to_owned(),
        plural: "crontabs".to_owned(),
    };
    Api::namespaced_with(cluster.client.clone(), namespace, &resource)
}

fn object(kind: (&str, &str), name: &str, owner: Option<&DynamicObject>, block: bool) -> DynamicObject {
    let owners: Vec<Value> = owner
        .map(|owner| {
            let types = owner.types.clone().unwrap();
            json!({"apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(), "uid": owner.uid(),
                   "blockOwnerDeletion": block})
        })
        .into_iter()
        .collect();
    serde_json::from_value(json!({
        "apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name, "ownerReferences": owners},
    }))
    .unwrap()
}

const CRONTAB: (&str, &str) = ("stable.example.com/v1", "CronTab");
const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");

fn config_maps(cluster: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    Api::namespaced_with(cluster.client.clone(), namespace, &resource)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_get_their_defaults_and_are_emptied() {
    let cluster = Cluster::start().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let post = PostParams::default();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    namespaces.create(&post, &namespace).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "team");
    let maps = config_maps(&cluster, "team");
    eventually("the service account", || async { accounts.get("default").await.ok() }).await;
    let ca = eventually("the CA", || async { maps.get("kube-root-ca.crt").await.ok() }).await;
    assert_eq!(ca.data["data"]["ca.crt"], "CA");
    // Both are created again.
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let tampered = Patch::Merge(json!({"data": {"ca.crt": "other"}}));
    maps.patch("kube-root-ca.crt", &PatchParams::default(), &tampered).await.unwrap();
    eventually("the service account again", || async { accounts.get("default").await.ok() }).await;
    eventually("the CA again", || async {
        let ca = maps.get("kube-root-ca.crt").await.unwrap();
        (ca.data["data"]["ca.crt"] == "CA").then_some(())
    })
    .await;

    // The deletion: an object with a finalizer blocks it, and the conditions report it.
    let tabs = crontabs(&cluster, "team").await;
    let mut held = object(CRONTAB, "held", None, false);
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    tabs.create(&post, &held).await.unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let message = eventually("the condition", || async {
        let namespace = namespaces.get("team").await.unwrap();
        let conditions = namespace.status.and_then(|status| status.conditions).unwrap_or_default();
        let condition = conditions.into_iter().find(|c| c.type_ == "NamespaceFinalizersRemaining")?;
        (condition.status == "True").then_some(condition.message?)
    })
    .await;
    assert!(message.contains("example.com/hold in 1 resource instances"), "{message}");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    tabs.patch("held", &PatchParams::default(), &release).await.unwrap();
    eventually("the namespace to go", || async {
        namespaces.get_opt("team").await.unwrap().is_none().then_some(())
    })
    .await;
}

/// A namespace is created again as soon as it is deleted, and the controller's cache is behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_not_emptied_for_the_one_of_its_name_before() {
    let cluster = Cluster::start().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let maps = config_maps(&cluster, "team");
    maps.create(&PostParams::default(), &object(CONFIG_MAP, "kept", None, false)).await.unwrap();

    let mut before = namespace.clone();
    before.metadata.uid = Some("of the one before".to_owned());
    before.metadata.deletion_timestamp = namespace.metadata.creation_timestamp;
    let late = super::cache::Cache::new();
    late.assume(before);
    let controller = super::namespace::Controller {
        client: cluster.client.clone(),
        namespaces: late,
        inventory: super::inventory::Inventory::new(cluster.client.clone()),
    };
    assert_eq!(controller.reconcile(super::cache::Key::new("", "team")).await.unwrap(), None);
    maps.get("kept").await.unwrap();
}

/// kubectl with the kubeconfig of a served cluster.
struct Kubectl {
    folder: tempfile::TempDir,
}

impl Kubectl {
    /// `None`, with a message, without kubectl on this machine.
    fn of(cluster: &Cluster) -> Option<Self> {
        if std::process::Command::new("kubectl").args(["version", "--client"]).output().is_err() {
            println!("skipped: kubectl against the controllers: kubectl is not installed");
            return None;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        cluster._server.serve(listener).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), cluster._server.admin_kubeconfig(address)).unwrap();
        Some(Self { folder })
    }

    /// Whether it succeeded, and both of its outputs.
    async fn run(&self, args: &str, input: String) -> (bool, String, String) {
        use tokio::io::AsyncWriteExt;
        let mut command = tokio::process::Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command.arg("--cache-dir").arg(self.folder.path().join("cache")).args(args.split(' '));
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }
}

/// The documents serve kubectl: explain, validate, apply (client side and server side) and patch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_understands_the_documents() {
    let cluster = Cluster::with_node().await;
    let Some(kubectl) = Kubectl::of(&cluster) else { return };
    let _tabs = crontabs(&cluster, "default").await;
    let run = |args: &'static str, input: String| kubectl.run(args, input);

    let (ok, out, err) = run("explain deployment.spec.strategy.rollingUpdate", String::new()).await;
    assert!(ok && out.contains("maxSurge") && out.contains("maxUnavailable"), "{out}{err}");
    let (ok, out, err) = run("explain crontab", String::new()).await;
    assert!(ok && out.contains("KIND:       CronTab"), "{out}{err}");

    let (ok, out, err) = run("apply -f -", web(2, "a").to_string()).await;
    assert!(ok && err.is_empty(), "{out}{err}");
    available(&cluster, 2).await;
    let mut changed = web(2, "b");
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "X", "value": "1"}]);
    let (ok, out, err) = run("apply -f -", changed.to_string()).await;
    assert!(ok && err.is_empty() && out.contains("configured"), "{out}{err}");
    let (ok, out, err) = run("apply -f -", changed.to_string()).await;
    assert!(ok && err.is_empty() && out.contains("unchanged"), "{out}{err}");
    let (ok, out, err) = run("rollout status deployment/web --timeout=10s", String::new()).await;
    assert!(ok && out.contains("successfully rolled out"), "{out}{err}");
    let deployment: Deployment = cluster.api().get("web").await.unwrap();
    let pod = deployment.spec.template.spec.unwrap();
    assert_eq!((pod.containers.len(), pod.containers[0].image.as_deref()), (1, Some("b")));

    changed["spec"]["replica"] = json!(3);
    let (ok, _, err) = run("apply -f -", changed.to_string()).await;
    assert!(!ok && err.contains("unknown field \"spec.replica\""), "{err}");
    changed["spec"].as_object_mut().unwrap().shift_remove("replica");
    changed["spec"]["replicas"] = json!(3);
    let (ok, _, err) = run("apply --server-side -f -", changed.to_string()).await;
    assert!(ok, "{err}");
    let (ok, out, err) = run("scale deployment/web --replicas=1", String::new()).await;
    assert!(ok, "{out}{err}");
    let (ok, _, err) = run("apply --server-side --field-manager=other -f -", changed.to_string()).await;
    assert!(!ok && err.contains("conflict with \"kubectl\""), "{err}");
    let (ok, _, err) = run("rollout undo deployment/web", String::new()).await;
    assert!(ok, "{err}");
    let (ok, out, err) = run("delete deployment web --timeout=10s", String::new()).await;
    assert!(ok, "{out}{err}");
}

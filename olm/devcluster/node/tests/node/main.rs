//! The node agent with the API server and the controllers, in one process: real processes in real namespaces.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use olm_devcluster_apiserver::{ApiServer, Config, Identity};
use olm_devcluster_controllers::ControllerConfig;
use olm_devcluster_machinery::backend::{LogOptions, NodeBackend};
use olm_devcluster_node::{Capability, ImageSource, Network, NodeAgent, NodeConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{Mutex, MutexGuard},
};
use tokio_util::sync::CancellationToken;

use self::host::HostImages;

mod faults;
mod host;
mod images;
mod isolation;
mod kill;
mod network;
mod pulled;
mod volumes;

const HELPER: &str = env!("CARGO_BIN_EXE_olm-node-helper");

/// Longest wait for a condition. A machine under load is slow, which is not a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serializes the tests: each cluster keeps the machine busy.
static TURN: Mutex<()> = Mutex::const_new(());

struct Rig {
    _turn: MutexGuard<'static, ()>,
    server: ApiServer,
    client: Client,
    backend: Arc<dyn NodeBackend>,
    agent: NodeAgent,
    stop: CancellationToken,
    data: PathBuf,
}

async fn agent(client: &Client, network: Network, data: &Path, images: Arc<dyn ImageSource>) -> NodeAgent {
    NodeAgent::start(NodeConfig {
        client: client.clone(),
        network,
        data_dir: data.to_owned(),
        image_source: Some(images),
        helper_exe: HELPER.into(),
        cluster_domain: "cluster.local".to_owned(),
        dns_ip: "10.96.0.10".parse().unwrap(),
    })
    .await
    .unwrap()
}

/// Repeats an observation until it succeeds.
async fn eventually(observe: impl AsyncFn() -> Result<(), String>) {
    let begin = Instant::now();
    while let Err(observed) = observe().await {
        assert!(begin.elapsed() < PATIENCE, "{observed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Rig {
    async fn start(data: &Path) -> Option<Self> {
        Self::start_with(data, Arc::new(HostImages)).await
    }

    async fn start_with(data: &Path, images: Arc<dyn ImageSource>) -> Option<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        if let Capability::Nothing(why) = Capability::probe() {
            println!("skipped: {why}");
            return None;
        }
        if !matches!(Capability::probe(), Capability::Root) {
            println!("skipped: a test binary has threads and cannot enter a user namespace; run as root");
            return None;
        }
        let turn = TURN.lock().await;
        let network = Network::start().await.unwrap();
        let server = ApiServer::open(Config { data: Some(data.join("api")), ..Config::default() }).unwrap();
        server.serve(network.listen("10.96.0.1:443".parse().unwrap()).await.unwrap()).unwrap();
        let client = server.client(Identity::system("olm-node"));
        let stop = CancellationToken::new();
        let config = ControllerConfig {
            root_ca_pem: server.ca_pem().to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            node_name: "olm-node".to_owned(),
            volumes_dir: Some(data.join("volumes")),
        };
        drop(olm_devcluster_controllers::spawn(
            server.client(Identity::system("controllers")),
            config,
            stop.clone(),
        ));
        let agent = agent(&client, network, data, images).await;
        let backend = agent.backend();
        server.set_backend(Arc::clone(&backend));
        Some(Self { _turn: turn, server, client, backend, agent, stop, data: data.to_owned() })
    }

    async fn stop(self) {
        self.agent.shutdown().await;
        self.stop.cancel();
        self.server.shutdown();
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create(&self, name: &str, spec: Value) {
        self.create_with(json!({"name": name, "labels": {"app": name}}), spec).await;
    }

    async fn create_with(&self, metadata: Value, spec: Value) {
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        // The default ServiceAccount appears a moment after the namespace.
        let begin = Instant::now();
        loop {
            match self.pods().create(&PostParams::default(), &pod).await {
                Ok(_) => return,
                Err(_) if begin.elapsed() < Duration::from_secs(5) => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn wait(&self, name: &str, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let pod = self.pods().get_opt(name).await.unwrap();
            let pod = serde_json::to_value(pod).unwrap();
            if good(&pod) {
                return pod;
            }
            if begin.elapsed() > PATIENCE {
                let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
                for event in events.list(&ListParams::default()).await.unwrap() {
                    println!("{:?} {:?} {:?}", event.involved_object.name, event.reason, event.message);
                }
                panic!("{name}: waited for {what}: {pod:#}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn wait_ready(&self, name: &str) -> Value {
        self.wait(name, "ready", |pod| condition(pod, "Ready") == "True").await
    }

    async fn logs(&self, name: &str, options: LogOptions) -> String {
        let stream = self.backend.logs("default", name, options).await.unwrap();
        let chunks: Vec<_> = stream.collect().await;
        chunks.into_iter().map(|chunk| String::from_utf8_lossy(&chunk.unwrap()).into_owned()).collect()
    }

    async fn exec(&self, pod: &str, script: &str, input: Option<&str>) -> (i32, String, String) {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        let mut session = self.backend.exec("default", pod, None, command, input.is_some()).await.unwrap();
        if let (Some(mut stdin), Some(input)) = (session.stdin.take(), input) {
            stdin.write_all(input.as_bytes()).await.unwrap();
            stdin.shutdown().await.unwrap();
        }
        let (mut out, mut err) = (String::new(), String::new());
        session.stdout.read_to_string(&mut out).await.unwrap();
        session.stderr.read_to_string(&mut err).await.unwrap();
        (session.exit.await.unwrap(), out, err)
    }

    async fn reasons(&self, pod: &str) -> Vec<String> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_pod = all.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(pod));
        of_pod
            .map(|event| {
                format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect()
    }
}

fn condition<'a>(pod: &'a Value, name: &str) -> &'a str {
    let conditions = pod["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == name);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or("")
}

fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

fn shell(script: &str) -> Value {
    json!({"name": "main", "image": "test/host:1", "command": ["sh", "-c", script]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_runs_serves_logs_and_exec_and_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let maps: Api<ConfigMap> = Api::namespaced(rig.client.clone(), "default");
    let map: ConfigMap = serde_json::from_value(
        json!({"metadata": {"name": "conf"}, "data": {"greeting": "hello", "other": "x"}}),
    )
    .unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    // given a pod with an init container, volumes and variables
    rig.create(
        "web",
        json!({
            // Longer than this test waits: the pod ends because its process exits.
            "terminationGracePeriodSeconds": 3600,
            "initContainers": [{"name": "prepare", "image": "test/host:1", "command": ["sh", "-c", "echo prepared > /data/file"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "containers": [{
                "name": "main", "image": "test/host:1",
                "command": ["sh", "-c", "trap 'echo bye; exit 0' TERM; echo $GREETING from $NAME; echo oops >&2; while :; do sleep 0.05; done"],
                "securityContext": {"readOnlyRootFilesystem": true, "runAsUser": 1000},
                "env": [
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "greeting"}}},
                ],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "conf", "mountPath": "/etc/conf", "readOnly": true},
                    {"name": "down", "mountPath": "/etc/down"},
                ],
            }],
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "greeting", "path": "sub/greeting", "mode": 0o444}]}},
                {"name": "down", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ],
        }),
    )
    .await;
    let pod = rig.wait_ready("web").await;
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(pod["status"]["podIP"].as_str().unwrap().starts_with("10.244.0."));
    assert_eq!(pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    // then the logs contain its output
    eventually(async || {
        let log = rig.logs("web", LogOptions::default()).await;
        if log.contains("hello from web\n") && log.contains("oops\n") { Ok(()) } else { Err(log) }
    })
    .await;
    // then commands run in it
    let script = "id -u; cat /data/file /etc/conf/sub/greeting /etc/down/labels; echo; hostname; cat; cat /etc/resolv.conf; ls /proc | grep -c '^[0-9]'; test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token; touch /x 2>&1; exit 7";
    let (code, out, err) = rig.exec("web", script, Some("input\n")).await;
    println!("{out}\n{err}");
    assert_eq!(code, 7);
    for part in [
        "1000\n",
        "prepared\n",
        "hello",
        "app=\"web\"",
        "\nweb\n",
        "input\n",
        "search default.svc.cluster.local",
        "token\n",
        "Read-only",
    ] {
        assert!(out.contains(part), "{part:?} is missing in {out}");
    }
    // then a changed ConfigMap arrives in the volume
    let patch = json!({"data": {"greeting": "bonjour"}});
    maps.patch("conf", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    eventually(async || {
        let (_, out, err) = rig.exec("web", "cat /etc/conf/sub/greeting", None).await;
        if out == "bonjour" { Ok(()) } else { Err(out + &err) }
    })
    .await;
    // then a missing command is refused
    let missing = rig.backend.exec("default", "web", None, vec!["nope".to_owned()], false).await;
    assert!(missing.err().unwrap().to_string().contains("not found"));
    // when it is deleted, then it exits and leaves nothing behind
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    let follow = tokio::spawn({
        let stream = rig
            .backend
            .logs("default", "web", LogOptions { follow: true, ..LogOptions::default() })
            .await
            .unwrap();
        async move {
            stream
                .collect::<Vec<_>>()
                .await
                .into_iter()
                .map(|chunk| String::from_utf8_lossy(&chunk.unwrap()).into_owned())
                .collect::<String>()
        }
    });
    rig.pods().delete("web", &DeleteParams::default()).await.unwrap();
    rig.wait("web", "gone", Value::is_null).await;
    assert!(follow.await.unwrap().ends_with("bye\n"));
    assert!(!rig.data.join("pods").join(uid).exists());
    let reasons = rig.reasons("web").await.join("\n");
    for reason in ["Pulled:", "Created:", "Started:", "Killing:"] {
        assert!(reasons.contains(reason), "{reasons}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_are_restarted_and_failures_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    rig.create(
        "crash",
        json!({"containers": [shell("echo last words > /dev/termination-log; echo run; exit 3")]}),
    )
    .await;
    rig.create("job", json!({"restartPolicy": "Never", "containers": [shell("echo done")]})).await;
    rig.create("failed", json!({"restartPolicy": "Never", "containers": [shell("kill -9 $$$$")]})).await;
    rig.create("noimage", json!({"containers": [{"name": "main", "image": "nginx:1"}]})).await;
    rig.create(
        "noprogram",
        json!({"containers": [{"name": "main", "image": "test/host:1", "command": ["nope"]}]}),
    )
    .await;
    rig.create("nomap", json!({"containers": [shell("sleep 100")], "volumes": [{"name": "v", "configMap": {"name": "later"}}]})).await;
    rig.create("novolume", json!({"containers": [shell("sleep 100")], "volumes": [{"name": "v", "nfs": {"server": "x", "path": "/"}}]})).await;
    rig.create("privileged", json!({"hostNetwork": true, "containers": [shell("sleep 100")]})).await;

    let pod =
        rig.wait("crash", "back-off", |pod| state(pod)["waiting"]["reason"] == "CrashLoopBackOff").await;
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["restartCount"], 1, "{status:#}");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(status["lastState"]["terminated"]["message"], "last words\n");
    assert_eq!(pod["status"]["phase"], "Running");
    let previous = LogOptions { previous: true, ..LogOptions::default() };
    assert_eq!(rig.logs("crash", previous).await, "run\n");

    let pod = rig.wait("job", "end", |pod| pod["status"]["phase"] == "Succeeded").await;
    assert_eq!(state(&pod)["terminated"]["reason"], "Completed");
    assert_eq!(rig.logs("job", LogOptions::default()).await, "done\n");
    let pod = rig.wait("failed", "end", |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(state(&pod)["terminated"]["exitCode"], 137);
    let pod = rig.wait("noimage", "refusal", |pod| state(pod)["waiting"]["reason"] == "ErrImagePull").await;
    assert_eq!(state(&pod)["waiting"]["message"], "nginx:1 not found");
    assert!(rig.reasons("noimage").await.join("\n").contains("Failed to pull image"));
    rig.wait("noprogram", "refusal", |pod| {
        pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "StartError"
            && state(pod)["waiting"]["reason"] == "CrashLoopBackOff"
    })
    .await;
    assert!(
        rig.reasons("novolume")
            .await
            .join("\n")
            .contains("FailedMount: MountVolume.SetUp failed for volume \"v\"")
    );
    assert!(rig.reasons("privileged").await.join("\n").contains("spec.hostNetwork"));
    // when the missing object is created, then the pod continues at once
    rig.wait("nomap", "waiting", |pod| state(pod)["waiting"]["reason"] == "ContainerCreating").await;
    let maps: Api<ConfigMap> = Api::namespaced(rig.client.clone(), "default");
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "later"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    rig.wait_ready("nomap").await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_decide_on_readiness_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let probe = |command: &str| json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 1});
    let mut container = shell("sleep 1000");
    container["readinessProbe"] = probe("test -e /tmp/ready");
    rig.create("exec", json!({"containers": [container]})).await;
    let mut container = shell("sleep 1000");
    container["livenessProbe"] = probe("test ! -e /tmp/dead");
    container["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["sh", "-c", "echo stopping > /data/hook"]}}});
    container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    rig.create("live", json!({"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}))
        .await;
    rig.create(
        "http",
        json!({"containers": [{
            "name": "main", "image": "test/host:1", "command": ["helper", "serve", "8080", "hi"],
            "ports": [{"name": "web", "containerPort": 8080}],
            "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 30},
            "readinessProbe": {"httpGet": {"port": "web", "path": "/x"}, "periodSeconds": 1},
        }]}),
    )
    .await;
    let begin = Instant::now();
    rig.wait_ready("http").await;
    println!("http probe ready after {:?}", begin.elapsed());
    rig.wait("exec", "running", |pod| {
        pod["status"]["phase"] == "Running" && condition(pod, "Ready") == "False"
    })
    .await;
    rig.exec("exec", "touch /tmp/ready", None).await;
    rig.wait_ready("exec").await;
    rig.exec("exec", "rm /tmp/ready", None).await;
    rig.wait("exec", "unready", |pod| condition(pod, "Ready") == "False").await;
    rig.wait_ready("live").await;
    rig.exec("live", "touch /tmp/dead", None).await;
    let pod =
        rig.wait("live", "restart", |pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 143);
    // then the hook has run, and the volume is still there
    assert_eq!(rig.exec("live", "cat /data/hook", None).await.1, "stopping\n");
    assert!(rig.reasons("live").await.join("\n").contains("Liveness probe failed"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_resumes_its_pods() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let mut container = shell("echo run >> /data/runs; sleep 1000");
    container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    rig.create("stays", json!({"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}))
        .await;
    rig.create("once", json!({"restartPolicy": "Never", "containers": [shell("true")]})).await;
    let before = rig.wait_ready("stays").await;
    rig.wait("once", "end", |pod| pod["status"]["phase"] == "Succeeded").await;
    // when the node stops and another starts on the same data
    let network = rig.agent.network().clone();
    let (client, data) = (rig.client.clone(), rig.data.clone());
    std::fs::create_dir_all(data.join("pods/left-over/volumes")).unwrap();
    rig.agent.shutdown().await;
    drop(network);
    let agent = agent(&client, Network::start().await.unwrap(), &data, Arc::new(HostImages)).await;
    let rig = Rig { backend: agent.backend(), agent, ..rig };
    // then the same pod runs again, with its volume, and finished pods stay finished
    let after = rig
        .wait("stays", "restart", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 1 && condition(pod, "Ready") == "True"
        })
        .await;
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(rig.exec("stays", "cat /data/runs", None).await.1, "run\nrun\n");
    let once = rig.wait("once", "end", |pod| pod["status"]["phase"] == "Succeeded").await;
    assert_eq!(once["status"]["containerStatuses"][0]["restartCount"], 0);
    assert!(!data.join("pods/left-over").exists());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_etcds_form_a_cluster_by_name() {
    let dir = tempfile::tempdir().unwrap();
    if ["etcd", "etcdctl"].iter().any(|name| host::program(name).is_none()) {
        println!("skipped: three_etcds_form_a_cluster_by_name: etcd is not installed");
        return;
    }
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let services: Api<Service> = Api::namespaced(rig.client.clone(), "default");
    let service = json!({"metadata": {"name": "etcd"}, "spec": {
        "clusterIP": "None", "selector": {"app": "etcd"}, "publishNotReadyAddresses": true,
        "ports": [{"name": "peer", "port": 2380}, {"name": "client", "port": 2379}],
    }});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let names = ["m-0", "m-1", "m-2"];
    let peers = names.map(|name| format!("{name}=http://{name}.etcd.default.svc:2380")).join(",");
    for name in names {
        let command = format!(
            "etcd --name={name} --data-dir=/var/etcd/data --initial-cluster={peers} \
             --initial-advertise-peer-urls=http://{name}.etcd.default.svc:2380 --listen-peer-urls=http://0.0.0.0:2380 \
             --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://{name}.etcd.default.svc:2379"
        );
        rig.create_with(
            json!({"name": name, "labels": {"app": "etcd"}}),
            json!({"hostname": name, "subdomain": "etcd", "terminationGracePeriodSeconds": 3,
                "containers": [{
                    "name": "etcd", "image": "test/host:1", "command": command.split_whitespace().collect::<Vec<_>>(),
                    "readinessProbe": {"httpGet": {"port": 2379, "path": "/health"}, "periodSeconds": 1},
                    "volumeMounts": [{"name": "data", "mountPath": "/var/etcd"}],
                }],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }),
        )
        .await;
    }
    let begin = Instant::now();
    for name in names {
        rig.wait_ready(name).await;
    }
    println!("three etcds healthy after {:?}", begin.elapsed());
    let script = "ETCDCTL_API=3 etcdctl put a b && ETCDCTL_API=3 etcdctl --endpoints=http://m-2.etcd:2379 get a --print-value-only && ETCDCTL_API=3 etcdctl member list | wc -l";
    let (code, out, err) = rig.exec("m-0", script, None).await;
    assert_eq!((code, out.as_str()), (0, "OK\nb\n3\n"), "{err}");
    rig.stop().await;
}

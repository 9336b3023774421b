//! The server with the real kubectl as its client, over TLS.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use olm_devcluster_machinery::{
    backend::{BackendError, ExecSession, LogOptions, NodeBackend},
    fault::{Done, Order, Undo},
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::*;

/// A node with one line of log and a command that echoes in capitals.
pub(crate) struct FakeNode;

#[async_trait]
impl NodeBackend for FakeNode {
    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        options: LogOptions,
    ) -> Result<BoxStream<'static, std::io::Result<Bytes>>, BackendError> {
        let line = format!(
            "log of {namespace}/{pod}/{} {:?}\n",
            options.container.unwrap_or_default(),
            options.tail_lines
        );
        Ok(futures::stream::iter([Ok(Bytes::from(line))]).boxed())
    }

    async fn exec(
        &self,
        _namespace: &str,
        _pod: &str,
        _container: Option<&str>,
        command: Vec<String>,
        stdin: bool,
    ) -> Result<ExecSession, BackendError> {
        let (stdin_writer, mut stdin_reader) = tokio::io::duplex(1024);
        let (mut out, stdout) = tokio::io::duplex(1024);
        let (mut err, stderr) = tokio::io::duplex(1024);
        let (exit, code) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let mut text = String::new();
            if stdin {
                stdin_reader.read_to_string(&mut text).await.expect("text until the end");
            }
            out.write_all(format!("{} {}", command.join(" "), text.to_uppercase()).as_bytes())
                .await
                .expect("written");
            err.write_all(b"to stderr\n").await.expect("written");
            drop((out, err));
            let _ = exit.send(if command[0] == "fail" { 7 } else { 0 });
        });
        let stdin: Option<Box<dyn tokio::io::AsyncWrite + Send + Unpin>> =
            if stdin { Some(Box::new(stdin_writer)) } else { None };
        Ok(ExecSession { stdin, stdout: Box::new(stdout), stderr: Box::new(stderr), exit: code })
    }

    async fn fault(&self, _order: Order) -> Result<Done, BackendError> {
        Err(BackendError::BadRequest("no faults here".to_owned()))
    }

    fn faults(&self) -> Vec<Done> {
        Vec::new()
    }

    async fn undo(&self, _which: Undo) -> Result<Vec<Done>, BackendError> {
        Ok(Vec::new())
    }

    /// Port 80 of a pod echoes in capitals, line by line, until the token is cancelled; other ports have no
    /// listener.
    async fn forward(
        &self,
        _namespace: &str,
        _pod: &str,
        port: u16,
    ) -> Result<tokio::net::TcpStream, BackendError> {
        if port != 80 {
            let refused = format!("failed to connect to localhost:{port}: connection refused");
            return Err(BackendError::Internal(refused));
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = tokio::net::TcpStream::connect(listener.local_addr().expect("bound")).await;
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(shout(stream));
        client.map_err(|error| BackendError::Internal(error.to_string()))
    }

    async fn dial(&self, address: std::net::SocketAddr) -> Result<tokio::net::TcpStream, BackendError> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let local = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut buffer = vec![0; 4096];
            let count = stream.read(&mut buffer).await.expect("a request");
            let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let body = format!("{address} saw {}", request.lines().next().unwrap_or_default());
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.expect("answered");
        });
        tokio::net::TcpStream::connect(local).await.map_err(|error| BackendError::Internal(error.to_string()))
    }
}

async fn shout(mut stream: tokio::net::TcpStream) {
    let (read, mut write) = stream.split();
    let mut lines = tokio::io::BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if write.write_all(format!("{}\n", line.to_uppercase()).as_bytes()).await.is_err() {
            return;
        }
    }
    let _ = write.write_all(b"BYE\n").await;
}

pub(super) struct Kubectl {
    pub(super) directory: tempfile::TempDir,
    pub(super) server: ApiServer,
}

impl Kubectl {
    /// A served instance, or `None` without kubectl on this machine.
    pub(super) fn start() -> Option<Self> {
        if Command::new("kubectl").arg("version").arg("--client").output().is_err() {
            println!("skipped: kubectl is not installed");
            return None;
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().expect("a directory");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = ApiServer::open(Config { port: address.port(), ..Config::default() }).expect("opened");
        server.serve(listener).expect("served");
        std::fs::write(directory.path().join("config"), server.admin_kubeconfig(address)).expect("written");
        Some(Self { directory, server })
    }

    async fn run(&self, args: &str) -> (bool, String) {
        self.run_with(args, "").await
    }

    async fn run_with(&self, args: &str, input: &str) -> (bool, String) {
        let mut command = Command::new("kubectl");
        command
            .args(args.split_whitespace())
            .env("KUBECONFIG", self.directory.path().join("config"))
            .env("HOME", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("kubectl starts");
            child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
            child.wait_with_output().expect("kubectl ends")
        })
        .await
        .expect("joined");
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), text)
    }

    async fn ok(&self, args: &str, expected: &[&str]) -> String {
        let (success, text) = self.run(args).await;
        assert!(success, "kubectl {args}: {text}");
        for part in expected {
            assert!(text.contains(part), "kubectl {args}: {part:?} is not in {text}");
        }
        text
    }

    pub(super) async fn ok_with(&self, args: &str, input: &Value, expected: &[&str]) {
        let (success, text) = self.run_with(args, &input.to_string()).await;
        assert!(success, "kubectl {args}: {text}");
        for part in expected {
            assert!(text.contains(part), "kubectl {args}: {part:?} is not in {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_and_writes() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.ok("version", &["Server Version: v1.36.0"]).await;
    kubectl.ok("get ns", &["NAME", "STATUS", "AGE", "default", "kube-system", "Active"]).await;
    kubectl.ok("get svc,endpointslices", &["service/kubernetes", "10.96.0.1", "443/TCP"]).await;
    kubectl.ok("api-resources", &["deployments", "deploy", "apps/v1", "customresourcedefinitions"]).await;
    kubectl.ok_with("apply -f -", &deployment("web"), &["deployment.apps/web created"]).await;
    kubectl.ok_with("apply -f -", &deployment("web"), &["deployment.apps/web unchanged"]).await;
    let mut changed = deployment("web");
    changed["spec"]["replicas"] = json!(3);
    kubectl.ok_with("diff -f -", &deployment("web"), &[]).await;
    kubectl.ok_with("apply -f -", &changed, &["deployment.apps/web configured"]).await;
    kubectl.ok("get deploy web -o wide", &["READY", "0/3", "CONTAINERS", "app=web"]).await;
    kubectl.ok("scale deploy web --replicas=2", &["scaled"]).await;
    kubectl.ok("label deploy web x=y", &["labeled"]).await;
    kubectl.ok("annotate deploy web x=y", &["annotated"]).await;
    kubectl.ok("set image deploy/web c=z", &["image updated"]).await;
    kubectl.ok("patch deploy web -p {\"spec\":{\"paused\":true}}", &["patched"]).await;
    kubectl.ok("describe deploy web", &["Name:", "web", "Replicas:", "Pod Template:"]).await;
    kubectl.ok("get deploy web -o jsonpath={.spec.replicas}", &["2"]).await;
    kubectl.ok_with("apply --server-side -f -", &config_map("ssa"), &["serverside-applied"]).await;
    kubectl.ok_with("apply --server-side -f -", &config_map("ssa"), &["serverside-applied"]).await;
    kubectl.ok("create configmap one --from-literal=a=b", &["created"]).await;
    kubectl.ok("create secret generic s --from-literal=a=b", &["created"]).await;
    kubectl.ok("create ns other", &["created"]).await;
    kubectl.ok("create sa robot", &["created"]).await;
    kubectl.ok("create token robot", &["ey"]).await;
    kubectl.ok("get cm -A --chunk-size=1", &["one", "ssa", "DATA"]).await;
    kubectl.ok("get cm one -o yaml", &["a: b"]).await;
    kubectl.ok("get all", &["deployment.apps/web"]).await;
    kubectl.ok("wait --for=jsonpath={.spec.paused}=true deploy/web --timeout=5s", &["condition met"]).await;
    kubectl.ok("delete deploy web --wait", &["deleted"]).await;
    kubectl.ok("delete cm --all", &["deleted"]).await;
    let (success, text) = kubectl.run("get pod none").await;
    assert!(!success && text.contains("Error from server (NotFound): pods \"none\" not found"), "{text}");
    kubectl.server.shutdown();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_and_custom_resources() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.ok_with("apply -f -", &cron_tab_crd(), &["created"]).await;
    kubectl
        .ok(
            "wait --for=condition=Established crd/crontabs.stable.example.com --timeout=5s",
            &["condition met"],
        )
        .await;
    let tab = json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "tab"}, "spec": {"cronSpec": "* * * * */5", "replicas": 2}});
    kubectl.ok_with("apply -f -", &tab, &["crontab.stable.example.com/tab created"]).await;
    kubectl.ok("get ct", &["NAME", "SPEC", "tab", "* * * * */5"]).await;
    kubectl.ok("explain crontab.spec", &["cronSpec"]).await;
    kubectl.ok("explain deployment.spec.replicas", &["integer"]).await;
    kubectl.ok("describe ct tab", &["Cron Spec:"]).await;
    kubectl.ok("scale ct tab --replicas=3", &["scaled"]).await;
    let mut bad = tab.clone();
    bad["spec"]["foo"] = json!(1);
    let (success, text) = kubectl.run_with("apply -f -", &bad.to_string()).await;
    assert!(!success && text.contains("unknown field \"spec.foo\""), "{text}");
    kubectl.ok("delete ct tab", &["deleted"]).await;
    kubectl.ok("delete crd crontabs.stable.example.com", &["deleted"]).await;
    kubectl.server.shutdown();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_and_rights() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.ok("auth can-i create pods", &["yes"]).await;
    kubectl.ok("auth whoami", &["kubernetes-admin", "system:masters"]).await;
    let (_, text) = kubectl.run("auth can-i list secrets --as bob").await;
    assert!(text.contains("no"), "{text}");
    kubectl.ok("create role r --verb=get,list --resource=pods", &["created"]).await;
    kubectl.ok("create rolebinding b --role=r --user=bob", &["created"]).await;
    kubectl.ok("auth can-i list pods --as bob", &["yes"]).await;
    kubectl.ok("auth can-i --list --as bob", &["pods", "[get list]"]).await;
    kubectl.ok("get pods --as bob", &["No resources found"]).await;
    let (success, text) = kubectl.run("get secrets --as bob").await;
    assert!(!success, "{text}");
    assert!(text.contains("Error from server (Forbidden): secrets is forbidden: User \"bob\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\""), "{text}");
    kubectl.server.shutdown();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_and_the_node() {
    let Some(kubectl) = Kubectl::start() else { return };
    service_account(&kubectl.server, "default", "default").await;
    let mut object = pod("a");
    object["spec"]["nodeName"] = json!("olm-node");
    object["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080}]);
    kubectl.ok_with("apply -f -", &object, &["created"]).await;
    let (success, text) = kubectl.run("logs a").await;
    assert!(!success && text.contains("requires a node agent"), "{text}");
    kubectl.server.set_backend(std::sync::Arc::new(FakeNode));
    kubectl.ok("logs a --tail=5", &["log of default/a/c Some(5)"]).await;
    kubectl.ok("logs -f a", &["log of default/a/c"]).await;
    let (success, text) = kubectl.run("logs a -c none").await;
    assert!(!success && text.contains("container none is not valid for pod a"), "{text}");
    patch(
        &kubectl.server,
        "merge-patch+json",
        "/api/v1/namespaces/default/pods/a/status",
        json!({"status": {"phase": "Running", "podIP": "10.244.0.9"}}),
    )
    .await;
    kubectl.ok("exec a -- echo hi", &["echo hi", "to stderr"]).await;
    let (success, text) = kubectl.run_with("exec -i a -- cat", "shout").await;
    assert!(success && text.contains("SHOUT"), "{text}");
    let (success, text) = kubectl.run("exec a -- fail").await;
    assert!(!success && text.contains("exit code 7"), "{text}");
    kubectl
        .ok(
            "get --raw /api/v1/namespaces/default/pods/a:8080/proxy/x/y?z=1",
            &["10.244.0.9:8080 saw GET /x/y?z=1 HTTP/1.1"],
        )
        .await;
    let (success, text) =
        kubectl.run("get --raw /api/v1/namespaces/default/services/kubernetes2/proxy/").await;
    assert!(!success && text.contains("NotFound"), "{text}");
    kubectl.server.shutdown();
}
